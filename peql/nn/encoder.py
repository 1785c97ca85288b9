"""What comes before the symbolic network: an encoder of images, and its latent variables."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn


class ImageEncoder(nn.Sequential):
    """The encoder of the paper's spring chapter: two convolutions and three dense layers.

    For images that are rows of ``n_pixels``. The convolutions are linear, as in the authors'
    code, and halve the image by their stride instead of max-pooling.

    >>> import torch
    >>> ImageEncoder()(torch.zeros(10, 64)).shape
    torch.Size([10, 1])
    """

    def __init__(self, n_pixels: int = 64, n_latent: int = 1, channels: int = 8, width: int = 64):
        super().__init__(
            nn.Unflatten(-1, (1, n_pixels)),
            nn.Conv1d(1, channels, kernel_size=5, stride=2, padding=2),
            nn.Conv1d(channels, channels, kernel_size=5, stride=2, padding=2),
            nn.Flatten(),
            nn.Linear(channels * -(-n_pixels // 4), width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, n_latent),
        )


class Latent(nn.Module):
    """One ``encoder`` for all images of a row, then batch normalisation.

    >>> import torch
    >>> Latent(ImageEncoder(), n_latent=1)(torch.rand(10, 2, 64)).shape   # (row, image, pixel)
    torch.Size([10, 2])
    """

    def __init__(self, encoder: nn.Module, n_latent: int):
        super().__init__()
        self.encoder = encoder
        self.norm = nn.BatchNorm1d(n_latent, affine=False)

    def forward(self, images: Tensor) -> Float[Tensor, "row latent"]:
        """(row, image, ...) → the latent variables of the first image, of the second, ..."""
        return self.norm(self.encoder(images.flatten(0, 1))).reshape(len(images), -1)
