"""The search: which gates are open. Numbers are never searched for, they are solved for.

Terms of the grammar are fitted one by one to a few experiments and rows, the best are kept and
grown by a second and a third term; the best of all are solved on every row of every experiment,
reduced (constants shared by all experiments, whole exponents, coefficients that are equal) and
compared by one criterion.

Cost: a term takes a few milliseconds. One positive feature has some 400 terms, two 2,100, three
5,800, four 10,200; of more features the four that matter most in a quadratic fit are combined with
each other, the rest add 400 terms each. What is looked at is bounded: the 500 simplest terms with
one inner weight and the 1,400 simplest with more, of which the 360 that explain most are solved.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from tqdm import tqdm

from ..engine.criterion import CONSISTENT, floor, information
from ..engine.formula import Formula
from .evaluation import Rows, Work
from .expressions import Expression, One, X, show, simplify
from .formulas import write
from .models import Judge, Model, compact, solve
from .notation import as_written, in_order, rewritten, with_phases
from .reduction import reduced
from .sampling import between, blocks, prepare_rows, spread, thinned
from .screening import EXACT, State, screen, variance
from .varpro import coefficients, descend, errors, exchange

SCREEN_STEPS, SCREEN_ROWS = 4, 48  # what terms are first tried on
SAMPLE_STEPS, SAMPLE_ROWS = 16, 128  # what the choice is made on
FINALISTS = 32  # by their score, and as many if most of their constants are shared
NEAR = 40.0  # a simple form this near to the best on the screening rows is a finalist too
MOST_REDUCED = 8  # likewise
FEW_CONSTANTS = 3  # of each step: most laws have no more
MARGIN = 0.1  # of the range, in which a form should be defined too
WORK = 3e9  # numbers computed at an effort of 1: about a minute; most tables need a fifth
BLOCK = 2**18  # numbers of a column that are computed with at once, where each step is by itself
MOST_PATTERNS = 6  # of signs of weights that are followed


@dataclass(frozen=True)
class Candidate:
    """A form with its constants at every step, in the units of ``points``.

    ``weights`` (step, weight) follow the columns of ``formula``; those in ``constant`` are equal
    at all steps.
    """

    formula: Formula
    weights: np.ndarray
    constant: tuple[bool, ...]
    error: np.ndarray  # (step,) mean squared error
    score: float  # the criterion on the rows the choice was made on; smaller is better
    exact: bool  # fits to rounding error
    model: Model = field(repr=False)
    interrupted: bool = False  # by Ctrl-C, before the search was through

    @property
    def n_free(self) -> int:
        """Constants of each step."""
        return self.model.n_free

    @property
    def n_shared(self) -> int:
        """Constants of all steps."""
        return self.model.n_shared

    @property
    def size(self) -> int:
        """Nodes of the form."""
        return self.model.size

    @property
    def text(self) -> str:
        """The form in a line, for a table of trials."""
        return " + ".join(show(column) for column in self.model.columns)

    @property
    def found_nothing(self) -> bool:
        """Whether the best form is a constant."""
        return all(isinstance(column, One) for column in self.model.columns)


def to_models(state: State, judge: Judge) -> list[Model]:
    """A screened state solved at every step, with and without its constant, as people write it.

    What has a constant to lean on may end far from where it would be without.
    """
    found = _solved(state.columns, state.w, judge)
    if state.terms:
        found += _solved(state.columns[1:], state.w, judge)
    return found


def _solved(columns: tuple[Expression, ...], donors: np.ndarray, judge: Judge) -> list[Model]:
    """The columns at every step of all rows, from what a few steps found.

    1/(exp(w x) - 1) is also -1 - 1/(exp(-w x) - 1): where steps differ in the signs of their
    weights, each pattern of signs that all steps can follow is a model of its own.
    """
    rows = judge.rows
    goal = judge.floor * rows.count
    w = np.repeat(donors[:1], len(rows.x), axis=0)
    sse = np.full(len(w), np.inf)
    w, sse = exchange(columns, rows, w, sse, 20, goal, donors=donors)
    if (sse > 4 * np.median(sse) + goal).any():
        w, sse = exchange(columns, rows, w, sse, 20, goal)
    if not w.shape[1]:
        sse = errors(columns, rows, w[None])[0]
    found = list(_written(columns, w, sse, judge))
    patterns = {tuple(np.sign(v)): k for k, v in enumerate(w)}
    if 1 < len(patterns) <= MOST_PATTERNS:
        for k in patterns.values():
            same, error = descend(columns, rows, np.repeat(w[k : k + 1], len(w), 0)[None], 30, goal)
            if error.sum() <= 1.01 * sse.sum() + goal.sum():
                found += _written(columns, same[0], error[0], judge)
    return found


def _written(columns, w: np.ndarray, sse: np.ndarray, judge: Judge) -> Iterator[Model]:
    c = coefficients(columns, judge.rows, w[None])[0]
    columns, w, c = with_phases([simplify(g) for g in columns], w, c)
    columns, w, c = as_written(columns, w, c)
    w, c = in_order(columns, w, c)
    m = Model(columns, w, c, (False,) * w.shape[1], ("free",) * len(columns), sse)
    m = compact(m)
    for one in (m, *rewritten(m)):
        yield judge.solved(one)


@np.errstate(all="ignore")
def search(
    points,
    *,
    kinds: Iterable[str] | None = None,
    max_terms: int = 3,
    max_depth: int = 2,
    effort: float = 1.0,
    progress: bool = True,
    seed: int = 0,
) -> list[Candidate]:
    """Forms for ``points``, best first: the best, and what is also consistent with the data.

    Args:
        points: x (step, point, feature), y and mask (step, point), in raw units: a power or a
            logarithm of x is not one of a shifted x. Steps have no order.
        kinds: names of primitives to use, by default all that are registered.
        max_terms: terms added up, besides a constant.
        max_depth: 1 for units of features, 2 for units of units.
        effort: how much may be computed; few tables need as much as 1. Where it ends, and at
            Ctrl-C, the best form so far is returned. It is counted in numbers, not in seconds, so
            that the same rows give the same form on every machine.

    >>> from types import SimpleNamespace
    >>> x = np.linspace(0, 2, 30)[None, :, None] + np.zeros((3, 1, 1))
    >>> y = np.exp(-x[..., 0] * np.array([[1.0], [2.0], [3.0]]))
    >>> search(SimpleNamespace(x=x, y=y, mask=np.ones_like(y)))[0].text
    'exp(w0*x0)'
    """
    rows = prepare_rows(points)
    rng = np.random.default_rng(seed)
    rows.work = Work(effort * WORK)
    sample = thinned(rows, SAMPLE_STEPS, SAMPLE_ROWS, rng)
    few = thinned(sample, SCREEN_STEPS, SCREEN_ROWS, rng)
    for i in range(rows.x.shape[-1]):
        rows.centre(X(i))
    grids = between(sample, seed), between(sample, seed, MARGIN)
    judge = Judge(sample, *grids, floor(sample.y, sample.mask))
    exact = EXACT * variance(few) * few.total
    pool: list[State] = []
    models: list[Model] = []
    interrupted = False
    bar = tqdm(desc="searching", unit=" rounds", disable=None if progress else True, leave=False)
    try:
        for states in screen(few, kinds, max_terms, max_depth, seed):
            pool += states
            bar.set_postfix_str(f"{len(pool)} forms, best {told(pool)}", refresh=False)
            bar.update()
            best = sorted((s for s in states if s.sse.sum() <= exact), key=lambda s: s.score)[:6]
            solved = (m for s in best for m in to_models(s, judge))
            # With as many constants as rows anything is exact: that ends no search.
            models += [m for m in solved if np.isfinite(m.score) and judge.is_exact(m)]
            if any(not judge.doubts(m) for m in models):
                break
        if not models:
            models = [m for s in chosen(pool, few) for m in to_models(s, judge)]
        models = [m for m in models if np.isfinite(m.score)]
        models = [reduced(m, judge, lambda: rows.work.out) for m in to_reduce(models, judge)]
    except KeyboardInterrupt:
        interrupted = True
        warnings.warn("interrupted: the best formula so far is kept", stacklevel=3)
        if not models:
            models = [m for s in chosen(pool, few)[:4] for m in to_models(s, judge)]
    finally:
        bar.close()
    models = [m for m in models if not judge.interpolates(m)]
    models = or_nothing(distinct(models), pool, judge)
    found = [candidate(m, rows, judge) for m in models]
    return [replace(one, interrupted=interrupted) for one in found]


def or_nothing(models: list[Model], pool: list[State], judge: Judge) -> list[Model]:
    """The best and what is near it, or the constant, unless the best beats chance.

    Of N forms fitted to noise the best looks better by 2 log N: so much is the choice worth.

    The last word among forms has a criterion at which a constant of each step costs what the rows
    of that step make it worth. At the price of all rows, many steps would buy a wrong form that
    does with one constant less.
    """
    count = judge.rows.count
    zeros = np.zeros((len(count), 0))
    constant = Model((One(),), zeros, np.zeros((len(zeros), 1)), (), ("free",), count)
    constant = reduced(judge.solved(constant), judge)
    nothing = (judge.rows.y**2).sum(-1) / count
    chance = min(constant.score, information(nothing, count, 0, 0, 0, judge.floor))
    cheaper = float((np.log(count.sum()) - np.log(np.maximum(count, 1))).sum())
    models = [replace(m, score=m.score - m.n_free * cheaper) for m in models]
    models.sort(key=lambda m: m.score)
    scores = [m.score + m.n_free * cheaper for m in models[:1]]
    if not scores or scores[0] > chance - 2 * np.log(max(len(pool), 1)):
        return [constant]
    near: list[Model] = []
    for m in models:
        # As many constants and the same errors: the same function, written in another way.
        twin = any(
            m.n_free == other.n_free and np.allclose(m.sse, other.sse, rtol=1e-5, atol=0)
            for other in near
        )
        if m.score <= models[0].score + CONSISTENT and not twin:
            near.append(m)
    return near


def candidate(m: Model, rows: Rows, judge: Judge) -> Candidate:
    """A model solved at all steps and rows, as a formula."""
    full = on_all_steps(m, rows, judge)
    formula, weights, constant = write(full, rows)
    error = full.sse / rows.count
    return Candidate(formula, weights, constant, error, m.score, judge.is_exact(m), full)


def on_all_steps(m: Model, rows: Rows, judge: Judge) -> Model:
    """A model of a sample of steps and rows, solved on all of them."""
    if rows.y.shape == judge.rows.y.shape:
        return m
    own = floor(rows.y, rows.mask)
    goal = own * rows.count
    steps = spread(len(rows.x), SAMPLE_STEPS)
    near = np.abs(np.arange(len(rows.x))[:, None] - steps[None]).argmin(1)
    start = replace(m, w=m.w[near], c=m.c[near], sse=np.full(len(near), np.inf))
    if any(kind != "free" for kind in m.kinds) or any(m.shared):
        return solve(start, rows, 40, own)
    solved = []
    for at, part in blocks(rows, BLOCK):
        # Steps far from their neighbours try what every sampled step found.
        w, sse = start.w[at], start.sse[at]
        w, _ = exchange(m.columns, part, w, sse, 30, goal[at], donors=m.w)
        solved.append(solve(replace(start, w=w, c=start.c[at], sse=sse), part, 40, own[at]))
    w, c, sse = (
        np.concatenate([getattr(one, name) for one in solved]) for name in ("w", "c", "sse")
    )
    return replace(start, w=w, c=c, sse=sse)


def told(pool: list[State]) -> str:
    """The best sum of terms so far, in a line."""
    best = min(pool, key=lambda s: s.score)
    return " + ".join(show(t.columns[0]) for t in best.terms) or "none"


def distinct(models: Iterable[Model], signs: bool = False) -> list[Model]:
    """Each form once with its best score; with ``signs`` once for each sign of its weights."""
    best: dict = {}
    for m in models:
        key = frozenset(m.columns), np.sign(m.w).tobytes() if signs else b""
        if key not in best or m.score < best[key].score:
            best[key] = m
    return sorted(best.values(), key=lambda m: m.score)


def chosen(pool: list[State], rows: Rows) -> list[State]:
    """The finalists: the best as they are, and the best if most of their constants are shared.

    On a few steps a constant costs the same whether it will turn out to be shared or not; a law
    with shared constants is undervalued there.
    """
    exact = floor(rows.y, rows.mask)

    def hopeful(s: State) -> float:
        n = len(s.columns) + s.w.shape[1]
        size = sum(t.size for t in s.terms)
        return information(s.sse / rows.count, rows.count, 1, n - 1, size, exact)

    pool = list({s.columns: s for s in sorted(pool, key=lambda s: -s.score)}.values())
    ranked = sorted(pool, key=lambda s: s.score)
    # A few rows hardly tell smooth curves apart: no simple one is left out.
    near = [s for s in ranked if s.score < ranked[0].score + NEAR]
    simple = [s for s in near if len(s.terms) == 1 and s.w.shape[1] <= 1]
    choice = [
        *ranked[:FINALISTS],
        *simple[: 2 * FINALISTS],
        *sorted(pool, key=hopeful)[:FINALISTS],
    ]
    return list({id(s): s for s in choice}.values())


def to_reduce(models: list[Model], judge: Judge) -> list[Model]:
    """The models worth reducing, by their score as they are and with most constants shared."""
    count = judge.rows.count

    def hopeful(m: Model) -> float:
        n = m.n_free + m.n_shared
        return information(m.sse / count, count, min(1, n), n - 1, m.size, judge.floor)

    models = list(
        {(m.columns, round(m.score, 6)): m for m in distinct(models, signs=True)}.values()
    )
    # Forms with many constants would crowd out those with few: they fit, but nothing is shared.
    few = [m for m in models if m.n_free + m.n_shared <= FEW_CONSTANTS]
    # Nor may all be forms that interpolate unless some of their constants turn out to be shared.
    sound = [m for m in models if not judge.interpolates(m)]
    best = [
        *models[:MOST_REDUCED],
        *sound[: MOST_REDUCED // 2],
        *sorted(few, key=hopeful)[:MOST_REDUCED],
        *sorted(models, key=hopeful)[: MOST_REDUCED // 2],
    ]
    return list({id(m): m for m in best}.values())
