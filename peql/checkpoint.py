"""Saving and loading fitted models: arrays and JSON in one ``.npz`` file, never code."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import torch

from . import estimators, primitives
from .refinement import Formula
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
        "parameters": parameters,
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
        **{f"network.{k}": v.numpy() for k, v in model.network_.state_dict().items()},
    }
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, **arrays)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model written by ``model.save(path)``; loading cannot run code.

    A model with primitives of your own needs them registered first, see ``peql.primitives``.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays["header"]))
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}")
        cls = MODELS[header["model"]]
    except FileNotFoundError:
        raise
    except (BadZipFile, EOFError, KeyError, ValueError, TypeError, OSError) as error:
        raise ValueError(
            f"{os.fspath(path)} is not a whole peql model ({error}): expected a file that "
            f"model.save wrote, format {FORMAT}"
        ) from error
    model = cls(**header["parameters"])
    kinds = primitives.resolve(model.primitives)  # an unregistered primitive is named here
    try:
        _fill(model, header, arrays)
    except (KeyError, IndexError, ValueError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"{os.fspath(path)} is damaged: its {len(kinds)} primitives and stored arrays do not "
            f"fit together ({error}); save the model again"
        ) from error
    return model


def _fill(model: Any, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Set the fitted attributes from the file."""
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
    model.network_ = model._network(len(model.t_), 1).double().eval()
    prefix = "network."
    state = {
        k[len(prefix) :]: torch.from_numpy(v) for k, v in arrays.items() if k.startswith(prefix)
    }
    model.network_.load_state_dict(state)
    model.formula_ = Formula(
        model.network_.layout, model.network_.shapes, [int(k) for k in arrays["open"]]
    )
    model._set_equation()
