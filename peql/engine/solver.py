"""Solving for a formula's weights in float64, at every step of t at once.

At each step a weight is a number, or, where a step pools a range of t, a line over that range:
weights are (step, weight, degree), and a point's weight is their product with its ``basis``,
(1,) or (1, t - centre) with one entry for each varying column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from .formula import Formula

PRECISION = 1e-22  # mean squared error, relative to y's variance, below which a fit is exact
ROUNDING = 8 * torch.finfo(torch.float64).eps  # of a sum of a few terms, relative to the largest
FAR = 5.0  # a step whose error is this many times the expected one is stuck
REACH = 4  # steps between a stuck step and a neighbour whose solution it tries
SETTLING = 5  # Gauss-Newton steps on the constants
FEW = 8  # weights of a formula that is about to be read
ITERATIONS = 60  # of a solution for few weights; for many, which is but a step on the way, a third
SAMPLE = 16  # steps on which a change is tried first
BLOCK = 2**24  # numbers of a Jacobian that are held at once
LENT = 8  # rows of average noise that each t is lent: a t with few rows cannot tell its own
SINGULAR = 1e-10  # share of a weight's effect below which other weights can do the same


@dataclass(frozen=True)
class Points:
    """Rows to fit, by step; short steps are padded, the mask tells.

    x (step, point, feature), y (step, point), mask (step, point) of 1 and 0,
    basis (step, point, degree).
    """

    x: Tensor
    y: Tensor
    mask: Tensor
    basis: Tensor
    count: Tensor = field(init=False)  # (step,)
    floor: Tensor = field(init=False)  # (step,) mean squared error that counts as exact
    variance: Tensor = field(init=False)  # of y, over all steps

    def __post_init__(self) -> None:
        count = self.mask.sum(-1).clamp(min=1)
        mean = (self.y * self.mask).sum() / count.sum()
        power = ((self.y - mean).square() * self.mask).sum(-1) / count
        largest = (self.y * self.mask).abs().amax(-1)
        overall = (power * count).sum() / count.sum()
        overall = torch.where(overall > 0, overall, 1.0)  # y is the same everywhere
        floor = PRECISION * torch.maximum(power, 1e-6 * overall) + (ROUNDING * largest) ** 2
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "floor", floor)
        object.__setattr__(self, "variance", overall)

    def at(self, steps: Tensor) -> Points:
        """Some of the steps; what counts as exact stays what it is."""
        part = object.__new__(Points)
        for name in ("x", "y", "mask", "basis", "count", "floor"):
            object.__setattr__(part, name, getattr(self, name)[steps])
        object.__setattr__(part, "variance", self.variance)
        return part

    def thinned(self, n: int) -> Points:
        """The first ``n`` rows of each step (rows are in random order)."""
        return Points(self.x[:, :n], self.y[:, :n], self.mask[:, :n], self.basis[:, :n])

    def spread(self, weights: Float[Tensor, "step weight degree"]) -> list[Tensor]:
        """Each weight at every point: a list of (step, point)."""
        if weights.shape[-1] == 1:
            return [w.expand(self.y.shape) for w in weights.unbind(1)]
        return [torch.einsum("sd,spd->sp", w, self.basis) for w in weights.unbind(1)]


@dataclass(frozen=True)
class Fit:
    """A formula with its weights at every step; ``constant`` ones are equal at all steps."""

    formula: Formula
    weights: Tensor  # (step, weight, degree)
    constant: tuple[bool, ...]
    error: Tensor  # (step,) mean squared error

    def pooled_error(self, points: Points) -> float:
        """Mean squared error over all rows of all steps."""
        return float((self.error * points.count).sum() / points.count.sum())

    def exact(self, points: Points) -> bool:
        """Whether nothing but rounding is left at any step."""
        return bool((self.error <= 10 * points.floor).all())

    def explains(self, share: float, points: Points) -> bool:
        """Whether all but ``share`` of y's variance is explained."""
        return self.pooled_error(points) <= share * float(points.variance)

    def information(self, points: Points, most_rows: float = torch.inf) -> float:
        """Schwarz's criterion, with errors below the floor taken as equal.

        A step's rows count for at most ``most_rows`` independent ones.
        """
        n_steps, n_weights, n_degrees = self.weights.shape
        n_constant = sum(self.constant)
        n_free = (n_weights - n_constant) * n_degrees  # at each step
        n_rows = points.count.clamp(max=most_rows).sum()
        # What a step's own weights fit of the noise is missing from its error.
        bias = points.count / (points.count - n_free).clamp(min=0.5)
        share = points.count / points.count.sum()
        misfit = torch.log((share * bias * (self.error + points.floor)).sum())
        return float(n_rows * misfit + (n_free * n_steps + n_constant) * torch.log(n_rows))


def independent_share(fit: Fit, points: Points) -> float:
    """What share of the rows the residuals count for, if those of neighbouring rows agree.

    What is left by numerical derivatives, or by a term that is missing, is a smooth function of
    the inputs: rows beside each other then say the same. With the correlation r of each residual
    and that of its nearest row of the same step, n rows are worth n (1 - r) / (1 + r), as in a
    series that forgets by a factor r from row to row. Noise has r = 0, and each row counts.
    """
    scale = points.x.flatten(0, 1).std(0).clamp(min=1e-300)
    residual = (fit.formula(points.spread(fit.weights), points.x) - points.y) * points.mask
    residual = residual.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    rougher, n_rows = 0.0, points.y.shape[1]
    for part in torch.arange(len(residual)).split(max(1, BLOCK // n_rows**2)):
        x, r, mask = points.x[part] / scale, residual[part], points.mask[part]
        apart = torch.cdist(x, x)
        apart = apart.masked_fill(mask[:, None, :] == 0, torch.inf)
        apart.diagonal(dim1=1, dim2=2).fill_(torch.inf)
        distance, nearest = apart.min(-1)
        other = torch.where(distance < torch.inf, r.gather(1, nearest), 0.0)
        rougher += float(((r - other * mask).square() * mask).sum())
    total = float(residual.square().sum())
    unlike = min(rougher / (2 * total), 1.0) if total > 0 else 1.0  # 1 - r
    return unlike / (2 - unlike)


def mean_squared_error(formula: Formula, weights: Tensor, points: Points) -> Tensor:
    """Of each step, (step,)."""
    residual = (formula(points.spread(weights), points.x) - points.y) * points.mask
    return torch.nan_to_num(residual.square().sum(-1) / points.count, nan=torch.inf)


def jacobian(
    formula: Formula, weights: Float[Tensor, "step weight degree"], points: Points
) -> tuple[Float[Tensor, "step point"], Float[Tensor, "step point weight degree"]]:
    """The output at ``points`` and its derivative by each weight of the point's step."""
    leaves = [w.clone().requires_grad_() for w in points.spread(weights)]
    y = formula(leaves, points.x)
    if not leaves:
        return y, points.x.new_zeros(*y.shape, 0, points.basis.shape[-1])
    gradients = torch.autograd.grad(y.sum(), leaves, allow_unused=True)
    columns = [torch.zeros_like(y) if g is None else g for g in gradients]
    derivative = torch.stack(columns, dim=-1)[..., None]
    if points.basis.shape[-1] > 1:
        derivative = derivative * points.basis[..., None, :]
    return y.detach(), derivative


def solve(
    formula: Formula,
    weights: Tensor,
    constant: Sequence[bool],
    points: Points,
) -> Fit:
    """Levenberg–Marquardt at every step at once, over the weights that are not constant."""
    free = [k for k, c in enumerate(constant) if not c]
    max_iterations = ITERATIONS if len(free) <= FEW else ITERATIONS // 3
    weights = weights.clone()
    error = mean_squared_error(formula, weights, points)
    damping = torch.full_like(error, 1e-3)
    idle = torch.zeros_like(error)
    active = torch.arange(len(error)) if free else torch.arange(0)
    for _ in range(max_iterations):
        active = active[(idle[active] < 3) & (error[active] > 1e-9 * points.floor[active])]
        if not len(active):
            break
        per_step = points.y.shape[1] * weights.shape[1] * weights.shape[2]
        for part in active.split(max(1, BLOCK // max(per_step, 1))):
            _newton_step(formula, free, points.at(part), part, weights, error, damping, idle)
    return Fit(formula, weights, tuple(constant), error)


def _newton_step(
    formula: Formula,
    free: list[int],
    here: Points,
    active: Tensor,
    weights: Tensor,
    error: Tensor,
    damping: Tensor,
    idle: Tensor,
) -> None:
    """One damped Gauss-Newton step at the steps ``active``; what is kept is changed in place."""
    w = weights[active]
    y, slopes = jacobian(formula, w, here)
    slopes = slopes[:, :, free].flatten(2) * here.mask[..., None]
    residual = (here.y - y) * here.mask
    normal = slopes.mT @ slopes
    gradient = slopes.mT @ residual[..., None]
    diagonal = normal.diagonal(dim1=-2, dim2=-1)
    ridge = damping[active, None] * diagonal + 1e-30 * diagonal.amax(-1, keepdim=True) + 1e-60
    change, _ = torch.linalg.solve_ex(normal + torch.diag_embed(ridge), gradient)
    change = torch.nan_to_num(change.squeeze(-1), nan=0.0, posinf=0.0, neginf=0.0)
    trial = w.clone()
    trial[:, free] += change.unflatten(-1, (len(free), weights.shape[-1]))
    new_error = mean_squared_error(formula, trial, here)
    better = new_error < error[active]
    gain = torch.where(better, 1 - new_error / error[active], 0.0)
    weights[active[better]] = trial[better]
    waits = ~better & (damping[active] < 1e4)  # a shorter step may still help
    idle[active] = torch.where(waits, idle[active], torch.where(gain > 1e-3, 0.0, idle[active] + 1))
    error[active] = torch.where(better, new_error, error[active])
    damping[active] = (damping[active] * torch.where(better, 0.1, 10.0)).clamp(1e-15, 1e6)


def rescue(fit: Fit, points: Points, expected: Float[Tensor, " step"]) -> Fit:
    """Steps that fit far worse than ``expected`` start again from a neighbour's solution.

    The weights of the output, in which it is linear, go first: they alone can make a term vanish
    that is a product of weights, towards which Newton's steps only creep.
    """
    weights, error = fit.weights.clone(), fit.error.clone()
    linear = set(fit.formula.linear())
    inner = [c or k not in linear for k, c in enumerate(fit.constant)]
    tried: set[tuple[int, int]] = set()
    while True:
        stuck = error > FAR * expected
        good = torch.nonzero(~stuck).squeeze(-1)
        if not len(good):
            break
        bad = torch.nonzero(stuck).squeeze(-1)
        right = torch.searchsorted(good, bad)
        pairs = [
            (int(step), int(good[side]))
            for step, place in zip(bad, right.tolist(), strict=True)
            for side in (place - 1, place)
            if 0 <= side < len(good) and abs(int(good[side]) - int(step)) <= REACH
        ]
        pairs = [pair for pair in pairs if pair not in tried]
        if not pairs:
            break
        tried.update(pairs)
        receivers, donors = (torch.tensor(column) for column in zip(*pairs, strict=True))
        here = points.at(receivers)
        start = solve(fit.formula, weights[donors], inner, here).weights
        again = solve(fit.formula, start, fit.constant, here)
        for i, step in enumerate(receivers.tolist()):
            if again.error[i] < error[step]:
                weights[step], error[step] = again.weights[i], again.error[i]
    return replace(fit, weights=weights, error=error)


def refit(
    formula: Formula,
    weights: Tensor,
    constant: Sequence[bool],
    points: Points,
    expected: Float[Tensor, " step"] | None = None,
) -> Fit:
    """Solve at every step; steps worse than ``expected``, or than most, try their neighbours'."""
    fit = solve(formula, weights, constant, points)
    if expected is None:
        usual = (fit.error / points.floor).quantile(0.25).clamp(min=1)
        expected = torch.maximum(usual * points.floor, fit.error.quantile(0.25))
    return rescue(fit, points, expected)


def hopeless(
    formula: Formula, weights: Tensor, constant: Sequence[bool], points: Points, expected: Tensor
) -> bool:
    """Whether most of a sample of steps is far from ``expected``: a cheap look before a solve.

    A step whose error is below the mean has no say: the mean is what counts in the end.
    """
    steps = torch.arange(0, len(weights), max(1, len(weights) // SAMPLE))
    sample = solve(formula, weights[steps], constant, points.at(steps))
    far = sample.error > FAR * expected[steps].clamp(min=float(expected.mean()))
    return bool(far.double().mean() > 0.5)


def importance(fit: Fit, points: Points) -> Tensor:
    """How much each weight moves the output: root mean square of weight × derivative."""
    _, slopes = jacobian(fit.formula, fit.weights, points)
    effect = (slopes * fit.weights[:, None]).sum(-1) * points.mask[..., None]
    return effect.square().mean(dim=(0, 1)).sqrt()


def settle_constants(fit: Fit, points: Points) -> Fit:
    """Move the weights that are equal at all steps to where the pooled error is least.

    A Gauss-Newton step on them, given that the other weights follow, is a least-squares problem
    in what the slopes of the constants have beyond those of the others.
    """
    held = [k for k, c in enumerate(fit.constant) if c]
    free = [k for k, c in enumerate(fit.constant) if not c]
    for _ in range(SETTLING):
        if not held or bool((fit.error <= points.floor).all()):
            break
        y, slopes = jacobian(fit.formula, fit.weights, points)
        slopes = slopes * points.mask[..., None, None]
        residual = ((points.y - y) * points.mask)[..., None]
        basis = torch.linalg.qr(slopes[:, :, free].flatten(2)).Q
        own = slopes[:, :, held, 0]
        beyond = own - basis @ (basis.mT @ own)
        normal = (beyond.mT @ beyond).sum(0)
        size = own.square().sum((0, 1)).clamp(min=1e-300).sqrt()
        # A constant whose scale a varying weight shares has nothing beyond: it stays.
        inverse = torch.linalg.pinv(normal / size / size[:, None], rtol=1e-6, hermitian=True)
        change = inverse @ ((beyond.mT @ residual).sum(0)[:, 0] / size) / size
        weights = fit.weights.clone()
        weights[:, held, 0] += change
        moved = refit(fit.formula, weights, fit.constant, points, fit.error)
        gain = 1 - (moved.error * points.count).sum() / (fit.error * points.count).sum()
        if not gain > 0:
            break
        fit = moved
        if gain < 1e-6:
            break
    return fit


def covariance(fit: Fit, points: Points) -> Float[Tensor, "step weight weight"]:
    """The covariance of the weights at each step's own t, from the least-squares fit.

    Constant weights are equal at all steps, so they are known from all rows. Where weights can
    stand in for each other, only what they have in common has an error.
    """
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
