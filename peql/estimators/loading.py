"""``peql.load``: a saved model again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from .. import primitives
from .._suggest import unknown_name
from . import checkpoint
from .encoded import EncodedHEQL, EncodedSEQL
from .tabular import EQL, HEQL, SEQL

MODELS: dict[str, type] = {cls.__name__: cls for cls in (EQL, SEQL, HEQL, EncodedSEQL, EncodedHEQL)}


def load(path: str | os.PathLike[str], *, encoder: nn.Module | None = None) -> Any:
    """Read a model written by ``model.save(path)``; loading cannot run code.

    A model with primitives of your own needs them registered first, see ``peql.primitives``; one
    with an ``encoder`` of your own needs such an encoder, whose weights are then set.

    >>> import tempfile, peql
    >>> data = peql.datasets.load("f3", n_t=8, n_train=64)
    >>> model = peql.SEQL(varying="t", random_state=0).fit(data.X_train, data.y_train)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/f3.peql")
    ...     again = load(f"{folder}/f3.peql")
    >>> again.equation_, bool((again.predict(data.X_test) == model.predict(data.X_test)).all())
    (x*a(t), True)
    """
    header, arrays = checkpoint.read(path)
    with _told(path, header):
        names = [str(name) for name, _ in header["solution"]["units"]]
    for name in names:
        primitives.get(name)  # one that is not registered is named here
    with _told(path, header):
        if header["model"] not in MODELS:
            raise unknown_name("model", header["model"], MODELS)
        model = MODELS[header["model"]](**header["parameters"])
        model._restore(header, arrays, **({"encoder": encoder} if encoder is not None else {}))
    return model


@contextmanager
def _told(path: str | os.PathLike[str], header: dict[str, Any]) -> Iterator[None]:
    """Whatever goes wrong with what a file holds is one clear error."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{os.fspath(path)} is damaged or of another version ({header.get('peql_version')}): "
            f"what it holds does not fit together ({error}); save the model again"
        ) from error
