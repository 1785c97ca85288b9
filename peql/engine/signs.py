"""Signs that a formula leaves open are chosen by one rule, so that every run reads the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ..primitives import Primitive
from .solver import Fit


def settle_signs(fit: Fit) -> Fit:
    """Choose, at every step, one of the signs that an odd or even unit leaves open.

    a sin(b x) is -a sin(-b x), and (b x)² is (-b x)²: training and solving may end at either, at
    each step anew. The choice is the one that makes the weights change least from step to step, so
    a weight that can be constant is; overall the first weight of the argument is positive.
    """
    formula, weights = fit.formula, fit.weights.clone()
    once = Counter(formula.columns())
    for i, unit in enumerate(formula.units):
        for k, argument in enumerate(unit.arguments):
            parity = _parity(unit.primitive, k)
            inner = [column for column, _ in argument]
            outer = [c for c, _ in formula.readers(formula.n_features + i)] if parity < 0 else []
            columns = [c for c in (*inner, *outer) if isinstance(c, int)]
            whole = len(columns) == len(inner) + len(outer)  # none of them is a number of the form
            alone = all(once[c] == 1 for c in columns)
            if not (parity and whole and alone) or any(fit.constant[c] for c in columns):
                continue
            weights[:, columns] *= _smoothest_signs(weights[:, columns, 0])[:, None, None]
    return replace(fit, weights=weights)


def _smoothest_signs(values: Float[Tensor, "step weight"]) -> Float[Tensor, " step"]:
    """A sign for each step, which multiplies all weights of it."""
    size = values.square().mean(0).sqrt().clamp(min=1e-300)
    unit = values / size
    choices = [torch.where(column < 0, -1.0, 1.0).to(values) for column in unit.unbind(1)]
    choices.append(_continued(unit))

    def roughness(signs: Tensor) -> float:
        return float((unit * signs[:, None]).diff(dim=0).abs().sum())

    costs = [roughness(signs) for signs in choices]
    # The first that is as smooth as any: which one is the smallest may be a matter of rounding.
    signs = choices[next(i for i, cost in enumerate(costs) if cost <= 1.001 * min(costs) + 1e-9)]
    return signs if leading_sign((values[:, 0] * signs).numpy()) > 0 else -signs


def _continued(values: Float[Tensor, "step weight"]) -> Float[Tensor, " step"]:
    """Signs such that each step goes on from the line through the two before."""
    signs = values.new_ones(len(values))
    for k in range(1, len(values)):
        before = values[k - 1] * signs[k - 1]
        further = 2 * before - values[k - 2] * signs[k - 2] if k > 1 else before
        here = values[k]
        if float((here + further).abs().sum()) < float((here - further).abs().sum()):
            signs[k] = -1.0
    return signs


def _parity(primitive: Primitive, argument: int) -> int:
    """1 if the primitive is even in an argument, -1 if odd, 0 if neither."""
    probe = torch.linspace(0.1, 1.3, 7, dtype=torch.float64)
    values = [probe * (1 + k) for k in range(primitive.arity)]
    turned = [-v if k == argument else v for k, v in enumerate(values)]
    there, back = primitive.torch(*values), primitive.torch(*turned)
    for parity in (1, -1):
        if torch.allclose(back, parity * there, rtol=1e-9, atol=1e-12):
            return parity
    return 0


def leading_sign(values: np.ndarray) -> int:
    """The sign of a curve (step,): that of its last value that is not small.

    The same on every machine, also for a curve that is as long above 0 as below.

    >>> leading_sign(np.array([-3.0, 1e-17, 3.0]))
    1
    """
    size = np.abs(values)
    large = values[size >= size.max(initial=0.0) / 2]
    return -1 if len(large) and large[-1] < 0 else 1
