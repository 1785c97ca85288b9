"""Jumps and corners of coefficient functions.

Around each gap between neighbouring t two descriptions with the same number of parameters compete:
one polynomial across the gap, and two of lower degree that know nothing of each other. A smooth
curve that the grid resolves is far closer to the one, a curve with a jump or a corner to the two.

A smoothed field spreads a jump over its shortest waves, and these ring beside it by more than the
standard errors say: there gaps are wider, and errors as large as the curve's own roughness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.polynomial import Polynomial
from numpy.polynomial.chebyshev import chebvander

from ..solution import Solution

# Values of t on each side of a gap, and the degree of their polynomial.
SCALES = ((3, 1), (5, 2), (8, 2), (12, 2), (16, 2))
RATIO = 50.0  # one polynomial must miss by this many times what two miss beyond noise,
CHANCE = 36.0  # and by this many squared standard errors more, which noise does not do by chance
SKIP = 10.0  # the same unit: what a value that lies in the jump itself must be worth
GAPS = (1, 2)  # from a value of t to the next, or with one between
# Of a smoothed field, whose values lie as close as its waves: a jump takes two or three of them
# and rings on both sides. With gaps of at most 4 its size is told worse, with 8 bends pass for it.
SPREAD = (1, 2, 3, 4, 5, 6)
CERTAIN = 3.0  # the size of a jump in a gap wider than others, over its standard error
SMOOTHED_SCALES = SCALES[1:]  # three values beside a jump do not tell ringing from another
RESOLUTION = 1e-4  # of a coefficient's largest value; breaks that matter no more are left out

COLUMNS = ["coefficient", "kind", "t", "low", "high", "size", "error"]


@dataclass(frozen=True)
class Break:
    """A place where the curve is not smooth: after the value ``last``, before ``first``."""

    last: int
    first: int
    left: Polynomial
    right: Polynomial
    error: float  # standard error of the values beside it
    evidence: float  # by how many squared standard errors two sides are closer than one curve
    sides: tuple[tuple[np.ndarray, np.ndarray], ...] = ()  # t and standard errors on each side
    reach: int = 0  # values on each side
    left_over: float = 0.0  # squared standard errors that two sides miss, and SKIP for each value

    def size_error(self, at: float, derivative: int) -> float:
        """The standard error of the change in value (0) or slope (1) at a place."""
        variance = 0.0
        for (t, errors), line in zip(self.sides, (self.left, self.right), strict=True):
            degree = line.degree()
            centre, half = (t[0] + t[-1]) / 2, (t[-1] - t[0]) / 2 or 1.0
            rows = np.vander((t - centre) / half, degree + 1, increasing=True) / errors[:, None]
            place, powers = (at - centre) / half, np.arange(degree + 1)
            row = place**powers
            if derivative:
                row = powers * place ** np.maximum(powers - 1, 0) / half
            variance += float(row @ np.linalg.pinv(rows.T @ rows) @ row)
        return float(np.sqrt(variance))


def find_breaks(
    t: np.ndarray, values: np.ndarray, errors: np.ndarray, *, smoothed: bool = False
) -> list[Break]:
    """Breaks of the curve through ``values`` (step,) at ascending ``t``, in order.

    >>> t = np.arange(-20.0, 21.0)
    >>> [(b.last, b.first) for b in find_breaks(t, np.sign(t), 0 * t)]
    [(19, 21)]
    >>> spread = np.where(abs(t) > 1, np.sign(t), 0.6 * t)
    >>> [len(find_breaks(t, spread, 0 * t, smoothed=known)) for known in (False, True)]
    [2, 1]
    """
    scale = np.abs(values).max(initial=0.0)
    errors = np.maximum(errors, RESOLUTION * scale)
    if scale == 0 or np.ptp(values) <= CHANCE**0.5 * errors.min():
        return []
    if smoothed:
        return _spread_breaks(t, values, errors)
    found: list[Break] = []
    for reach, degree in SCALES:
        for new in sorted(_candidates(t, values, errors, reach, degree), key=lambda c: -c.evidence):
            if not any(_touches(new, old, reach) for old in found):
                found.append(new)
    return sorted(found, key=lambda b: b.last)


def _spread_breaks(t: np.ndarray, values: np.ndarray, errors: np.ndarray) -> list[Break]:
    """Breaks of a smoothed curve, those of most evidence first.

    Gaps that overlap show the same break; the one whose sides fit best says where it is.
    """
    everything: list[Break] = []
    for reach, degree in SMOOTHED_SCALES:
        rough = errors * _understated(t, values, errors, reach, degree)
        new = _candidates(t, values, rough, reach, degree, SPREAD)
        everything += [b for b in new if b.first - b.last <= GAPS[-1] or _sides_differ(b, t)]
    found: list[Break] = []
    for best in sorted(everything, key=lambda c: -c.evidence):
        if any(_touches(best, old, best.reach) for old in found):
            continue
        same = [b for b in everything if b.reach == best.reach]
        same = [b for b in same if b.last < best.first and b.first > best.last]
        found.append(min(same, key=lambda b: b.left_over))
    return sorted(found, key=lambda b: b.last)


def _understated(
    t: np.ndarray, values: np.ndarray, errors: np.ndarray, reach: int, degree: int
) -> float:
    """By how much the curve, where it is smooth, is rougher than its standard errors; at least 1.

    Half of the windows, at least, are taken to have no break in them.
    """
    window = np.arange(2 * reach) + np.arange(len(t) - 2 * reach + 1)[:, None]
    if not len(window):
        return 1.0
    missed = _misfit(t[window], values[window], errors[window], 2 * degree + 1)
    return float(np.sqrt(max(1.0, np.median(missed) / (2 * (reach - degree - 1)))))


def _sides_differ(b: Break, t: np.ndarray) -> bool:
    """Everywhere in the gap, and beyond doubt in its middle: else it may hide a bend or a peak."""
    middle = (t[b.last] + t[b.first]) / 2
    gap = np.linspace(t[b.last], t[b.first], b.first - b.last + 1)
    change = b.right(gap) - b.left(gap)
    size = b.right(middle) - b.left(middle)
    return bool((change * size > 0).all() and abs(size) > CERTAIN * b.size_error(middle, 0))


def _touches(new: Break, old: Break, reach: int) -> bool:
    """Whether ``old`` lies within the values that ``new`` was judged by."""
    return old.first > new.last - reach + 1 and old.last < new.first + reach - 1


def _candidates(
    t: np.ndarray,
    values: np.ndarray,
    errors: np.ndarray,
    reach: int,
    degree: int,
    gaps: Iterable[int] = GAPS,
) -> list[Break]:
    """Gaps at which two polynomials beat one; what values of t a gap may hold, they do not see."""
    found = []
    noise = 2 * (reach - degree - 1)  # what two polynomials miss, on average and at most, by noise
    noise += 3 * np.sqrt(2 * noise)
    for width in gaps:
        last = np.arange(reach - 1, len(t) - reach - width + 1)[:, None]
        left = last - np.arange(reach)[::-1]
        right = last + width + np.arange(reach)
        two = _misfit(t[left], values[left], errors[left], degree)
        two += _misfit(t[right], values[right], errors[right], degree)
        both = np.concatenate([left, right], axis=1)
        one = _misfit(t[both], values[both], errors[both], 2 * degree + 1)
        for i in np.flatnonzero((one > RATIO * (two - noise)) & (one - two > CHANCE)):
            before, after = (
                Polynomial.fit(t[k[i]], values[k[i]], degree, w=1 / errors[k[i]])
                for k in (left, right)
            )
            place = int(last[i, 0])
            error = float(np.median(errors[both[i]]))
            skipped = SKIP * (width - 1)
            evidence, left_over = float(one[i] - two[i]) - skipped, float(two[i]) + skipped
            sides = tuple((t[k[i]], errors[k[i]]) for k in (left[:, ::-1], right))
            ends = place, place + width, before, after
            found.append(Break(*ends, error, evidence, sides, reach, left_over))
    return found


def _misfit(t: np.ndarray, values: np.ndarray, errors: np.ndarray, degree: int) -> np.ndarray:
    """Of the polynomials nearest to windows (window, value), in squared standard errors."""
    low, high = t.min(axis=1, keepdims=True), t.max(axis=1, keepdims=True)
    place = (2 * t - low - high) / (high - low)
    basis = np.linalg.qr(chebvander(place, degree) / errors[..., None]).Q
    residual = (values / errors)[..., None]
    residual = residual - basis @ (basis.transpose(0, 2, 1) @ residual)
    return np.sum(residual**2, axis=(1, 2))


def _describe(b: Break, t: np.ndarray) -> dict[str, Any]:
    """A corner if the two sides meet in the gap, otherwise a jump."""
    low, high = float(t[b.last]), float(t[b.first])
    middle = (low + high) / 2 if abs(low + high) > 1e-9 * (high - low) else 0.0
    difference = b.right - b.left.convert(domain=b.right.domain, window=b.right.window)
    slope = abs(difference.deriv()(middle))
    # How well the place where they meet is known.
    margin = 1e-6 * (high - low) + 2 * b.error / max(slope, 1e-300)
    meets = [
        float(root.real)
        for root in np.atleast_1d(difference.roots())
        if abs(root.imag) <= margin
        and low - margin <= root.real <= high + margin
        and abs(difference(root.real)) <= 2 * b.error  # parallel sides have a wide margin
    ]
    if meets:
        place = min(meets, key=lambda m: abs(m - middle))
        size = float(difference.deriv()(place))
        found = {"kind": "corner", "t": place, "low": low, "high": high, "size": size}
        return {**found, "error": b.size_error(place, derivative=1)}
    size = float(difference(middle))
    found = {"kind": "jump", "t": middle, "low": low, "high": high, "size": size}
    return {**found, "error": b.size_error(middle, derivative=0)}


def jumps(solution: Solution, *, smoothed: bool = False) -> pd.DataFrame:
    """Where coefficient functions of a solution jump, or have a corner (a jump in slope).

    A row each: the ``coefficient``, the ``kind``, the place ``t`` (of a jump: the middle between
    ``low`` and ``high``, the nearest known values) and the ``size`` of the change in value or in
    slope, with its standard ``error``. With fewer than six values of t nothing is found, nor
    between labels, which have no order. In the coefficients of a ``smoothed`` field a jump is
    spread out: it lies between ``low`` and ``high``, and a change as steep as that looks like one.

    >>> import peql
    >>> data = peql.datasets.load("f1", n_t=16, n_train=64)
    >>> model = peql.SEQL(varying="t", random_state=0).fit(data.X_train, data.y_train)
    >>> row = model.jumps().round(3).to_dict("records")[0]
    >>> row["coefficient"], row["kind"], row["t"], row["size"]
    ('b', 'jump', 0.0, 6.0)
    """
    if solution.t.shape[1] != 1:
        raise ValueError(
            f"the coefficients vary along {solution.t.shape[1]} columns: jumps are looked for "
            "along one"
        )
    rows: list[dict[str, Any]] = []
    if solution.labels is None:
        t = solution.t[:, 0]
        errors = solution.coefficient_errors.fillna(0.0)
        for name, values in solution.coefficients.items():
            for b in find_breaks(t, values.to_numpy(), errors[name].to_numpy(), smoothed=smoothed):
                rows.append({"coefficient": name, **_describe(b, t)})
    return pd.DataFrame(rows, columns=COLUMNS)
