"""The terms that the search tries: built from the registered primitives, each form once.

What is redundant is left out by construction. exp(w x + b) is a factor times exp(w x), so b is no
inner weight; sin(w x + p) is a sum of sin(w x) and cos(w x), two columns; 1/(w x + b) is a factor
times 1/(x + b). The primitives say so of themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from ..primitives import Primitive, get, names
from .expressions import (
    Apply,
    Expression,
    Mix,
    Power,
    Scale,
    Shift,
    Times,
    X,
)

FEW_FEATURES = 3  # up to here every pair and triple of features is combined


@dataclass(frozen=True)
class Term:
    """Columns that share inner weights: one, or two where a phase is split."""

    columns: tuple[Expression, ...]

    @property
    def n_weights(self) -> int:
        return n_weights(*self.columns)

    @property
    def size(self) -> int:
        first = self.columns[0].size()
        # What else is written: x of (a + b·x)·g, or a background; a phase costs its weight.
        beside = (c.size() + (-first if c.weights() else 1) for c in self.columns[1:])
        return first + sum(beside)

    @property
    def n_exponents(self) -> int:
        """Powers of features: nearly always the same at every step."""
        return len({w for c in self.columns for w in _exponents(c)})

    def shifted(self, by: int) -> Term:
        return Term(tuple(c.shifted(by) for c in self.columns))


def _exponents(g: Expression) -> Iterator[int]:
    if isinstance(g, Power) and isinstance(g.w, int) and isinstance(g.g, X):
        yield g.w
    for part in g.parts():
        yield from _exponents(part)


def n_weights(*expressions: Expression) -> int:
    """The number of inner weights; they are numbered without gaps."""
    return 1 + max((w for e in expressions for w in e.weights()), default=-1)


def times(g: Expression, h: Expression) -> Expression:
    """g·h, each with weights of its own."""
    return Times(g, h.shifted(n_weights(g)))


def scaled(g: Expression) -> Scale:
    """w·g with a new weight."""
    return Scale(g, n_weights(g))


def moved(g: Expression) -> Shift:
    """g + b with a new weight."""
    return Shift(g, n_weights(g))


def power(g: Expression) -> Power:
    """g**p with a new weight."""
    return Power(g, n_weights(g))


def units(g: Expression, kinds: Sequence[Primitive]) -> Iterator[Term]:
    """A unit of each primitive of the argument ``g``, with what is not redundant of w·g + b."""
    for p in kinds:
        if p.arity != 1 or (p.redundant_scale and p.redundant_shift):
            continue
        if p.partner is not None:
            if p.name < p.partner and any(k.name == p.partner for k in kinds):
                continue  # the pair once, under its later name
            columns: tuple[Expression, ...] = (Apply(p.name, scaled(g)),)
            if p.redundant_shift:
                columns = (*columns, Apply(p.partner, scaled(g)))
            yield Term(columns)
        elif p.redundant_shift:
            if p.name == "exp" and isinstance(g, Apply) and g.name == "log":
                yield Term((power(g.g),))
            else:
                yield Term((Apply(p.name, scaled(g)),))
        elif p.redundant_scale:
            yield Term((Apply(p.name, moved(g)),))
        else:
            yield Term((Apply(p.name, scaled(g)),))
            # tanh with a shift is a constant and a logistic: known by exp and the reciprocal.
            if p.name != "tanh" or not {"exp", "reciprocal"} <= {k.name for k in kinds}:
                yield Term((Apply(p.name, moved(scaled(g))),))


class Grammar:
    """Terms for features whose signs are known; ``positive`` and ``one_sign`` by feature.

    ``together`` are the features that are combined with each other, by default all of them.
    """

    def __init__(
        self,
        x: np.ndarray,
        kinds: Iterable[str] | None = None,
        together: Sequence[int] | None = None,
    ):
        flat = x.reshape(-1, x.shape[-1])
        self.n = flat.shape[-1]
        self.together = list(range(self.n)) if together is None else sorted(together)
        self.positive = [bool((flat[:, i] > 0).all()) for i in range(self.n)]
        self.one_sign = [p or bool((flat[:, i] < 0).all()) for i, p in enumerate(self.positive)]
        self.names = set(names() if kinds is None else kinds)
        self.kinds = [get(name) for name in sorted(self.names)]
        self.nested: dict[int, list[Term]] = {}

    def monomials(self, i: int) -> list[Expression]:
        x = X(i)
        found: list[Expression] = [x, Power(x, 2.0), Power(x, 3.0), Power(x, 4.0)]
        if self.one_sign[i]:
            found += [Power(x, -1.0), Power(x, -2.0)]
        if self.positive[i]:
            found += [Power(x, 0.5), Power(x, -0.5), Power(x, 1.5)]
            if "log" in self.names:
                found.append(Apply("log", x))
        return found

    def arguments(self, i: int) -> list[Expression]:
        x = X(i)
        found: list[Expression] = [x, Power(x, 2.0)]
        if self.one_sign[i]:
            found.append(Power(x, -1.0))
        if self.positive[i]:
            found += [Apply("log", x), Power(x, 0.5)]
        return found

    def combined(self) -> list[Expression]:
        """Arguments of two or three features without weights: products and ratios."""
        found: list[Expression] = []
        for i, j in combinations(self.together, 2):
            found.append(Times(X(i), X(j)))
            found.append(Times(Power(X(i), 2.0), Power(X(j), 2.0)))
        for i, j in permutations(self.together, 2):
            if self.one_sign[j]:
                found.append(Times(X(i), Power(X(j), -1.0)))
                found.append(Times(Power(X(i), 2.0), Power(X(j), -1.0)))
                found.append(Times(X(i), Power(X(j), -2.0)))
                found.append(Times(Power(X(i), 2.0), Power(X(j), -2.0)))
            found.append(Times(Power(X(i), 2.0), X(j)))
        if len(self.together) <= FEW_FEATURES:
            for i, j, k in permutations(self.together, 3):
                if i < j:
                    found.append(Times(Times(X(i), X(j)), X(k))) if j < k else None
                    if self.one_sign[k]:
                        found.append(Times(Times(X(i), X(j)), Power(X(k), -1.0)))
                if j < k and self.one_sign[j] and self.one_sign[k]:
                    found.append(Times(X(i), Times(Power(X(j), -1.0), Power(X(k), -1.0))))
        return found

    def directions(self) -> list[Expression]:
        """x_i + w x_j, and the same of squares and of reciprocals."""
        found: list[Expression] = []
        for i, j in combinations(self.together, 2):
            found.append(Mix(X(i), X(j), 0))
            found.append(Mix(Power(X(i), 2.0), Power(X(j), 2.0), 0))
            if self.one_sign[i] and self.one_sign[j]:
                found.append(Mix(Power(X(i), -1.0), Power(X(j), -1.0), 0))
        return found

    def power_law(self, features: Sequence[int]) -> Expression | None:
        features = [k for k in features if self.positive[k]]
        total: Expression | None = None
        for k in features:
            total = power(X(k)) if total is None else times(total, Power(X(k), 0))
        return total

    def terms(self, depth: int = 2) -> list[Term]:
        """All terms, simplest first; a form appears once."""
        seen: dict[tuple, Term] = {}

        def add(*found: Term | Expression) -> None:
            for term in found:
                term = term if isinstance(term, Term) else Term((term,))
                seen.setdefault(term.columns, term)

        one = [self.one_feature(i, depth) for i in range(self.n)]
        for parts in one:
            add(*parts)
        if self.n > 1:
            add(*self.several(depth))
        return sorted(seen.values(), key=lambda t: (t.n_weights, t.size))

    def one_feature(self, i: int, depth: int) -> list[Term]:
        """Powers of a feature, units of it, units of units, and products of all these."""
        x = X(i)
        found: list[Term] = [Term((m,)) for m in self.monomials(i)]
        if self.positive[i]:
            found.append(Term((power(x),)))
        level1 = [t for g in self.arguments(i) for t in units(g, self._reading(g))]
        level1 = [t for t in level1 if not _is_polynomial(t)]
        found += level1
        if depth < 2:
            return found
        nested = self.units_of_units(i)
        simple = self.nested[i] = [t for t in nested if t.n_weights <= 2]
        found += [*self.roots(i), *nested, *self.balanced(i)]
        # Before a unit of a unit only where it is a peak, a step or a ratio, not a root of a root.
        plainly = [t for t in level1 if _argument(t) in (x, Power(x, 2.0), Power(x, -1.0))]
        followed = [*plainly, *(t for t in simple if _vanishes(t.columns[0]))]
        # (a + b·x)·g: a critically damped oscillation, a ratio of polynomials.
        linear = [t.columns[0] for t in followed if len(t.columns) == 1]
        found += [Term((c, Times(x, c))) for c in linear if not _folds(x, c)]
        # A peak or a step on a sloping ground.
        found += [Term((t.columns[0], x)) for t in simple if t.n_weights == 2]
        for factor in self.factors(i):
            for t in followed:
                if n_weights(factor) + t.n_weights > 3 or _folds(factor, t.columns[0]):
                    continue
                found.append(Term(tuple(times(factor, c) for c in t.columns)))
        return found + self.units_multiplied(i)

    def units_of_units(self, i: int) -> list[Term]:
        """Logistic, Hill, Gauss, Lorentz, Gompertz, Weibull, Vogel, ..."""
        x = X(i)
        inner = [t.columns[0] for t in units(x, self.kinds)]
        if self.positive[i]:
            inner += [power(x), Power(moved(Apply("log", x)), 2.0)]
        nested = []
        for g in inner:
            if isinstance(g, Apply) and g.name == "tanh":
                continue
            if isinstance(g, Apply) and get(g.name).partner is not None:
                # a/(1 + e·cos(x + p)) is an orbit; exp or log of a wave follows any few rows
                if "reciprocal" in self.names:
                    phased = Apply(g.name, moved(scaled(x)))
                    nested.append(Term((Apply("reciprocal", moved(phased)),)))
                continue
            for t in units(g, self._outer):
                if not _is_polynomial(t) and not _undone(t.columns[0]):
                    nested.append(Term(t.columns[:1]))
        if "exp" in self.names:
            growth = Apply("exp", scaled(x))
            nested += [Term((Power(moved(growth), k),)) for k in (2.0, 3.0)]  # Morse, Bertalanffy
            if "reciprocal" in self.names:  # Bose and Fermi: a number in the place of a weight
                nested += [Term((Apply("reciprocal", Shift(growth, k)),)) for k in (-1.0, 1.0)]
                # a soliton, the slope of a logistic
                nested.append(Term((Times(growth, Power(moved(growth), -2.0)),)))
        if "sqrt" in self.names and "reciprocal" in self.names:
            quadratic = Power(moved(x), 2.0)
            nested += [
                Term((Power(moved(quadratic), -0.5),)),
                Term((power(moved(Power(x, 2.0))),)),  # a coil's field, a profile of Moffat's
                # a driven oscillator's amplitude
                Term((Power(Mix(Power(Shift(Power(x, 2.0), 0), 2.0), Power(x, 2.0), 1), -0.5),)),
            ]
        return nested

    def roots(self, i: int) -> list[Term]:
        """Reciprocals of roots and squares of what was moved."""
        if not {"sqrt", "reciprocal"} <= self.names:
            return []
        found = [Term((Power(moved(g), -0.5),)) for g in self.arguments(i)[:2]]
        return [*found, Term((Power(moved(X(i)), -2.0),))]

    def factors(self, i: int) -> list[Expression]:
        """What may stand before a unit of the same feature."""
        x = X(i)
        found: list[Expression] = [x, Power(x, 2.0), Power(x, 3.0)]
        if self.one_sign[i]:
            found += [Power(x, -1.0), Power(x, -2.0)]
        if self.positive[i]:
            found += [Power(x, 0.5), power(x)]
        if "exp" in self.names:
            found.append(Apply("exp", scaled(x)))
        return found

    def units_multiplied(self, i: int) -> list[Term]:
        """Products of two units of the same feature, waves whose frequency grows, and cosh."""
        x = X(i)
        on_x = [t for t in units(x, self.kinds) if not _is_polynomial(t)]
        single = [t.columns[0] for t in on_x if len(t.columns) == 1]
        waves = [t for t in on_x if len(t.columns) == 2]
        found = [Term((times(a, b),)) for a, b in combinations(single, 2)]
        chirp = Mix(x, Power(x, 2.0), 0)
        found += [t for t in units(chirp, self.kinds) if len(t.columns) == 2]
        if "exp" in self.names:  # both exponentials of one rate: a catenary, a fin
            found.append(Term((Apply("exp", scaled(x)), Apply("exp", Scale(Scale(x, -1.0), 0)))))
        gauss = Apply("exp", scaled(Power(x, 2.0)))
        for wave in waves:
            for g in (*single, gauss):
                found.append(Term(tuple(times(g, c) for c in wave.columns)))
            # A wave on what falls off as it does: diffraction, fringes in a beam.
            for g in (*(f for f in self.factors(i) if _vanishes(f)), gauss):
                found.append(Term((*(times(g, c) for c in wave.columns), g)))
        return found

    def balanced(self, i: int) -> list[Term]:
        """Reciprocals and roots of two powers: an impedance, a resonance, dispersion."""
        x = X(i)
        sums: list[Expression] = [Mix(Power(x, 4.0), Power(x, 2.0), 0)]
        if self.one_sign[i]:
            sums += [Mix(Power(x, k), Power(x, -k), 0) for k in (1.0, 2.0)]
            sums.append(Power(moved(Power(x, 2.0)), -1.0))
        outer = {-1.0: {"reciprocal"}, 0.5: {"sqrt"}, -0.5: {"sqrt", "reciprocal"}}
        powers = [k for k, names in outer.items() if names <= self.names]
        found = [Term((Power(moved(g), k),)) for g in sums for k in powers]
        if "reciprocal" in self.names:
            absorption = Power(moved(sums[0]), -1.0)
            found.append(Term((absorption, Times(Power(x, 2.0), absorption))))
        return found

    @property
    def _outer(self) -> list[Primitive]:
        return [p for p in self.kinds if p.partner is None and p.name not in ("tanh", "square")]

    def _reading(self, g: Expression) -> list[Primitive]:
        """The primitives that take ``g``: of a logarithm or a root only those that need it.

        log(1/x + b) and the like are sums of what is there already; 1/(1/x + b) is x/(x + c).
        """
        if isinstance(g, X):
            return self.kinds
        if isinstance(g, Power) and g.w == 2.0:
            return [p for p in self.kinds if p.redundant_scale or p.redundant_shift]
        if isinstance(g, Power) and g.w == -1.0:  # sin(1/x) would follow any few rows
            return [p for p in self.kinds if p.redundant_shift and p.partner is None]
        return [p for p in self.kinds if p.name in ("exp", "reciprocal")]

    def several(self, depth: int) -> list[Term]:
        """Terms of two features and more."""
        combined, directions = self.combined(), self.directions()
        found: list[Term] = [Term((g,)) for g in combined]
        everything = self.together
        n = len(everything)
        sizes = list(range(2, n + 1)) if n <= FEW_FEATURES else [2, n]
        for size in sizes:
            for features in combinations(everything, size):
                law = self.power_law(features)
                if law is not None and n_weights(law) == size:
                    found.append(Term((law,)))
        singles = {i: self.of_one(i, depth) for i in everything}
        found += self.depending(singles)
        if "reciprocal" in self.names:
            found += self.quotients()
        cores = self.cores(combined, directions, singles)
        if depth >= 2:
            for g in [h for h in combined if h.size() <= 4]:
                cores.append(Term((Apply("reciprocal", moved(Apply("exp", scaled(g)))),)))
        found += cores
        # A power law of the features before a unit.
        for t in cores:
            own = {node.i for node in _features(t.columns[0])}
            for others in ([k for k in everything if k not in own], list(everything)):
                law = self.power_law(others)
                if law is not None and n_weights(law) + t.n_weights <= 5:
                    columns = tuple(times(c, law) for c in t.columns)
                    found.append(Term(columns))
                    if len(columns) == 2 and not own & set(others):  # a wave on its mean
                        found.append(Term((*columns, law.shifted(t.n_weights))))
        if depth >= 2 and len(everything) <= FEW_FEATURES:
            for i in everything:
                law = self.power_law([k for k in everything if k != i])
                if law is not None:
                    found += [Term((times(t.columns[0], law),)) for t in self.nested.get(i, [])]
        # Units of two features, multiplied.
        for i, j in combinations(everything, 2):
            for a in singles[i]:
                for b in singles[j]:
                    if a.n_weights + b.n_weights <= 2 and len(a.columns) + len(b.columns) <= 4:
                        columns = tuple(times(c, d) for c in a.columns for d in b.columns)
                        found.append(Term(columns))
                        if len(columns) == 1:
                            both = Times(X(i), X(j))
                            found.append(Term(tuple(Times(c, both) for c in columns)))
        return found

    def of_one(self, i: int, depth: int) -> list[Term]:
        """Units of one feature that are combined with others."""
        found = [
            t for g in self.arguments(i)[:3] for t in units(g, self.kinds) if not _is_polynomial(t)
        ]
        found += [Term((Power(moved(X(i)), k),)) for k in (-2.0, -0.5)]
        found += [Term((Power(moved(Power(X(i), 2.0)), k),)) for k in (-1.0, -0.5, 0.5)]
        if depth >= 2:
            nested = (
                Apply("reciprocal", moved(Apply("exp", scaled(X(i))))),
                Apply("exp", scaled(Power(moved(X(i)), 2.0))),
                Apply("reciprocal", moved(Power(moved(X(i)), 2.0))),
            )
            found += [Term((c,)) for c in nested]
        return found

    def cores(
        self,
        combined: list[Expression],
        directions: list[Expression],
        singles: dict[int, list[Term]],
    ) -> list[Term]:
        """Units that a power law may stand before."""
        found: list[Term] = []
        for g in [*combined, *directions]:
            found += [t for t in units(g, self.kinds) if not _is_polynomial(t)]
        for g in directions:
            # V·S/(S + w·I + b) and the like
            found += [
                Term(tuple(times(X(k), c) for c in t.columns))
                for t in units(g, self.kinds)
                for k in self.together
                if not _is_polynomial(t)
            ]
            # A difference drives a flow: k·A·(T - U)/d.
            found += [
                Term((Power(g, k) if k != 1 else g,)) for k in (1.0, -1.0, -2.0, 0.5, -0.5, 2.0)
            ]
            found += [Term((Power(moved(g), k),)) for k in (-2.0, -0.5)]
        for i, own in singles.items():
            for t in own:
                found.append(t)
                for k in self.together:
                    if k != i:
                        found.append(Term(tuple(times(X(k), c) for c in t.columns)))
        return found

    def quotients(self) -> list[Term]:
        """Ratios of two sums: (x + w·y)/(1 + b·x·y), and means (x·u + w·y·v)/(x + w'·y)."""
        found: list[Term] = []
        for i, j in combinations(self.together, 2):
            x, y = X(i), X(j)
            bounded = Power(Shift(scaled(Times(x, y)), 1.0), -1.0)  # b passes 0, 1/b would not
            found.append(Term((times(Mix(x, y, 0), bounded),)))
            others = [k for k in self.together if k not in (i, j)]
            total = Power(Mix(x, y, 0), -1.0)
            for k in others:
                for own, other in ((x, y), (y, x)):
                    columns = Times(Times(own, X(k)), total), Times(other, total)
                    found.append(Term(columns))
            for k, n in permutations(others, 2):
                parts = Times(x, X(k)), Times(y, X(n))
                found.append(Term(tuple(Times(part, total) for part in parts)))
        return found

    def depending(self, singles: dict[int, list[Term]]) -> list[Term]:
        """Units of a feature whose constants another feature changes.

        (a + b·y)·g(x), and 1/(x + K) where K is a + b/y, or goes with exp(y) or exp(1/y).
        """
        found: list[Term] = []
        for i, j in permutations(self.together, 2):
            x, y = X(i), X(j)
            alone = [t.columns[0] for t in singles[i] if t.n_weights == len(t.columns) == 1]
            found += [Term((c, Times(y, c))) for c in alone]
            if "reciprocal" not in self.names:
                continue
            sums: list[Expression] = []
            inverse = [Power(y, -1.0)] if self.one_sign[j] else []
            sums += [moved(Mix(x, g, 0)) for g in inverse]
            if "exp" in self.names:
                sums += [Mix(x, Apply("exp", scaled(g)), 1) for g in (y, *inverse)]
            for g in sums:
                found += [Term((Power(g, -1.0),)), Term((Times(x, Power(g, -1.0)),))]
        return found


def _argument(t: Term) -> Expression:
    """What the unit of a term reads, without its scale and shift."""
    g = t.columns[0]
    while isinstance(g, (Apply, Scale, Shift)):
        g = g.parts()[0]
    return g


def _vanishes(g: Expression) -> bool:
    """Whether a unit is an exponential or a reciprocal, which go to zero somewhere."""
    if isinstance(g, Apply):
        return g.name in ("exp", "reciprocal")
    return isinstance(g, Power) and isinstance(g.w, float) and g.w < 0


def _features(g: Expression) -> Iterator[X]:
    if isinstance(g, X):
        yield g
    for part in g.parts():
        yield from _features(part)


def _is_polynomial(t: Term) -> bool:
    """square(g + b) is g², g and a constant: columns of their own."""
    c = t.columns[0]
    return isinstance(c, Apply) and c.name in ("square", "identity")


def _undone(g: Expression) -> bool:
    """1/(1/(x + a) + b), which is a constant and 1/(x + c)."""
    core = g
    for _ in range(2):
        if not (isinstance(core, Apply) and core.name == "reciprocal"):
            return False
        core = core.g.g if isinstance(core.g, Scale | Shift) else core.g
    return True


def _folds(factor: Expression, g: Expression) -> bool:
    """x**p·x**q is a power; exp·exp of the same argument an exp."""
    if isinstance(factor, Power) and isinstance(g, Power) and factor.g == g.g:
        return True
    if isinstance(factor, Apply) and isinstance(g, Apply) and factor.name == g.name == "exp":
        return factor.g == g.g
    # x/(x + b) is a constant less b/(x + b): the same columns, found when the model is written.
    if isinstance(g, Apply) and g.name == "reciprocal" and isinstance(g.g, Shift):
        return factor == g.g.g
    return isinstance(factor, X) and isinstance(g, Power) and g.g == factor
