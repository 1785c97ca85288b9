"""Saving fitted models: arrays and JSON in one ``.npz`` file, never code.

A file is taken apart with suspicion: what it declares is checked before anything is allocated.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import __version__
from .. import primitives as P
from ..engine.formula import Edges, Formula, Unit
from ..engine.rows import Scales
from ..solution import Solution

FORMAT = "peql-model-2"
MOST_BYTES = 2**30  # that the arrays of a file may declare in all
MOST_HEADER = 2**26  # bytes of the header among them: what it becomes in Python takes much more
MOST_MEMBERS = 1000  # arrays in a file
MOST_NODES = 100_000  # of a formula written out, where a unit that is read twice is there twice
MOST_DEPTH = 100  # units within units; SymPy's recursion ends at a few hundred
PROBES = np.array([-1.3, -0.4, 0.2, 0.9, 1.7])  # where two primitives of one name must agree

Header = dict[str, Any]
Arrays = dict[str, np.ndarray]


# --- a solution as a header and arrays ---------------------------------------------------------


def packed(solution: Solution) -> tuple[Header, Arrays]:
    """A solution as JSON and arrays."""
    formula, scales = solution.formula, solution.scales
    _check_graph(formula)
    used = {unit.primitive.name: unit.primitive for unit in formula.units}
    for primitive in used.values():
        check_registered(primitive)
    header = {
        "n_features": formula.n_features,
        "units": [[unit.primitive.name, unit.arguments] for unit in formula.units],
        "output": formula.output,
        "meaning": {name: _meaning(primitive) for name, primitive in used.items()},
        "constant": list(solution.constant),
        "features": list(solution.features),
        "varying": list(solution.varying),
        "target": solution.target,
        "source": solution.source,
        "labels": None if solution.labels is None else list(solution.labels),
        "y_scale": scales.y,
    }
    arrays = {
        "weights": solution.weights,
        "t": solution.t,
        "x_scale": scales.x,
        "x_shift": scales.x_shift,
        "t_centre": scales.t_centre,
        "t_half": scales.t_half,
    }
    for name in ("slopes", "covariance", "box"):
        value = getattr(solution, name)
        if value is not None:
            arrays[name] = value
    return header, arrays


def check_registered(primitive: P.Primitive) -> None:
    """A file names primitives: what is not registered could not be loaded."""
    if primitive.name not in P.names() or P.get(primitive.name) != primitive:
        raise ValueError(
            f"the primitive {primitive.name!r} is not registered, so the file could not be loaded: "
            "call peql.primitives.register first"
        )


def unpacked(header: Header, arrays: Arrays) -> Solution:
    """The solution of a file; whatever does not fit together is an error."""
    if len(header["units"]) > MOST_NODES:
        raise ValueError(f"its formula has {len(header['units'])} units")
    units = []
    for name, arguments in header["units"]:
        primitive = P.get(name)
        if not np.allclose(_meaning(primitive), header["meaning"][name], equal_nan=True):
            raise ValueError(f"the primitive {name!r} registered here has another meaning")
        units.append(Unit(primitive, tuple(_edges(argument) for argument in arguments)))
        if len(units[-1].arguments) != primitive.arity:
            raise ValueError(f"a unit {name!r} has {len(arguments)} arguments")
    formula = Formula(int(header["n_features"]), tuple(units), _edges(header["output"]))
    n_steps, n_weights = arrays["weights"].shape
    n_varying = len(header["varying"])
    n_features = formula.n_features
    expected = {
        "weights": (n_steps, formula.n_weights),
        "t": (n_steps, n_varying),
        "x_scale": (n_features,),
        "x_shift": (n_features,),
        "t_centre": (n_varying,),
        "t_half": (n_varying,),
        "slopes": (n_steps, n_weights, n_varying),
        "covariance": (n_steps, n_weights, n_weights),
        "box": (2, n_features),
    }
    for name, shape in expected.items():
        if name in arrays and arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, not {shape}")
        if name in arrays and arrays[name].dtype != np.float64:
            raise ValueError(f"{name} holds {arrays[name].dtype}, not float64")
        if name in arrays and not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} has values that are NaN or infinite")
    _check_graph(formula)
    for name, n, kind in (
        ("features", n_features, str),
        ("varying", n_varying, str),
        ("constant", n_weights, bool),
        ("labels", n_steps, str),
    ):
        values = header[name]
        if name == "labels" and values is None:
            continue
        if type(values) is not list or any(type(value) is not kind for value in values):
            raise ValueError(f"its {name} are no list of {kind.__name__}")
        if len(values) != n or (len(set(values)) < n and kind is str):
            raise ValueError(f"its {name} are {len(set(values))} different ones, not {n}")
    if header["source"] not in ("single", "stacked", "meta"):
        raise ValueError(f"its source of weights is {header['source']!r}")
    if n_steps < 1 or (header["source"] == "single" and n_steps > 1):
        raise ValueError(f"it has weights of {n_steps} steps")
    if n_varying == 1 and (np.diff(arrays["t"][:, 0]) <= 0).any():
        raise ValueError("its t do not ascend")
    scales = Scales(
        arrays["x_scale"],
        arrays["x_shift"],
        float(header["y_scale"]),
        arrays["t_centre"],
        arrays["t_half"],
    )
    units_of = np.concatenate([scales.x, [scales.y], scales.t_half])
    if not (np.isfinite(units_of) & (units_of > 0)).all():
        raise ValueError("the units of its columns are not all positive numbers")
    labels = header["labels"]
    return Solution(
        formula,
        arrays["weights"],
        tuple(header["constant"]),
        arrays["t"],
        scales,
        tuple(header["features"]),
        tuple(header["varying"]),
        str(header["target"]),
        header["source"],
        arrays.get("slopes"),
        arrays.get("covariance"),
        None if labels is None else tuple(labels),
        arrays.get("box"),
    )


def _edges(edges: Any) -> Edges:
    if any(c is not None and not (type(c) in (int, float) and math.isfinite(c)) for c, _ in edges):
        raise ValueError("a weight of its formula is neither a place nor a number")
    return tuple((c, int(node)) for c, node in edges)


def _check_graph(formula: Formula) -> None:
    """Each unit reads earlier nodes only, every weight stands somewhere, and it can be written out.

    Sixty units that each read the two before them are a small file and an endless equation.
    """
    for k, unit in enumerate(formula.units):
        if any(not 0 <= node < formula.n_features + k for _, node in unit.edges()):
            raise ValueError("a unit of its formula reads what comes after it")
    if any(not 0 <= node < formula.n_features + len(formula.units) for _, node in formula.output):
        raise ValueError("its output reads what is not there")
    if set(formula.columns()) != set(range(formula.n_weights)):
        raise ValueError("its weights are not numbered one by one")
    nodes, depth = [1] * formula.n_features, [0] * formula.n_features
    for unit in formula.units:
        read = [node for _, node in unit.edges()]
        nodes.append(min(1 + sum(nodes[node] for node in read), MOST_NODES + 1))
        depth.append(1 + max((depth[node] for node in read), default=0))
    written = sum(nodes[node] for _, node in formula.output)
    if written > MOST_NODES or max(depth, default=0) > MOST_DEPTH:
        raise ValueError(
            f"its formula, written out, is over {MOST_NODES:,} nodes long or {MOST_DEPTH} deep"
        )


def _meaning(primitive: P.Primitive) -> list[float]:
    """Values by which two primitives of the same name can be told apart."""
    probes = torch.from_numpy(PROBES)
    value = primitive.torch(*(probes * (1 + 0.3 * k) for k in range(primitive.arity)))
    return [float(primitive.arity), *torch.as_tensor(value).double().flatten().tolist()]


# --- files -----------------------------------------------------------------------------------


def write(path: str | os.PathLike[str], header: Header, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file that appears whole or not at all."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target}: there is no folder {target.parent}; make it first")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; pass the path of a file")
    stamped = {"format": FORMAT, "peql_version": __version__, **header}
    written = np.array(json.dumps(stamped))
    try:  # what could not be read again is not written
        _check_declared(written.nbytes + sum(a.nbytes for a in arrays.values()), written.nbytes)
    except ValueError as error:
        raise ValueError(f"the model is too large to be saved: {error}") from None
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            np.savez_compressed(file, **{"header": written, **arrays})  # type: ignore[arg-type]
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> tuple[Header, Arrays]:
    """What ``write`` wrote; the sizes that the file declares are checked first."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"{os.fspath(path)}: there is no such file")
    if not stat.S_ISREG(os.stat(path).st_mode):
        kind = "a folder" if os.path.isdir(path) else "no ordinary file"
        raise (IsADirectoryError if os.path.isdir(path) else ValueError)(
            f"{os.fspath(path)} is {kind}: expected a file that model.save wrote"
        )
    try:
        with open(path, "rb") as file:
            _check_sizes(file)
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        header = json.loads(str(arrays.pop("header")))
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}")
    except PermissionError:
        raise
    except Exception as error:  # a file can be broken in more ways than one can list
        raise ValueError(
            f"{os.fspath(path)} is not a whole peql model ({error}): expected a file that "
            f"model.save wrote, format {FORMAT}"
        ) from error
    return header, arrays


def _check_sizes(file: Any) -> None:
    sizes: dict[str, int] = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.namelist()
        if len(members) > MOST_MEMBERS or len(set(members)) < len(members):
            raise ValueError(f"it holds {len(members)} arrays, or one twice")
        for member in members:
            with archive.open(member) as part:
                version = np.lib.format.read_magic(part)
                reader = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, _, dtype = reader(part)
                sizes[member] = math.prod(int(n) for n in shape) * dtype.itemsize
    _check_declared(sum(sizes.values()), sizes.get("header.npy", 0))


def _check_declared(total: int, header: int) -> None:
    if total > MOST_BYTES:
        raise ValueError(f"it declares {total:,} bytes, and {MOST_BYTES:,} is the most")
    if header > MOST_HEADER:
        raise ValueError(f"its header has {header:,} bytes, and {MOST_HEADER:,} is the most")
