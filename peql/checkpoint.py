"""Saving and loading fitted models: arrays and JSON in one ``.npz`` file, never code."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from . import estimators, primitives
from .formula import Formula
from .tables import Scales

FORMAT = "peql-model-1"
MODELS = {cls.__name__: cls for cls in (estimators.EQL, estimators.SEQL, estimators.HEQL)}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write ``model`` to ``path``; the file appears whole or not at all."""
    estimators.check_is_fitted(model, "network_")
    kinds = primitives.resolve(model.primitives)
    parameters = {**model.get_params(), "primitives": {p.name: n for p, n in kinds}}
    header = {
        "format": FORMAT,
        "model": type(model).__name__,
        "parameters": {k: _plain(v) for k, v in parameters.items()},
        "columns": model._columns,
        "named": hasattr(model, "feature_names_in_"),
        "best_trial": model.best_trial_,
        "trials": model.trials_.to_dict(orient="list"),
        "y_scale": model.scales_.y,
    }
    arrays = {
        "header": np.array(json.dumps(header)),
        "open": np.array(model.formula_.open, dtype=np.int64),
        "t": model.t_,
        "x_scale": model.scales_.x,
        "t_centre": model.scales_.t_centre,
        "t_half": model.scales_.t_half,
        "coefficient_errors": model.coefficient_errors_.to_numpy(),
        **{f"network.{k}": v.numpy() for k, v in model.network_.state_dict().items()},
    }
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target}: there is no folder {target.parent}; make it first")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; pass the path of a file")
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            np.savez_compressed(file, **arrays)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """A parameter as JSON has it; a random generator is not kept."""
    if isinstance(value, np.generic):
        return value.item()
    return None if isinstance(value, np.random.RandomState) else value


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model written by ``model.save(path)``; loading cannot run code.

    A model with primitives of your own needs them registered first, see ``peql.primitives``.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = json.loads(str(arrays["header"]))
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}")
        model = MODELS[header["model"]](**header["parameters"])
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:  # a file can be broken in more ways than one can list
        raise ValueError(
            f"{os.fspath(path)} is not a whole peql model ({error}): expected a file that "
            f"model.save wrote, format {FORMAT}"
        ) from error
    primitives.resolve(model.primitives)  # an unregistered primitive is named here
    try:
        _fill(model, header, arrays)
    except Exception as error:
        raise ValueError(
            f"{os.fspath(path)} is damaged: what it holds does not fit together ({error}); "
            "save the model again"
        ) from error
    return model


def _fill(model: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Set the fitted attributes from the file."""
    for name, values in arrays.items():
        if name not in ("header", "coefficient_errors") and not np.isfinite(values).all():
            raise ValueError(f"{name} has values that are NaN or infinite")
    model.n_features_in_ = len(header["columns"])
    if header["named"]:
        model.feature_names_in_ = np.array(header["columns"], dtype=object)
    model._read_columns()
    model.t_ = arrays["t"]
    model.scales_ = Scales(
        arrays["x_scale"], float(header["y_scale"]), arrays["t_centre"], arrays["t_half"]
    )
    model.trials_ = pd.DataFrame(header["trials"]).rename_axis("trial")
    model.best_trial_ = int(header["best_trial"])
    model.network_ = model._network(len(model.t_)).double().eval()
    prefix = "network."
    state = {
        k[len(prefix) :]: torch.from_numpy(v) for k, v in arrays.items() if k.startswith(prefix)
    }
    model.network_.load_state_dict(state)
    stored = [int(k) for k in arrays["open"]]
    model.formula_ = Formula(model.network_.layout, model.network_.shapes, stored)
    if list(model.formula_.open) != stored:
        raise ValueError("the open weights are no formula of this network")
    model._set_equation()
    table = model.coefficients_
    model.coefficient_errors_ = pd.DataFrame(
        arrays["coefficient_errors"], index=table.index, columns=table.columns
    )
