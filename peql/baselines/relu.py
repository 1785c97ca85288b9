"""The paper's rival behind an encoder: a dense ReLU network of the latent variables and t."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..engine.training import learning_rate_factor
from ..estimators.encoded import CYCLE, HALF, POLISHES, EncodedRegressor, Rows, adam

WIDTH = 64


class EncodedReLU(EncodedRegressor):
    """The same encoder with dense layers where the symbolic network was; it finds no equation.

    It is trained for as many steps as a symbolic network and its polishes.

    >>> model = EncodedReLU(max_iter=2, polish_iter=0, random_state=0)
    >>> images, t, y = np.random.default_rng(0).random((40, 2, 64)), np.arange(40) % 4, np.ones(40)
    >>> model.fit(images, t, y).predict(images, t).shape
    (40,)
    """

    def _fit_head(self, rows: Rows, generator: torch.Generator) -> None:
        n_inputs = rows.images.shape[1] * self.n_latent_ + 1
        self.network_ = nn.Sequential(
            nn.Linear(n_inputs, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, 1),
        )
        t = self._scaled(rows.t).float()
        parameters = [*self.latent_network_.parameters(), *self.network_.parameters()]
        optimiser = adam(parameters, self.encoder_learning_rate)

        def head(z: Tensor, steps: Tensor) -> Tensor:
            column = t[steps, None].expand(*z.shape[:-1], 1)
            return self.network_(torch.cat([z, column], dim=-1))[..., 0]

        self.latent_network_.train()
        n_iter = self.max_iter + POLISHES * self.polish_iter
        self._train(
            rows, generator, n_iter, head, lambda r: optimiser.step(learning_rate_factor(CYCLE * r))
        )
        self.network_.double()

    @torch.no_grad()
    def predict(self, images: Any, t: Any) -> np.ndarray:
        """y for each row of ``images`` (row, image, ...) and ``t`` (row,)."""
        z, t = self._check_prediction(images, t)
        inputs = torch.cat([HALF * z, self._scaled(t)], dim=1)
        return self.y_scale_ * self.network_(inputs)[:, 0].numpy()
