"""Equations behind an encoder: SEQL and HEQL on what a network reads from images.

One encoder, any ``nn.Module``, turns each image of a row into latent variables; the symbolic
network behind it turns those into y. Both are trained end to end.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import sympy
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from tqdm import tqdm

from .. import primitives as P
from ..engine.moves import as_trained, refine
from ..engine.rows import Scales, by_step
from ..engine.solver import Fit, Points
from ..engine.threads import one_thread
from ..engine.training import (
    Descent,
    head_descent,
    l0_factor,
    learning_rate_factor,
    smoothness_loss,
)
from ..nn.encoder import ImageEncoder, Latent
from ..nn.network import SymbolicNetwork
from ..nn.weights import MetaWeights, StackedWeights
from ..solution import Solution
from ._solved import Solved
from .checks import check_column, check_encoder, check_images

HALF = 0.5  # the head sees half of a latent of unit variance: about [-1, 1], as it is made for
GATE_RATE = 1e-2
POLISH_RATE = 2.0  # in units of the encoder's base rate
CYCLE = 5 / 6  # of the paper's schedule: in the rest its rate is a ten-thousandth
POLISHES = 2  # times that encoder and equation are trained on together and the head is refined
BATCH = 256  # rows of a training step
BLOCK = 8192  # rows encoded at once after training
SMALLEST_STEP = 4  # fewer rows at one t are an error


@dataclass(frozen=True)
class Rows:
    """The training rows, sorted into steps of t.

    ``images`` (row, image, ...), ``y`` (row,) in units of its root mean square, ``t`` (step,)
    raw, ``index`` (step, point) of rows and ``mask`` of what is no padding, ``count`` (step,)
    """

    images: Tensor
    y: Tensor
    t: np.ndarray
    index: Tensor
    mask: Tensor
    count: Tensor

    @classmethod
    def of(cls, images: Tensor, t: np.ndarray, y: np.ndarray, random: np.random.Generator) -> Rows:
        """Rows of a step are put in random order, the same however they came."""
        order = np.lexsort((images.flatten(1).double().sum(1).numpy(), y, t))
        values, step = np.unique(t, return_inverse=True)
        index, mask = by_step(step, len(values), order[random.permutation(len(t))])
        arrays = (torch.from_numpy(a) for a in (index, mask, mask.sum(axis=1)))
        return cls(images, torch.from_numpy(y), values, *arrays)

    def draw(self, most_steps: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A batch: at most so many steps (step,), and random rows (step, point) of each."""
        steps = torch.randperm(len(self.t), generator=generator)[: min(most_steps, BATCH)]
        points = BATCH // len(steps)
        place = torch.rand(len(steps), points, generator=generator) * self.count[steps, None]
        return steps, self.index[steps[:, None], place.long()]

    def points(self, latent: Float[Tensor, "row latent"]) -> Points:
        """What a refinement takes, with the latent variables as features."""
        basis = self.mask.new_ones(*self.mask.shape, 1)
        y = self.y[self.index] * self.mask
        return Points(HALF * latent[self.index] * self.mask[..., None], y, self.mask, basis)


@dataclass(kw_only=True, eq=False, repr=False)
class EncodedRegressor(BaseEstimator):
    """What all models behind an encoder share: input, end-to-end training, the latent variables.

    Args:
        encoder: ``nn.Module`` that maps (row, ...) to (row, latent); a copy is trained from the
            state it has. None: ``ImageEncoder``, initialised by ``random_state``.
        max_iter: gradient steps of the end-to-end training.
        polish_iter: gradient steps of each polish that follows.
        encoder_learning_rate: base rate of the encoder; the paper's one-cycle multiplies it.
        verbose: show a progress bar when run in a terminal.
        random_state: seed; the same seed gives the same model.
    """

    _steps_per_batch: ClassVar[int] = 64

    encoder: nn.Module | None = None
    max_iter: int = 1250
    polish_iter: int = 500
    encoder_learning_rate: float = 1e-3
    verbose: bool = True
    random_state: int | np.random.RandomState | None = None

    def fit(self, images: Any, t: Any, y: Any) -> EncodedRegressor:
        """Train on ``images`` (row, image, ...), with ``t`` and ``y`` (row,)."""
        self._check_parameters()
        self.varying_name_ = str(getattr(t, "name", None) or "t")
        target = str(getattr(y, "name", None) or "y")
        pictures, t = check_images(images), check_column("t", t)
        y = check_column("y", y)
        if not len(pictures) == len(t) == len(y):
            raise ValueError(
                f"images has {len(pictures)} rows, t {len(t)} and y {len(y)}: expected as many "
                "of each"
            )
        self._check_steps(t)
        seed = int(check_random_state(self.random_state).randint(2**31))
        self.image_shape_ = tuple(pictures.shape[1:])
        self.y_scale_ = float(np.sqrt(np.mean(y**2))) or 1.0
        self.known_t_ = np.unique(t)
        self.target_name_ = target
        rows = Rows.of(pictures, t, y / self.y_scale_, np.random.default_rng(seed))
        # The user's random numbers go on as they were.
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            encoder = self._make_encoder()
            self.n_latent_ = check_encoder(encoder, pictures)
            self.latent_network_ = Latent(encoder, self.n_latent_)
            self._fit_head(rows, torch.Generator().manual_seed(seed + 1))
        self.latent_network_.eval()
        return self

    def _make_encoder(self) -> nn.Module:
        if self.encoder is not None:
            return copy.deepcopy(self.encoder)
        if len(self.image_shape_) != 2:
            raise ValueError(
                f"images has rows of shape {self.image_shape_}, and the default encoder takes "
                "(image, pixel): pass an nn.Module as encoder"
            )
        return ImageEncoder(n_pixels=self.image_shape_[1])

    def _check_parameters(self) -> None:
        for name, least in (("max_iter", 1), ("polish_iter", 0), ("n_layers", 1)):
            value = getattr(self, name, least)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}")
        for name in ("encoder_learning_rate", "l0_weight", "smoothness"):
            value = getattr(self, name, 0.0)
            if not isinstance(value, (int, float, np.number)) or not 0 <= value < np.inf:
                raise ValueError(f"{name}={value!r}: expected a finite number of at least 0")
        if self.encoder is not None and not isinstance(self.encoder, nn.Module):
            raise ValueError(f"encoder={self.encoder!r}: expected an nn.Module or None")

    def _check_steps(self, t: np.ndarray) -> None:
        values, counts = np.unique(t, return_counts=True)
        short = values[counts < SMALLEST_STEP]
        if len(short):
            raise ValueError(
                f"{len(short)} of {len(values)} values of {self.varying_name_} have fewer than "
                f"{SMALLEST_STEP} rows, the first is {short[0]:g}: the equation is solved at each "
                "value on its own rows. Drop those, or round t so that rows share values"
            )

    @abstractmethod
    def _fit_head(self, rows: Rows, generator: torch.Generator) -> None:
        """Build what stands behind ``latent_network_`` and train both."""

    def _train(
        self,
        rows: Rows,
        generator: torch.Generator,
        n_iter: int,
        head: Callable[[Tensor, Tensor], Tensor],
        move: Callable[[float], None],
        penalty: Callable[[float], Tensor | float] = lambda r: 0.0,
        label: str = "training",
    ) -> None:
        """Descend the error of ``head``: latent (step, point, feature), steps → y (step, point).

        ``move`` steps the optimisers and forgets the gradients; it and ``penalty`` are told the
        progress from 0 to 1.
        """
        y = rows.y.float()
        loss = torch.zeros(())
        hidden = None if self.verbose else True  # None: shown in a terminal only
        for i in tqdm(range(n_iter), desc=label, disable=hidden, leave=False):
            steps, chosen = rows.draw(self._steps_per_batch, generator)
            z = self.latent_network_(rows.images[chosen.flatten()]).unflatten(0, chosen.shape)
            loss = (head(HALF * z, steps) - y[chosen]).square().mean() + penalty(i / n_iter)
            loss.backward()
            move(i / n_iter)
        if not loss.isfinite():
            raise RuntimeError(
                f"{label} diverged: scale the images to about [-1, 1], or lower "
                f"encoder_learning_rate={self.encoder_learning_rate}"
            )

    def latent(self, images: Any) -> np.ndarray:
        """The latent variables (row, image × latent) of ``images`` (row, image, ...)."""
        check_is_fitted(self, "latent_network_")
        pictures = check_images(images)
        if tuple(pictures.shape[1:]) != self.image_shape_:
            raise ValueError(
                f"images has rows of shape {tuple(pictures.shape[1:])}: expected "
                f"{self.image_shape_}, (image, ...) as in fit"
            )
        return self._latent(pictures).numpy()

    @torch.no_grad()
    def _latent(self, pictures: Tensor) -> Tensor:
        """In float64, in evaluation mode, in blocks to bound the memory."""
        self.latent_network_.eval()
        return torch.cat([self.latent_network_(part).double() for part in pictures.split(BLOCK)])

    def _scaled(self, t: np.ndarray) -> Float[Tensor, "step 1"]:
        """``t`` (step,), the training values mapped to [-1, 1]."""
        low, high = self.known_t_[0], self.known_t_[-1]
        return torch.from_numpy(2 * (t - low) / (high - low) - 1 if high > low else 0 * t)[:, None]

    def _check_prediction(self, images: Any, t: Any) -> tuple[Tensor, np.ndarray]:
        z, t = torch.from_numpy(self.latent(images)), check_column("t", t)
        if len(z) != len(t):
            raise ValueError(f"images has {len(z)} rows and t {len(t)}: expected as many of each")
        return z, t


@dataclass(kw_only=True, eq=False, repr=False)
class _EncodedSymbolic(Solved, EncodedRegressor):
    """A symbolic network behind an encoder.

    Args:
        primitives, n_layers: of the symbolic network, as in ``peql.SEQL``.
        l0_weight: price of an open gate.

    Attributes:
        latent_network_: the trained ``peql.nn.Latent``. The equation is in the latent variables z1,
            z2, ... of the images; z1_1, z1_2, ... where an image has several.
    """

    _weights: ClassVar[str]
    _learning_rate: ClassVar[float]

    primitives: P.PrimitiveChoice = "default"
    n_layers: int = 2
    l0_weight: float = 3e-3

    def _fit_head(self, rows: Rows, generator: torch.Generator) -> None:
        self.feature_names_ = _latent_names(rows.images.shape[1], self.n_latent_)
        self._head = SymbolicNetwork(
            len(self.feature_names_),
            weights=self._weights,
            n_steps=len(rows.t),
            primitives=self.primitives,
            n_layers=int(self.n_layers),
        )
        self._train_together(rows, generator)
        self._head.eval().double()
        kinds = [kind for kind, _ in self._head.layout.kinds]
        points = rows.points(self._latent(rows.images))
        fit = refine(self._trained(rows, points), points, kinds)
        for _ in range(POLISHES):
            if not self.polish_iter or not fit.constant:  # y = 0: nothing to train
                break
            self._polish(fit, rows, generator)
            points = rows.points(self._latent(rows.images))
            fit = refine(fit, points, kinds)
        self._keep(fit, rows, points)

    def _train_together(self, rows: Rows, generator: torch.Generator) -> None:
        network, t = self._head, self._scaled(rows.t).float()
        optimiser = head_descent(network, self._learning_rate, GATE_RATE)
        encoder = adam(self.latent_network_.parameters(), self.encoder_learning_rate)

        def head(z: Tensor, steps: Tensor) -> Tensor:
            noise = torch.rand(1, network.n_weights, generator=generator)
            meta = isinstance(network.weights, MetaWeights)
            return network(z, t[steps] if meta else steps, noise)[..., 0]

        def penalty(r: float) -> Tensor:
            price = self.l0_weight * network.gates.l0() + self._roughness()
            return l0_factor(CYCLE * r) * price.sum()

        def move(r: float) -> None:
            optimiser.step(learning_rate_factor(CYCLE * r))
            encoder.step(learning_rate_factor(CYCLE * r))

        self.latent_network_.train()
        network.train()
        self._train(rows, generator, self.max_iter, head, move, penalty)

    def _roughness(self) -> Tensor | float:
        """A price for weights that jump between steps."""
        return 0.0

    @torch.no_grad()
    def _trained(self, rows: Rows, points: Points) -> Fit:
        """The formula of the trained head."""
        meta = isinstance(self._head.weights, MetaWeights)
        steps = self._scaled(rows.t) if meta else None
        weights = self._head.weights(steps) * self._head.gates.expected()[:, None]
        return as_trained(self._head.layout, self._head.shapes, weights[0], points)

    def _polish(self, fit: Fit, rows: Rows, generator: torch.Generator) -> None:
        """Train the encoder on, together with the few weights of the formula, error alone.

        Batch normalisation keeps its statistics, so that an image has one latent value.
        """
        start = fit.weights[..., 0].float()
        leaves = [
            nn.Parameter(column[:1].clone() if constant else column.clone())
            for column, constant in zip(start.unbind(1), fit.constant, strict=True)
        ]
        rate = POLISH_RATE * self.encoder_learning_rate
        optimiser = adam([*self.latent_network_.parameters(), *leaves], rate)

        def head(z: Tensor, steps: Tensor) -> Tensor:
            return fit.formula([w.expand(len(rows.t))[steps, None] for w in leaves], z)

        self.latent_network_.train()
        self.latent_network_.norm.eval()
        self._train(
            rows,
            generator,
            self.polish_iter,
            head,
            lambda r: optimiser.step((1 - r) ** 2),
            label="polishing",
        )

    def _keep(self, fit: Fit, rows: Rows, points: Points) -> None:
        n = len(self.feature_names_)
        low, high = rows.t[0], rows.t[-1]
        scales = Scales(
            np.full(n, 1 / HALF),
            np.zeros(n),
            self.y_scale_,
            np.array([(low + high) / 2]),
            np.array([(high - low) / 2 or 1.0]),
        )
        self.solution_ = Solution.of(
            fit,
            points,
            t=rows.t[:, None],
            scales=scales,
            features=tuple(self.feature_names_),
            varying=(self.varying_name_,),
            target=self.target_name_,
            source=self._weights,
        )
        self.trials_ = pd.DataFrame(
            {
                "method": ["network"],
                "train_error": [self.y_scale_**2 * fit.pooled_error(points)],
                "equation": [str(self.equation_)],
            }
        ).rename_axis("trial")
        del self._head

    def predict(self, images: Any, t: Any) -> np.ndarray:
        """y for each row of ``images`` (row, image, ...) and ``t`` (row,)."""
        z, t = self._check_prediction(images, t)
        return self.solution_.predict(z.numpy(), t[:, None])

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = super()._state()
        names = ("image_shape_", "n_latent_", "y_scale_", "varying_name_", "target_name_")
        header |= {"fitted": {name: getattr(self, name) for name in names}}
        header["own_encoder"] = self.encoder is not None
        latent = {f"latent.{k}": v.numpy() for k, v in self.latent_network_.state_dict().items()}
        return header, {**arrays, **latent}

    def _restore(
        self,
        header: dict[str, Any],
        arrays: dict[str, np.ndarray],
        encoder: nn.Module | None = None,
    ) -> None:
        super()._restore(header, arrays)
        for name, value in header["fitted"].items():
            setattr(self, name, tuple(value) if name == "image_shape_" else value)
        if header["own_encoder"] and encoder is None:
            raise ValueError("it has an encoder of its own: pass peql.load(..., encoder=...)")
        self.encoder = encoder
        self.known_t_ = self.solution_.t[:, 0]
        self.feature_names_ = list(self.solution_.features)
        state = {
            k.removeprefix("latent."): torch.from_numpy(v)
            for k, v in arrays.items()
            if k.startswith("latent.")
        }
        self.latent_network_ = Latent(self._make_encoder(), self.n_latent_)
        self.latent_network_.load_state_dict(state)
        self.latent_network_.eval()

    def score(self, images: Any, t: Any, y: Any) -> float:
        """The share of y's variance that is explained, R²."""
        return float(r2_score(check_column("y", y), self.predict(images, t)))


@dataclass(kw_only=True, eq=False, repr=False)
class EncodedSEQL(_EncodedSymbolic):
    """SEQL behind an encoder: weights of its own at each t, shared gates.

    >>> import peql
    >>> data = peql.datasets.load("spring_force", n_t=4, n_train=128, n_test=4)
    >>> few = {"primitives": ["identity"], "n_layers": 1, "max_iter": 300, "polish_iter": 0}
    >>> model = EncodedSEQL(**few, random_state=0)
    >>> model.fit(data.images_train, data.X_train["t"], data.y_train).equation_
    z1*a(t) + z2*b(t)
    """

    _weights = "stacked"
    _learning_rate = 1e-2
    _steps_per_batch = BATCH  # weights of a step that a batch leaves out would not move

    smoothness: float = 1e-5

    def _roughness(self) -> Tensor | float:
        weights = self._head.weights
        assert isinstance(weights, StackedWeights)
        return self.smoothness * smoothness_loss(weights()) if self.smoothness else 0.0


class EncodedHEQL(_EncodedSymbolic):
    """HEQL behind an encoder: a small network computes the weights from t; predicts at any t.

    >>> EncodedHEQL(random_state=0).get_params()["random_state"]
    0
    """

    _weights = "meta"
    _learning_rate = 1e-3


@dataclass(frozen=True)
class LinearMap:
    """The line through latent values over true positions, latent ≈ slope × position + offset.

    ``r`` is the correlation. The line carries an equation in the latent variables over to the
    positions.

    >>> line = LinearMap.of(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]))
    >>> z, t = sympy.symbols("z t")
    >>> line.carry(sympy.Float(3) * z, {"z": "psi"})
    6.0*psi + 3.0
    """

    slope: float
    offset: float
    r: float

    @classmethod
    def of(cls, position: np.ndarray, latent: np.ndarray) -> LinearMap:
        """Least squares over all rows and images; the two have the same shape."""
        if np.shape(position) != np.shape(latent):
            raise ValueError(
                f"position has shape {np.shape(position)} and latent {np.shape(latent)}: "
                "expected the same, (row, image)"
            )
        position, latent = np.ravel(position), np.ravel(latent)
        slope, offset = np.polyfit(position, latent, 1)
        return cls(float(slope), float(offset), float(np.corrcoef(position, latent)[0, 1]))

    def carry(self, equation: sympy.Expr, names: Mapping[str, str]) -> sympy.Expr:
        """``equation`` with each latent variable replaced by the line over its position."""
        lines = {
            sympy.Symbol(z): self.slope * sympy.Symbol(psi) + self.offset
            for z, psi in names.items()
        }
        return sympy.expand(equation.subs(lines))


def adam(parameters: Iterable[Tensor], rate: float) -> Descent:
    """torch's Adam on those parameters that learn."""
    return Descent(
        torch.optim.Adam([p for p in parameters if p.requires_grad], lr=rate, foreach=True)
    )


def _latent_names(n_images: int, n_latent: int) -> list[str]:
    """The names of the latent variables, image by image.

    >>> _latent_names(2, 1), _latent_names(1, 2)
    (['z1', 'z2'], ['z1_1', 'z1_2'])
    """
    images = [f"z{i}" for i in range(1, n_images + 1)]
    if n_latent == 1:
        return images
    return [f"{image}_{k}" for image in images for k in range(1, n_latent + 1)]
