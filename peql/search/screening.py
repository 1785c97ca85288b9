"""Screening: terms and sums of terms tried on a few experiments and rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..engine.criterion import floor, information
from .evaluation import Rows
from .expressions import Expression, One
from .grammar import Grammar, Term
from .starts import starts
from .varpro import descend, errors, evaluated, exchange, project

DESCENTS = 3  # starts at each step that are followed
MOST_TERMS = 360  # of the first round that are descended from
FOLLOWED = 100  # of them, at least, that are followed further: some valleys are long and narrow
MOST_SIMPLE, MOST_NESTED = 500, 1400  # terms whose starts are looked at, the smallest first
MOST_ADDED = 12  # terms tried with each formula of the beam
BEAM = 8
MOST_TOGETHER = 4  # features that are combined with each other
PAIRED_STARTS = 1400  # starts of simple terms that are compared in pairs
MOST_TWINS = 80  # terms with two weights that are tried twice, two peaks for instance
PAIRS = 150  # pairs of terms that are descended from
EXACT = 1e-17  # share of y's variance; below, screening has found the form


Try = tuple[tuple[Term, ...], np.ndarray, np.ndarray]  # terms, starts, their sums of squares


@dataclass(frozen=True)
class State:
    """A sum of terms and a constant, fitted to the screening rows."""

    terms: tuple[Term, ...]
    w: np.ndarray  # (step, weight)
    sse: np.ndarray  # (step,)
    score: float

    @property
    def columns(self) -> tuple[Expression, ...]:
        return with_constant(self.terms)


def with_constant(terms: Iterable[Term]) -> tuple[Expression, ...]:
    """The columns of a sum of terms and a constant."""
    return (One(), *(c for t in terms for c in t.columns))


@dataclass(frozen=True)
class Dictionary:
    """The columns of all terms at all starts, of norm 1: candidates to explain what is left."""

    units: np.ndarray  # (step, unit, point)
    owner: np.ndarray  # (unit,) its term
    place: np.ndarray  # (unit,) its start
    twins: list[tuple[slice, slice]]  # the two columns of a wave


class Screen:
    """Terms tried on a few experiments and rows."""

    def __init__(self, rows: Rows, terms: list[Term], seed: int):
        self.rows = rows
        self.floor = floor(rows.y, rows.mask)
        self.terms, self.starts, self.first = [], [], []
        with np.errstate(all="ignore"):
            for term in terms:
                if rows.work.out:
                    break
                w = starts(term, rows, seed)
                sse = errors(with_constant([term]), rows, w)
                if not np.isfinite(sse).any(0).all():
                    continue
                self.terms.append(term)
                self.starts.append(w)
                self.first.append(sse)

    def score(self, terms: tuple[Term, ...], sse: np.ndarray) -> float:
        n_shared = sum(t.n_exponents for t in terms)
        n_free = 1 + sum(len(t.columns) + t.n_weights for t in terms) - n_shared
        size = 1 + sum(t.size for t in terms)
        errors = sse / self.rows.count, self.rows.count
        return information(*errors, n_free, n_shared, size, self.floor, spare=bool(terms))

    def empty(self) -> State:
        w = np.zeros((len(self.rows.x), 0))
        sse = errors((One(),), self.rows, w[None])[0]
        return State((), w, sse, self.score((), sse))

    def singles(self) -> list[State]:
        """Each term on its own with a constant."""
        order = np.argsort(
            [self.score((t,), s.min(0)) for t, s in zip(self.terms, self.first, strict=True)]
        )
        tries: list[Try] = [
            ((self.terms[k],), self.starts[k], self.first[k]) for k in order[:MOST_TERMS]
        ]
        return self.best_of(tries, FOLLOWED)

    def fit(
        self,
        terms: tuple[Term, ...],
        w: np.ndarray,
        sse: np.ndarray,
        iterations: int = 14,
        last: bool = True,
    ) -> State:
        """Follow the best starts at each step; then each step tries what the others found."""
        columns = with_constant(terms)
        best = np.argsort(sse, axis=0)[:DESCENTS]
        chosen = np.take_along_axis(w, best[..., None], axis=0)
        goal = self.floor * self.rows.count
        new_w, new = descend(columns, self.rows, chosen, iterations, goal)
        pick = new.argmin(0)
        steps = np.arange(len(pick))
        at, sse = new_w[pick, steps], new[pick, steps]
        if last:
            at, sse = exchange(columns, self.rows, at, sse, iterations, goal)
        return State(terms, at, sse, self.score(terms, sse))

    @cached_property
    def dictionary(self) -> Dictionary:
        units: list[np.ndarray] = []
        owners: list[np.ndarray] = []
        places: list[np.ndarray] = []
        twins: list[tuple[slice, slice]] = []
        for k, (term, w) in enumerate(zip(self.terms, self.starts, strict=True)):
            with np.errstate(all="ignore"):
                values, _, bad = evaluated(term.columns, self.rows, w, slopes=False)
            at = sum(len(u) for u in units)
            if len(values) == 2:
                n = len(w)
                twins.append((slice(at, at + n), slice(at + n, at + 2 * n)))
            for v in values:
                v = np.broadcast_to(v, (*w.shape[:2], v.shape[-1])).copy()
                v[bad] = 0.0
                v[~np.isfinite(v).all(-1)] = 0.0
                norm = np.sqrt(np.einsum("bsr,bsr->bs", v, v))
                v /= np.where(norm > 0, norm, 1.0)[..., None]
                units.append(v)
                owners.append(np.full(len(v), k))
                places.append(np.arange(len(v)))
        by_step = np.concatenate(units).swapaxes(0, 1).copy()
        return Dictionary(by_step, np.concatenate(owners), np.concatenate(places), twins)

    def additions(self, state: State) -> Iterator[tuple[int, np.ndarray]]:
        """Terms that explain most of what ``state`` leaves, and their best starts at each step."""
        with np.errstate(all="ignore"):
            values, _, _ = evaluated(state.columns, self.rows, state.w[None], slopes=False)
            projection = project(values, self.rows.y)
        residual = np.broadcast_to(projection.residual, (1, *self.rows.y.shape))[0]
        units = self.dictionary.units
        left = np.ones(units.shape[:2])
        for q in projection.basis:
            q = np.broadcast_to(q, (1, *residual.shape))[0]
            left -= np.einsum("sur,sr->su", units, q) ** 2
        along = np.einsum("sur,sr->su", units, residual)
        gain = np.where(left > 1e-8, along**2 / np.maximum(left, 1e-8), 0.0)  # (step, unit)
        for first, second in self.dictionary.twins:
            u, v = units[:, first], units[:, second]
            overlap = np.einsum("sur,sur->su", u, v)
            for q in projection.basis:
                q = np.broadcast_to(q, (1, *residual.shape))[0]
                overlap -= np.einsum("sur,sr->su", u, q) * np.einsum("sur,sr->su", v, q)
            a, b = along[:, first], along[:, second]
            room = left[:, first] * left[:, second] - overlap**2
            both = a**2 * left[:, second] + b**2 * left[:, first] - 2 * a * b * overlap
            both = np.where(room > 1e-8, both / np.maximum(room, 1e-8), gain[:, first])
            gain[:, first] = gain[:, second] = both
        total = np.zeros((len(self.terms), len(residual)))
        np.maximum.at(total, self.dictionary.owner, gain.T)
        pooled = (state.sse[None] - total).clip(0) + self.floor * self.rows.count
        score = [self.score((*state.terms, t), pooled[k]) for k, t in enumerate(self.terms)]
        for k in np.argsort(score)[:MOST_ADDED]:
            own = self.dictionary.owner == k
            best = np.argsort(-gain[:, own], axis=1)[:, :DESCENTS]  # (step, start)
            places = self.dictionary.place[own][best]
            chosen = self.starts[k][places.T, np.arange(len(residual))[None]]
            yield int(k), chosen

    def pairs(self, alike: bool = False) -> list[State]:
        """Two terms at once: every pair of starts is compared before any descent.

        ``alike``: each term with another of its own kind only, two peaks for instance.
        """
        narrow = [k for k, t in enumerate(self.terms) if len(t.columns) == 1]
        narrow = narrow if alike else self._promising(narrow)
        if not narrow:  # or out of time before any was looked at
            return []
        pooled, where = self._compared(narrow, alike)
        ranked = []
        for i, first in enumerate(narrow):
            for j in range(i, i + 1 if alike else len(narrow)):
                one, two = self.terms[first], self.terms[narrow[j]]
                if i == j and one.n_weights == 0:
                    continue
                ranked.append((self.score((one, two), pooled[:, i, j]), i, j))
        ranked.sort()
        found: list[Try] = []
        steps = np.arange(len(self.rows.x))
        for _, i, j in ranked[:PAIRS]:
            if self.rows.work.out:
                break
            one, two = self.terms[narrow[i]], self.terms[narrow[j]]
            w = np.concatenate(
                [
                    self.starts[narrow[i]][where[:, i, j, 0], steps],
                    self.starts[narrow[j]][where[:, i, j, 1], steps],
                ],
                axis=-1,
            )
            w = np.repeat(w[:, None], len(steps), axis=1)  # every step from every step's start
            terms = (one, two.shifted(one.n_weights))
            found.append((terms, w, errors(with_constant(terms), self.rows, w)))
        return self.best_of(found)

    def _promising(self, terms: list[int]) -> list[int]:
        """Half of the room for the simplest, half for those that explain most on their own."""
        alone = {k: self.score((self.terms[k],), self.first[k].min(0)) for k in terms}
        chosen: list[int] = []
        for order in (
            sorted(terms, key=lambda k: (self.terms[k].size, k)),
            sorted(terms, key=lambda k: alone[k]),
        ):
            room = PAIRED_STARTS // 2
            for k in order:
                room -= len(self.starts[k]) * (k not in chosen)
                if room > 0 and k not in chosen:
                    chosen.append(k)
        return chosen

    def _compared(self, terms: list[int], alike: bool) -> tuple[np.ndarray, np.ndarray]:
        """What the best starts of every pair leave (step, term, term), and which they are.

        With the constant projected out, the best fit of two unit columns follows from their
        product g and their products h with y: (h₁² + h₂² - 2 h₁h₂g) / (1 - g²).
        """
        index = np.concatenate([np.flatnonzero(self.dictionary.owner == k) for k in terms])
        owner = np.concatenate([np.full(len(self.starts[k]), i) for i, k in enumerate(terms)])
        n_steps, n_terms = len(self.rows.x), len(terms)
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        ends = [*first[1:], len(owner)]
        gains = np.zeros((n_steps, n_terms, n_terms))
        where = np.zeros((n_steps, n_terms, n_terms, 2), dtype=int)
        left = np.zeros(n_steps)
        for s in range(n_steps):
            u = self.dictionary.units[s, index]
            there = self.rows.mask[s]
            u = u - np.outer(u @ there / there.sum(), there)
            norm = np.sqrt((u**2).sum(-1))
            u = u / np.where(norm > 1e-8, norm, np.inf)[:, None]
            y = self.rows.y[s] - there * (self.rows.y[s] @ there) / there.sum()
            left[s] = y @ y
            h = u @ y
            for i in range(n_terms):
                own, others = slice(first[i], ends[i]), slice(first[i], ends[i] if alike else None)
                g = u[own] @ u[others].T
                self.rows.work.done += 4 * g.size
                room = 1 - g**2
                a, b = h[own, None], h[None, others]
                gain = np.where(room > 1e-7, (a**2 + b**2 - 2 * g * a * b) / room, 0.0)
                best, row = gain.max(0), gain.argmax(0)
                for j in range(i, i + 1 if alike else n_terms):
                    start, end = first[j] - first[i], ends[j] - first[i]
                    k = start + int(best[start:end].argmax())
                    gains[s, i, j] = best[k]
                    where[s, i, j] = row[k], k - start
        return np.maximum(left[:, None, None] - gains, 0.0), where

    def best_of(self, tries: list[Try], followed: int = BEAM) -> list[State]:
        """Follow all a little, then the best third, or ``followed`` of them, further."""
        states = []
        for terms, w, sse in tries:
            if self.rows.work.out:
                break
            states.append(self.fit(terms, w, sse, iterations=5, last=False))
        # One step that is solved is a promise: the others start from it.
        promise = [
            self.score(s.terms, np.full_like(s.sse, np.exp(np.log(s.sse + 1e-300).mean())))
            for s in states
        ]
        kept = np.argsort(promise)[: max(len(states) // 3, followed)]
        finished = []
        for k in kept:
            terms, w, sse = tries[k]
            w = np.concatenate([states[k].w[None], w])
            sse = np.concatenate([states[k].sse[None], sse])
            finished.append(self.fit(terms, w, sse))
            if self.rows.work.out:
                break
        return finished

    def grow(self, beam: list[State], tried: set) -> list[State]:
        """Each formula of ``beam`` with each of the terms that explain most of what it leaves."""
        found: list[State] = []
        if not self.terms:
            return found
        for state in beam:
            for k, chosen in self.additions(state):
                if self.rows.work.out:
                    return found
                key = frozenset([*(t.columns for t in _local(state.terms)), self.terms[k].columns])
                if key in tried:
                    continue
                tried.add(key)
                n = state.w.shape[-1]
                term = self.terms[k].shifted(n)
                w = np.concatenate(
                    [np.broadcast_to(state.w, (len(chosen), *state.w.shape)), chosen], axis=-1
                )
                terms = (*state.terms, term)
                columns = (*state.columns, *term.columns)
                found.append(self.fit(terms, w, errors(columns, self.rows, w)))
        return found


def _local(terms: Iterable[Term]) -> Iterator[Term]:
    """Terms with their weights counted from 0 again."""
    for t in terms:
        first = min((w for c in t.columns for w in c.weights()), default=0)
        yield t.shifted(-first)


def variance(rows: Rows) -> float:
    """Of y over all rows."""
    mean = (rows.y * rows.mask).sum() / rows.total
    return float((((rows.y - mean) ** 2) * rows.mask).sum() / rows.total)


def telling(rows: Rows, most: int) -> list[int]:
    """The features that matter most in a quadratic fit of all steps, y in units of each step's."""
    n = rows.x.shape[-1]
    if n <= most:
        return list(range(n))
    there = rows.mask > 0
    z = rows.x[there]
    z = (z - z.mean(0)) / (z.std(0) + 1e-300)
    centred = [
        (y[m] - y[m].mean()) / (y[m].std() or 1.0) for y, m in zip(rows.y, there, strict=True)
    ]
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    columns = [*z.T, *(z[:, i] * z[:, j] - (z[:, i] * z[:, j]).mean() for i, j in pairs)]
    c = np.linalg.lstsq(np.stack(columns, axis=1), np.concatenate(centred), rcond=1e-6)[0] ** 2
    weight = c[:n].copy()
    for (i, j), share in zip(pairs, c[n:], strict=True):
        weight[i] += share
        weight[j] += share * (i != j)
    return sorted(np.argsort(-weight)[:most].tolist())


def screen(rows: Rows, kinds, max_terms: int, max_depth: int, seed: int) -> Iterator[list[State]]:
    """Sums of terms on the screening rows, in rounds of growing complexity."""
    terms = Grammar(rows.x, kinds, telling(rows, MOST_TOGETHER)).terms(max_depth)
    most = max(1.0, 0.5 * float(np.median(rows.count)))
    terms = [t for t in terms if len(t.columns) + t.n_weights <= most]
    plain = [t for t in terms if t.n_weights == 0]
    simple = [t for t in terms if t.n_weights == 1]
    laws = [t for t in terms if t.n_weights > 1 and t.n_weights == t.n_exponents]
    nested = [t for t in terms if t.n_weights > 1 and t.n_weights > t.n_exponents]
    # An exponent is nearly always a whole number: no weight of its own.
    nested.sort(key=lambda t: (t.n_weights - t.n_exponents, t.size))
    simple, nested = simple[:MOST_SIMPLE], nested[:MOST_NESTED]
    few = Screen(rows, plain, seed)
    best = [few.empty()]
    yield best
    # Sums of powers: no weight inside, so many terms cost little.
    beam = few.singles()
    tried: set = set()
    for _ in range(max_terms):
        yield beam
        best = sorted([*best, *beam], key=lambda s: s.score)[:BEAM]
        beam = few.grow(best, tried)
    yield Screen(rows, laws, seed).singles()
    small = Screen(rows, [*plain, *simple], seed)
    singles = sorted(small.singles(), key=lambda s: s.score)
    yield singles
    deep = sorted(Screen(rows, nested, seed).singles(), key=lambda s: s.score)
    yield deep
    pairs: list[State] = []
    twins = [t for t in nested if t.n_weights == 2 and len(t.columns) == 1][:MOST_TWINS]
    for alike in (False, True) if max_terms > 1 else ():
        found = Screen(rows, twins, seed).pairs(alike) if alike else small.pairs()
        yield found
        pairs = sorted([*pairs, *found], key=lambda s: s.score)
    waves = [s for s in singles if len(s.columns) > 2]
    waves = [*waves[: BEAM // 2], *(s for s in waves[BEAM // 2 :] if s.terms[0].size <= 4)]
    tried = set()
    for beam in (waves, deep[:BEAM]):
        found = sorted(small.grow(beam, tried), key=lambda s: s.score)
        yield found
        pairs += found
    best = sorted([*best, *singles, *deep], key=lambda s: s.score)[:BEAM]
    beam = sorted(pairs, key=lambda s: s.score)[:BEAM]
    for _ in range(3, max_terms + 1):
        if not beam or beam[0].score > best[0].score or rows.work.out:
            break
        best = beam
        beam = sorted(small.grow(beam, tried), key=lambda s: s.score)[:BEAM]
        yield beam
