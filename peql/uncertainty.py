"""Standard errors of the coefficient functions, from the least-squares fit at each t."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from .refinement import Fit, Points, jacobian, mean_squared_error
from .symbolic import ParametricEquation
from .tables import arrange, check_table, check_target

LENT = 8  # rows of average noise that each t is lent: a t with few rows cannot tell its own
SINGULAR = 1e-10  # share of a weight's effect below which other weights can do the same
CONSTANT = 1e-9  # relative spread over t of a weight that is held equal at all t


def coefficient_errors(equation: ParametricEquation, fit: Fit, points: Points) -> np.ndarray:
    """Standard errors (step, coefficient) of the ``equation`` read from a fit to ``points``.

    Constant weights are equal at all steps, so all rows tell of them. The covariance of the weights
    is carried over to the coefficients by the delta method. Where weights can stand in for each
    other only what they have in common has an error, and a coefficient holds only that.
    """
    values = fit.weights[..., 0].numpy()
    gradients = np.stack(
        [
            replace(
                equation, coefficients=tuple(c.diff(w) for c in equation.coefficients)
            ).evaluate(values)
            for w in equation.weights
        ]
        or [np.zeros((len(values), len(equation.names)))],
        axis=-1,
    )  # (step, coefficient, weight)
    covariance = _covariance(fit, points).numpy()
    if not gradients.size:
        return np.zeros(gradients.shape[:2])
    variance = np.einsum("scv,svw,scw->sc", gradients, covariance, gradients)
    return np.sqrt(variance.clip(min=0))


def _covariance(fit: Fit, points: Points) -> Tensor:
    """Of the weights at each step's own t, (step, weight, weight), scaled units."""
    n_steps, n_weights, n_degrees = fit.weights.shape
    y, slopes = jacobian(fit.formula, fit.weights, points)
    slopes = slopes * points.mask[..., None, None]
    residual = (points.y - y) * points.mask
    free = [k for k in range(n_weights) if not fit.constant[k]]
    held = [k for k in range(n_weights) if fit.constant[k]]
    noise = _noise(residual, points.mask, len(free) * n_degrees, len(held))
    own, shared = slopes[:, :, free].flatten(2), slopes[:, :, held, 0]
    own_inverse = _inverse(own.mT @ own)
    follow = own_inverse @ (own.mT @ shared)  # how the free weights answer the shared ones
    rest = shared - own @ follow
    information = rest.mT @ rest / noise[:, None, None]
    size = (shared.mT @ shared / noise[:, None, None]).sum(0).diagonal()
    pooled = _inverse(information.sum(0), size)
    own_covariance = noise[:, None, None] * own_inverse + follow @ pooled @ follow.mT

    full = fit.weights.new_zeros(n_steps, n_weights, n_weights)
    first = torch.arange(0, len(free) * n_degrees, n_degrees)  # the weight itself, not its slope
    f, h = torch.tensor(free, dtype=torch.long), torch.tensor(held, dtype=torch.long)
    full[:, f[:, None], f] = own_covariance[:, first[:, None], first]
    full[:, h[:, None], h] = pooled.expand(n_steps, -1, -1)
    cross = -(follow @ pooled)[:, first]
    full[:, f[:, None], h] = cross
    full[:, h[:, None], f] = cross.mT
    return full


def _noise(residual: Tensor, mask: Tensor, n_free: int, n_shared: int) -> Tensor:
    """The variance of the noise in y at each step, (step,), from the residuals."""
    spare = (mask.sum(-1) - n_free).clamp(min=0)
    squares = residual.square().sum(-1)
    overall = squares.sum() / (spare.sum() - n_shared).clamp(min=1)
    noise = (squares + LENT * overall) / (spare + LENT)
    return noise.clamp(min=1e-300)


def _inverse(matrix: Tensor, size: Tensor | None = None) -> Tensor:
    """Of symmetric matrices (..., k, k), without directions that have no information."""
    if not matrix.shape[-1]:
        return matrix
    if size is None:
        size = matrix.diagonal(dim1=-2, dim2=-1)
    scale = size.clamp(min=1e-300).rsqrt()
    unit = matrix * scale[..., :, None] * scale[..., None, :]
    inverse = torch.linalg.pinv(unit, atol=SINGULAR, hermitian=True)
    return inverse * scale[..., :, None] * scale[..., None, :]


def standard_errors(model: Any, X: Any, y: Any) -> pd.DataFrame:
    """Standard errors of ``model.coefficients_``, from the rows that the model was fitted to.

    The noise in y is taken as independent from row to row; its size may differ between t.

    >>> import peql
    >>> data = peql.datasets.load("f3", n_t=8, n_train=64)
    >>> model = peql.SEQL(varying="t", random_state=0).fit(data.X_train, data.y_train)
    >>> bool((standard_errors(model, data.X_train, data.y_train) < 1e-9).all(axis=None))
    True
    """
    check_is_fitted(model, "network_")
    table = check_table(X)
    target = np.asarray(check_target(y, table), dtype=float).reshape(-1)
    if hasattr(model, "feature_names_in_"):
        table = table[list(model.feature_names_in_)]
    x, t = model._split_columns(np.asarray(table, dtype=float))
    arranged = arrange(
        x,
        t,
        target,
        validation_fraction=0.0,
        pool_below=model._pool_below,
        random=np.random.default_rng(0),
    )
    if arranged.t.shape != model.t_.shape or not np.allclose(arranged.t, model.t_):
        raise ValueError(
            f"X has {len(arranged.t)} steps of {model.varying_names_[0]!r}, the model was fitted "
            f"to {len(model.t_)}: pass the rows that the model was fitted to"
        )
    values = model._open_weights(model.t_)
    weights = values[..., None]
    if arranged.points.basis.shape[-1] > 1:  # lines over ranges of t
        along = np.gradient(values.numpy(), model.scales_.t(model.t_)[:, 0], axis=0)
        weights = torch.stack([values, torch.from_numpy(along)], dim=-1)
    spread = values.amax(0) - values.amin(0)
    constant = ((spread <= CONSTANT * values.abs().amax(0)) & (len(values) > 1)).tolist()
    error = mean_squared_error(model.formula_, weights, arranged.points)
    fit = Fit(model.formula_, weights, tuple(constant), error)
    errors = coefficient_errors(model._parametric, fit, arranged.points)
    index, columns = model.coefficients_.index, model.coefficients_.columns
    return pd.DataFrame(errors, index=index, columns=columns)
