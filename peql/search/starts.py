"""Inner weights to begin with, in units of the data's ranges."""

from __future__ import annotations

import numpy as np
from scipy.stats import qmc

from ..primitives import FREQUENCY, get
from .evaluation import Evaluation, Rows
from .expressions import Apply, Expression, Mix, Power, Scale
from .grammar import Term

STARTS = {0: 1, 1: 32, 2: 64, 3: 96}  # by the number of inner weights
MOST_STARTS = 128
SLOWEST = 0.2  # rate of exp, in units of 1/range
EDGE = 0.05  # share of the rows, at either end, within which the fastest exp is gone
CYCLES = 0.15, 12.0  # of sin, over the range
OFFSETS = 0.01, 10.0  # distance of a pole or branch point from the data, in ranges
STEEPEST = 13.0  # exponent; Lennard-Jones has 12. Half of the starts are within ±1.6
GENTLE = 3.0  # exponent, where there are other weights to find
RATIOS = 0.1, 10.0  # of the parts of a direction, in units of their ranges


def starts(term: Term, rows: Rows, seed: int = 0) -> np.ndarray:
    """Inner weights to begin with, (start, step, weight): in units of the data's ranges."""
    n = term.n_weights
    n_starts = STARTS.get(n, MOST_STARTS)
    w = np.zeros((n_starts, len(rows.x), n))
    if not n:
        return w
    u = qmc.Sobol(n, seed=seed).random_base2(7)[:n_starts]
    drawn: set[int] = set()
    with np.errstate(all="ignore"):
        for column in term.columns:
            _draw(column, None, rows, w, u, drawn)
    return np.nan_to_num(w)


def _between(u: np.ndarray, low: float, high: float) -> np.ndarray:
    return low * (high / low) ** u


def _signed(u: np.ndarray, low: float, high: float) -> np.ndarray:
    side = np.where(u < 0.5, -1.0, 1.0)
    return side * _between(np.abs(2 * u - 1), low, high)


def _draw(g: Expression, parent: Expression | None, rows: Rows, w, u, drawn: set[int]) -> None:
    for part in g.parts():
        _draw(part, g, rows, w, u, drawn)
    k = getattr(g, "w", None)
    if not isinstance(k, int) or k in drawn:
        return
    drawn.add(k)
    uk = u[:, k]
    v, _ = Evaluation(rows, w, slopes=False).of(g.parts()[0])
    low, high = v.min(-1), v.max(-1)  # (start, step) or (step,)
    width = np.broadcast_to(np.maximum(high - low, 1e-12 * np.abs(high) + 1e-300), w.shape[:2])
    low, high = np.broadcast_to(low, w.shape[:2]), np.broadcast_to(high, w.shape[:2])
    primitive = get(parent.name) if isinstance(parent, Apply) else None
    if isinstance(g, Power):
        steepest, shape = (STEEPEST, 3) if w.shape[-1] == 1 else (GENTLE, 1)
        w[..., k] = (steepest * (2 * uk - 1) ** shape)[:, None]
    elif isinstance(g, Mix):
        other, _ = Evaluation(rows, w, slopes=False).of(g.h)
        ratio = width / np.broadcast_to(np.ptp(other, axis=-1), w.shape[:2])
        w[..., k] = _signed(uk, *RATIOS)[:, None] * ratio
    elif isinstance(g, Scale):
        if primitive is not None and primitive.partner is not None:
            w[..., k] = _between(uk, *CYCLES)[:, None] * 2 * np.pi / FREQUENCY / width
        else:  # where rows crowd at one end, as after a dose, a fast decay is seen there
            first, last = (np.quantile(v, share, axis=-1) for share in (EDGE, 1 - EDGE))
            near = np.minimum(first - low, high - last)
            fastest = np.maximum(width / np.maximum(near, 1e-3 * width), 1 / EDGE)
            w[..., k] = _signed(uk[:, None], SLOWEST, fastest) / width
    elif (primitive is not None and primitive.domain != "real") or (
        isinstance(parent, Power) and not (isinstance(parent.w, float) and parent.w == 2.0)
    ):
        # Most poles lie below the data: V x/(K + x).
        if (low > 0).all():
            share = np.minimum(uk / 0.65, 1)[:, None]
            bottom, top = 0.3 * np.maximum(low, 1e-3 * high), 10 * high
            beyond = bottom * (top / bottom) ** share
            within = -low * np.clip((uk - 0.65) / 0.2, 0, 0.99)[:, None]
            past = -high * _between(np.maximum(uk - 0.85, 0) / 0.15, 1.02, 10.0)[:, None]
            u = uk[:, None]
            w[..., k] = np.where(u < 0.65, beyond, np.where(u < 0.85, within, past))
            return
        below = (-low) + _between(np.minimum(uk / 0.7, 1), *OFFSETS)[:, None] * width
        above = (-high) - _between(np.maximum(uk - 0.7, 0) / 0.3, *OFFSETS)[:, None] * width
        w[..., k] = np.where((uk < 0.7)[:, None], below, above)
    else:
        w[..., k] = -(low + (1.4 * uk[:, None] - 0.2) * width)
