"""What follows training: keep only open weights, solve for them in float64, remove what is spare.

Everything here works on a ``Formula``: the few weights of a trained network that matter. At each
step of t a weight is a number, or, where a step pools a range of t, a line over that range:
weights are (step, weight, degree) with one or two degrees, and a point's weight is their product
with its ``basis``, (1,) or (1, t - centre).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from .formula import Formula
from .primitives import Layout

PRECISION = 1e-22  # mean squared error, relative to y's, below which a fit counts as exact
FAR = 5.0  # a step whose error is this many times the expected one is stuck
REACH = 4  # steps between a stuck step and a neighbour whose solution it tries
EVIDENCE = 2.0, 8.0  # independent rows, least and most, that a step counts for
MOSTLY = 1e-2  # share of y's power; a formula that leaves more lacks something
COARSE = 1e-4  # share of y's power; while more is unexplained, additions are tried
PATIENCE = 4  # additions in a row that may fail to improve a formula
ARGUMENT = 0.25  # the weight of a feature in a unit that is added
SETTLING = 5  # Gauss-Newton steps on the constants
FEW = 8  # weights, all of which are tried before one is removed
ITERATIONS = 60  # of a solution for few weights; for many, which is but a step on the way, a third
SAMPLE = 16  # steps on which a removal is tried first
DECISION_POINTS = 96  # rows per step on which removals are tried; the last fit uses all rows,
DECISION_ROWS = 4096  # or this many rows in all, where steps are few


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

    def __post_init__(self) -> None:
        count = self.mask.sum(-1).clamp(min=1)
        power = (self.y.square() * self.mask).sum(-1) / count
        overall = power.mean()
        overall = torch.where(overall > 0, overall, 1.0)  # y is 0 everywhere: its unit is 1
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "floor", PRECISION * torch.maximum(power, 1e-6 * overall))

    def at(self, steps: Tensor) -> Points:
        return Points(self.x[steps], self.y[steps], self.mask[steps], self.basis[steps])

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

    def explains(self, share: float, points: Points) -> bool:
        """Whether all but ``share`` of y's power is explained."""
        power = (points.y.square() * points.mask).sum()
        return bool((self.error * points.count).sum() <= share * power)

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
        here = points.at(active)
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
        idle[active] = torch.where(
            waits, idle[active], torch.where(gain > 1e-3, 0.0, idle[active] + 1)
        )
        error[active] = torch.where(better, new_error, error[active])
        damping[active] = (damping[active] * torch.where(better, 0.1, 10.0)).clamp(1e-15, 1e6)
    return Fit(formula, weights, tuple(constant), error)


def rescue(fit: Fit, points: Points, expected: Float[Tensor, " step"]) -> Fit:
    """Steps that fit far worse than ``expected`` start again from a neighbour's solution.

    The weights of the output, in which it is linear, go first: they alone can make a term vanish
    that is a product of weights, towards which Newton's steps only creep.
    """
    weights, error = fit.weights.clone(), fit.error.clone()
    linear = {column for column, _ in fit.formula.outputs[0]}
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


def _restrict(fit: Fit, open: Sequence[int]) -> tuple[Formula, Tensor, tuple[bool, ...]]:
    formula = Formula(fit.formula.layout, fit.formula.shapes, open)
    columns = [fit.formula.open.index(flat) for flat in formula.open]
    return formula, fit.weights[:, columns], tuple(fit.constant[k] for k in columns)


def importance(fit: Fit, points: Points) -> Tensor:
    """How much each weight moves the output: root mean square of weight × derivative."""
    _, slopes = jacobian(fit.formula, fit.weights, points)
    effect = (slopes * fit.weights[:, None]).sum(-1) * points.mask[..., None]
    return effect.square().mean(dim=(0, 1)).sqrt()


def remove_spare(fit: Fit, points: Points, trace: list[Fit]) -> Fit:
    """Remove weights, least important first, while Schwarz's criterion falls.

    While there are many, groups of them go first, if the error rises by no more than it may for
    one; of a few weights, the one that is missed least goes. What was tried is added to ``trace``.
    """
    rows = independent_rows(fit, points)
    best = fit.information(points, rows)
    n_steps, _, n_degrees = fit.weights.shape
    worth = (rows * n_steps) ** (n_degrees / rows)  # what a weight must divide the error by
    tried: set[tuple[int, ...]] = set()
    smaller: Fit | None = fit
    while smaller:
        fit, smaller = smaller, None
        expected = worth * torch.maximum(fit.error, points.floor)
        for group in _groups(importance(fit, points).argsort().tolist()):
            rest = [flat for k, flat in enumerate(fit.formula.open) if k not in group]
            start = _restrict(fit, rest)
            if start[0].open in tried:
                continue
            tried.add(start[0].open)
            if hopeless(*start, points, expected):
                continue
            candidate = refit(*start, points, expected)
            trace.append(candidate)
            score = candidate.information(points, rows)
            close = (candidate.error * points.count).sum() <= (expected * points.count).sum()
            if score < best and (close or len(group) == 1):
                smaller, best = candidate, score
                if len(fit.formula.open) > FEW:
                    break
    return fit


def straighten(fit: Fit, points: Points, trace: list[Fit]) -> Fit:
    """Let the output read the arguments of a unit in its place, where Schwarz's criterion falls.

    A sine of a small argument may stand for a straight line.
    """
    rows = independent_rows(fit, points)
    best = fit.information(points, rows)
    for unit, sources in list(fit.formula.units_of_output()):
        direct = {fit.formula.output_weight(source): 0.0 for source in sources}
        formula, weights, constant = _widen(fit, direct)
        wider = Fit(formula, weights, constant, fit.error)
        start = _restrict(wider, [flat for flat in formula.open if flat != unit])
        if hopeless(*start, points, torch.maximum(fit.error, points.floor)):
            continue
        candidate = refit(*start, points)
        trace.append(candidate)
        score = candidate.information(points, rows)
        if score < best:
            return straighten(candidate, points, trace)
    return fit


def _groups(order: list[int]) -> Iterator[list[int]]:
    """Weights to remove together: of many the first half, quarter, ...; then each one."""
    n = len(order) // 2
    while len(order) > FEW and n > 1:
        yield order[:n]
        n //= 2
    for k in order:
        yield [k]


def independent_rows(fit: Fit, points: Points) -> float:
    """How many independent Gaussian rows a step's residuals are worth, within ``EVIDENCE``.

    What a formula leaves of real data (the error of a numerical derivative, say) may be a smooth
    function of the inputs and large in few places; spare terms fit that well. A correlation r of
    the residuals of nearest neighbours leaves (1 - r) / (1 + r) of n rows, and the variance of
    residuals with kurtosis k is as uncertain as that of 2 n / (k - 1) Gaussian ones.
    Where more than ``MOSTLY`` of y is unexplained, a smooth residual is no error but a lack.
    """
    if not fit.explains(MOSTLY, points):
        return EVIDENCE[1]
    points = points.thinned(DECISION_POINTS)
    residual = (fit.formula(points.spread(fit.weights), points.x) - points.y) * points.mask
    distance = torch.cdist(points.x, points.x)
    distance = torch.where(points.mask[:, None, :] > 0, distance, torch.inf)
    distance.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
    nearest = residual.gather(1, distance.argmin(-1))
    squares = residual.square()
    power = squares.sum(1) + 1e-300
    correlation = (residual * nearest).sum() / power.sum()
    kurtosis = (points.count * squares.square().sum(1) / power).sum() / power.sum()
    rows = points.count.mean() * (1 - correlation) / (1 + correlation)
    rows = rows * 2 / (kurtosis.clamp(min=3) - 1)  # no more than Gaussian ones
    return float(rows.nan_to_num(EVIDENCE[1]).clamp(*EVIDENCE))


def add_missing(fit: Fit, points: Points) -> Fit:
    """Extend a formula while it explains too little and Schwarz's criterion falls.

    Training may close a gate too soon when two inputs resemble each other, or never form a
    product.
    """
    rows = independent_rows(fit, points)
    best, score, failures = fit, fit.information(points, rows), 0
    while failures < PATIENCE and not fit.explains(COARSE, points):
        fit = extend(fit, points)
        new_score = fit.information(points, rows)
        if new_score < score:
            best, score, failures = fit, new_score, 0
        else:
            failures += 1
    return best


def exchange(fit: Fit, points: Points, trace: list[Fit]) -> Fit:
    """Extend a reduced formula and reduce it again, as long as that makes it better.

    What was removed early may have left its place to a poor copy, and what was added to a large
    formula that lacks something is soon outweighed by what else is there.
    """
    while not fit.explains(PRECISION, points):
        wider = add_missing(fit, points)
        other = reduce(extend(fit, points) if wider is fit else wider, points, trace)
        rows = independent_rows(fit, points)
        worse = other.information(points, rows) >= fit.information(points, rows)
        if worse or other.formula.open == fit.formula.open:
            break
        fit = other
    return fit


def extend(fit: Fit, points: Points) -> Fit:
    """Add what would lower the error most if the output were linear in it, and solve."""
    addition = most_promising(fit, points)
    return refit(*_widen(fit, addition), points) if addition else fit


def most_promising(fit: Fit, points: Points) -> dict[int, float]:
    """The closed weights, with values to begin from, that could explain most of the residual."""
    steps = torch.arange(0, len(fit.weights), max(1, len(fit.weights) // SAMPLE))
    points = points.at(steps)
    formula, weights, _ = _widen(fit, dict.fromkeys(fit.formula.reachable(), 0.0))
    y, slopes = jacobian(formula, weights[steps], points)
    known = [formula.open.index(flat) for flat in fit.formula.open]
    others = [k for k in range(len(formula.open)) if k not in known]
    additions = [{formula.open[k]: 0.0} for k in others]
    columns = [slopes[:, :, others]]
    for primitive, features, flats in fit.formula.spare_units():
        *arguments, output = flats
        additions.append({**dict.fromkeys(arguments, ARGUMENT), output: 0.0})
        value = primitive.torch(*(ARGUMENT * points.x[..., f] for f in features))
        columns.append(value[..., None, None] * points.basis[..., None, :])
    if not additions:
        return {}
    gains = _linear_gain(
        slopes[:, :, known] * points.mask[..., None, None],
        torch.cat(columns, dim=2) * points.mask[..., None, None],
        (points.y - y) * points.mask,
    )
    return additions[int(gains.argmax())]


def _widen(fit: Fit, addition: Mapping[int, float]) -> tuple[Formula, Tensor, tuple[bool, ...]]:
    """A formula with more open weights, which begin at the given values."""
    formula = Formula(fit.formula.layout, fit.formula.shapes, {*fit.formula.open, *addition})
    steps, _, degrees = fit.weights.shape
    weights = fit.weights.new_zeros(steps, len(formula.open), degrees)
    for k, flat in enumerate(formula.open):
        if flat in fit.formula.open:
            weights[:, k] = fit.weights[:, fit.formula.open.index(flat)]
        else:
            weights[:, k, 0] = addition[flat]
    return formula, weights, (False,) * len(formula.open)


def _linear_gain(
    old: Float[Tensor, "step point known degree"],
    new: Float[Tensor, "step point other degree"],
    residual: Float[Tensor, "step point"],
) -> Float[Tensor, " other"]:
    """How much of the squared residual each new column could explain beyond the old ones."""
    basis = torch.linalg.qr(old.flatten(2)).Q
    n_new, n_degrees = new.shape[2:]
    new = new.flatten(2)
    new = new - basis @ (basis.mT @ new)
    rest = residual[..., None] - basis @ (basis.mT @ residual[..., None])
    power = new.square().sum(1)
    size = power.amax(dim=0, keepdim=True).clamp(min=1e-300)
    gain = torch.where(
        power > 1e-12 * size, (new * rest).sum(1).square() / power.clamp(min=1e-300), 0.0
    )
    gain = gain.nan_to_num(nan=0.0, posinf=0.0)  # a primitive may not be defined everywhere
    return gain.sum(0).unflatten(0, (n_new, n_degrees)).sum(-1)


def freeze_constant(fit: Fit, points: Points) -> Fit:
    """Hold weights equal at all steps, inner layers first, where the fit does not suffer.

    This recognises coefficients that do not vary and settles scales that two weights share.
    """
    best = fit.information(points)
    for k in range(len(fit.constant)):
        constant = tuple(c or i == k for i, c in enumerate(fit.constant))
        expected = torch.maximum(fit.error, points.floor)
        for start in _with_one_sign(fit, k):
            weights = start.clone()
            weights[:, k] = 0
            weights[:, k, 0] = start[:, k, 0].median()
            if hopeless(fit.formula, weights, constant, points, expected):
                continue
            candidate = refit(fit.formula, weights, constant, points, expected)
            candidate = settle_constants(candidate, points)
            score = candidate.information(points)
            if score < best:
                fit, best = candidate, score
                break
    return fit


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


def _with_one_sign(fit: Fit, k: int) -> Iterator[Tensor]:
    """If weight ``k`` changes sign over t, the weights with the sign moved further in; as they are.

    a sin(b x) is -a sin(-b x): at the steps where ``k`` has the rarer sign, it and an argument of
    the unit that it multiplies are negated.
    """
    value = fit.weights[:, k, 0]
    rare = value.sign() == -value.sign().median()
    if rare.any():
        for argument in fit.formula.arguments_behind(k):
            if not any(fit.constant[column] for column in argument):
                flipped = fit.weights.clone()
                flipped[:, [k, *argument]] *= torch.where(rare, -1.0, 1.0)[:, None, None]
                yield flipped
    yield fit.weights


def reduce(fit: Fit, points: Points, trace: list[Fit]) -> Fit:
    """Remove weights and hold others constant until no more can go."""
    n_weights = len(fit.constant) + 1
    # With shared scales settled all steps are alike, and weights that hid behind them can go.
    while len(fit.constant) < n_weights:
        n_weights = len(fit.constant)
        fit = replace(fit, constant=(False,) * n_weights)
        fit = straighten(remove_spare(fit, points, trace), points, trace)
        fit = freeze_constant(fit, points)
    return fit


def refine(
    layout: Layout,
    shapes: Sequence[tuple[int, int]],
    weights: Float[Tensor, "step weight"],
    points: Points,
    trace: list[Fit] | None = None,
) -> Fit:
    """From a trained network's gated weights to the smallest formula that fits, solved exactly.

    The formulas tried on the way are added to ``trace``.
    """
    trace = [] if trace is None else trace
    fit = _fewer_than_rows(as_trained(layout, shapes, weights, points), points)
    few = points.thinned(max(DECISION_POINTS, DECISION_ROWS // len(points.x)))
    fit = refit(fit.formula, fit.weights, fit.constant, few)
    fit = exchange(reduce(add_missing(fit, few), few, trace), few, trace)
    return settle_constants(refit(fit.formula, fit.weights, fit.constant, points), points)


def _fewer_than_rows(fit: Fit, points: Points) -> Fit:
    """Without the least important weights, where a step has too few rows to solve for all."""
    most = int(points.count.median()) // points.basis.shape[-1] - 1
    if len(fit.formula.open) <= most:
        return fit
    kept = importance(fit, points).argsort(descending=True)[: max(most, 1)].tolist()
    formula, weights, constant = _restrict(fit, [fit.formula.open[k] for k in kept])
    return Fit(formula, weights, constant, mean_squared_error(formula, weights, points))


def as_trained(
    layout: Layout,
    shapes: Sequence[tuple[int, int]],
    weights: Float[Tensor, "step weight"],
    points: Points,
) -> Fit:
    """The formula of a network's open weights, with nothing changed."""
    formula = Formula(layout, shapes, torch.nonzero((weights != 0).any(0)).squeeze(-1).tolist())
    start = weights.new_zeros(len(weights), len(formula.open), points.basis.shape[-1])
    start[..., 0] = weights[:, list(formula.open)]
    error = mean_squared_error(formula, start, points)
    return Fit(formula, start, (False,) * len(formula.open), error)
