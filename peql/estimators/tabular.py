"""``EQL``, ``SEQL`` and ``HEQL`` for tables: thin faces that make a solution and hold it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import sympy
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from tqdm import tqdm

from .. import primitives as P
from .._suggest import unknown_name
from ..engine.criterion import CONSISTENT
from ..engine.moves import as_found, as_trained, fewer_terms, polish, reduced, refine
from ..engine.products import sums_of_products
from ..engine.rows import Arranged, arrange
from ..engine.solver import PRECISION, Fit, mean_squared_error
from ..engine.threads import one_thread
from ..engine.training import PAPER, Schedule, train
from ..equation.reading import number, structure
from ..nn.network import SymbolicNetwork
from ..search.search import search
from ..solution import Solution
from ._solved import Solved
from .checks import check_table, check_target, column_indices, dates_as_days, numbers
from .outcomes import FieldRows, Outcome, choose, criterion, pooled, raw, same_function

RESTARTS = 3  # times a trial that blew up begins again
MOST_STEPS = 512  # of a batch
METHODS = ("auto", "network", "search")
PROTOCOLS = ("refined", "paper")
MOST_FEATURES = 256  # at 100 the search takes a quarter of a minute, and its time goes with them


class NothingFound(UserWarning):
    """The best equation is a constant: no column explains y."""


@dataclass(kw_only=True, eq=False, repr=False)  # writes a constructor that only stores
class _SymbolicRegressor(Solved, RegressorMixin, BaseEstimator):
    """What the three models share; they differ in where the weights come from.

    Args:
        varying: name (DataFrame) or position (array) of the column along which coefficients change;
            HEQL also takes a list of them. SEQL also takes a column of labels; dates become days
            since 2000-01-01.
        primitives: "default", a mapping of primitive to copies, or a list; see ``peql.primitives``.
        method: "network" trains and refines; "search" looks for the form directly, among all
            registered primitives if ``primitives`` is "default"; "auto" does both, unless the
            search leaves nothing but rounding error, and keeps the better by the criterion.
        n_layers: depth of nesting: hidden layers of the network; the search knows 1 and 2.
        max_terms: terms that the search adds up, besides a constant.
        effort: how much the search may compute; few tables need as much as 1. It is counted in
            numbers, not in seconds, so that the same rows give the same equation on every machine.
        n_trials: random restarts, trained together; the best on held-out rows is kept.
        max_iter: gradient steps of a trial.
        l0_weight: price of an open gate.
        refine: remove spare weights and solve for the rest in float64 after training.
        protocol: "refined", or "paper": the paper's own 34,800 steps, rates and schedules, and
            nothing after them; ``max_iter``, ``l0_weight`` and ``refine`` are then ignored.
        validation_fraction: share of the rows of each t that is held out to choose among trials.
        device: where to train, "cpu" or "cuda".
        verbose: show a progress bar when run in a terminal.
        random_state: seed; the same seed gives the same equation.

    Attributes:
        alternatives_: DataFrame, other forms that are also consistent with the rows, and how much
            worse each is by the criterion.
        solutions_: list of Solution, the best and the alternatives.
        prunings_: DataFrame, the best equation of each number of weights that refinement tried.
    """

    _weights: ClassVar[str]
    _learning_rate: ClassVar[float]
    _points: ClassVar[int]
    _steps_per_batch: ClassVar[int]
    _smallest_step: ClassVar[int] = 1  # fewer rows at one t are an error
    _pool_below: ClassVar[int] = 0  # fewer rows at one t are fitted with their neighbours'

    varying: str | int | Sequence[str | int] = -1
    primitives: P.PrimitiveChoice = "default"
    method: str = "auto"
    n_layers: int = 2
    max_terms: int = 3
    effort: float = 1.0
    n_trials: int = 1
    max_iter: int = 1000
    l0_weight: float = 3e-3
    refine: bool = True
    protocol: str = "refined"
    validation_fraction: float = 0.1
    device: str = "cpu"
    verbose: bool = True
    random_state: int | np.random.RandomState | None = None

    # --- fitting ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> _SymbolicRegressor:
        """Find the equation. ``X`` (row, column) holds the features and the varying column.

        >>> import peql
        >>> X = pd.DataFrame({"x": [1.0, 2, 3, 4] * 2, "place": ["north"] * 4 + ["south"] * 4})
        >>> model = peql.SEQL(varying="place", random_state=0).fit(X, [1, 4, 9, 16, 3, 12, 27, 48])
        >>> model.equation_, model.coefficients_["a"].round(9).to_dict()
        (x**2*a(place), {'north': 1.0, 'south': 3.0})
        """
        self._check_parameters()
        target = str(getattr(y, "name", None) or "y")
        # Rows of a differentiated field (``peql.datasets.from_field``) say so themselves.
        self._field = FieldRows.of(getattr(X, "attrs", {}), target)
        X = dates_as_days(X, self.varying)
        table, labels = self._encode(check_table(X, self._label_column(X)))
        if y is not None:
            y = check_target(y, table)
        table, y = validate_data(
            self, table, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2
        )
        self._read_columns()
        x, t = self._split_columns(table)
        self._check_steps(t)
        seed = int(check_random_state(self.random_state).randint(2**31))
        with one_thread():
            outcomes = self._outcomes(x, t, y, seed)
            solutions = [self._solution(o, target, labels) for o in outcomes]
        self.trials_ = pd.DataFrame(
            [self._trial_row(o, s) for o, s in zip(outcomes, solutions, strict=True)]
        ).rename_axis("trial")
        self.n_iter_ = self.max_iter
        self.best_trial_ = choose(self.trials_, raw(PRECISION, solutions[0]))
        self.solution_ = solutions[self.best_trial_]
        best = outcomes[self.best_trial_]
        self.prunings_ = self._pruning_table([*best.trace, best.fit])
        self.alternatives_ = self._alternatives(outcomes, solutions)
        if not self.solution_.used_features:
            warnings.warn(
                f"nothing found: {target} = {self.equation_} has none of the columns "
                f"{self.feature_names_} in it. Try other primitives, more trials, or more rows",
                NothingFound,
                stacklevel=2,
            )
        return self

    def _alternatives(
        self, outcomes: Sequence[Outcome], solutions: Sequence[Solution]
    ) -> pd.DataFrame:
        """Other forms that are also consistent with the rows, nearest first.

        Two ways to write the same function are not two forms.
        """
        best = outcomes[self.best_trial_]
        other = [not same_function(best, outcome) for outcome in outcomes]
        table = self.trials_.assign(
            form=pd.Series([structure(s.equation, s.features) for s in solutions], dtype=object),
            difference=self.trials_["criterion"] - self.trials_["criterion"][self.best_trial_],
        )
        near = table[table["difference"].between(-np.inf, CONSISTENT)].sort_values("difference")
        near = near[pd.Series(other)[near.index]].drop_duplicates("form")
        self.solutions_ = [solutions[k] for k in (self.best_trial_, *near.index)]
        columns = ["equation", "difference", "train_error", "complexity", "method"]
        return near[columns].reset_index(drop=True)

    def _outcomes(self, x: np.ndarray, t: np.ndarray, y: np.ndarray, seed: int) -> list[Outcome]:
        def arranged_rows(centred: bool, held_out: bool = True) -> Arranged:
            return arrange(
                x,
                t,
                y,
                validation_fraction=self.validation_fraction if held_out else 0.0,
                pool_below=self._pool_below,
                random=np.random.default_rng(seed),
                device=self.device,
                centred=centred,
            )

        if self.method == "network" or self.protocol == "paper":
            return self._trained(arranged_rows(centred=True), seed)
        everything = arranged_rows(centred=False, held_out=False)
        look = self._summed if self._sums else self._searched
        outcomes = look(everything, arranged_rows(centred=False), seed)
        if self.method == "search" or any(o.last for o in outcomes):
            return outcomes
        everything = arranged_rows(centred=True, held_out=False)
        points = everything.points

        def on_all_rows(outcome: Outcome) -> Outcome:
            fit = outcome.fit
            error = mean_squared_error(fit.formula, fit.weights, points)
            fit = polish(fit, points) if self._refines else replace(fit, error=error)
            return replace(outcome, fit=fit, arranged=everything)

        try:
            trained = self._trained(arranged_rows(centred=True), seed)
        except KeyboardInterrupt:
            warnings.warn("interrupted: what the search found is kept", stacklevel=3)
            return outcomes
        return outcomes + [on_all_rows(outcome) for outcome in trained]

    @property
    def _sums(self) -> bool:
        """Whether the form is a sum of products: a field's, if no primitives are asked for."""
        default = isinstance(self.primitives, str) and self.primitives == "default"
        return self._field is not None and default

    def _summed(self, everything: Arranged, part: Arranged, seed: int) -> list[Outcome]:
        """The best sum of products of columns, and others that fit the rows as well."""
        started = time.perf_counter()
        assert self._field is not None
        exact, degree = self._field.exact / everything.scales.y**2, self._field.degree
        fits = sums_of_products(everything.points, self._field.independent, exact, degree)
        seconds = time.perf_counter() - started
        held_out = [pooled(polish(fit, part.points), part.held_out) for fit in fits]
        return [
            Outcome(
                *(fit, everything, "search", seconds, error),
                trace=fewer_terms(fit, everything.points),
                # Where products are columns, and integrals have no others, there are no more forms.
                last=degree == 1
                or fit.exact(everything.points)
                or bool((fit.error <= exact).all()),
            )
            for fit, error in zip(fits, held_out, strict=True)
        ]

    def _searched(self, everything: Arranged, part: Arranged, seed: int) -> list[Outcome]:
        """What the search finds on all rows: the best form, and others that fit as well.

        The rows that ``part`` holds out are predicted by constants that have not seen them.
        """
        started = time.perf_counter()
        chosen = [primitive.name for primitive, _ in P.resolve(self.primitives)]
        default = isinstance(self.primitives, str) and self.primitives == "default"
        points = everything.points
        found = search(
            points,
            kinds=None if default else chosen,
            max_terms=self.max_terms,
            max_depth=min(self.n_layers, 2),
            effort=self.effort,
            progress=self.verbose,
            seed=seed,
        )
        outcomes = []
        for one in found:
            fit = as_found(one.formula, one.weights, one.constant, points)
            fit = polish(reduced(fit, points) if self._field else fit, points)
            held_out = pooled(polish(fit, part.points), part.held_out)
            seconds = time.perf_counter() - started
            last = one.interrupted or fit.exact(points)
            trace = fewer_terms(fit, points)
            outcomes.append(
                Outcome(fit, everything, "search", seconds, held_out, trace=trace, last=last)
            )
        return outcomes

    def _trained(self, arranged: Arranged, seed: int) -> list[Outcome]:
        """What training and refinement make of each trial."""
        started = time.perf_counter()
        networks, restarts = self._train_trials(arranged, seed)
        training_seconds = (time.perf_counter() - started) / len(networks)
        outcomes: list[Outcome] = []
        hidden = None if self.verbose else True  # None: shown in a terminal only
        for k, network in enumerate(tqdm(networks, desc="refining", disable=hidden, leave=False)):
            started = time.perf_counter()
            trace: list[Fit] = []
            fit = self._finish(network, arranged, trace)
            seconds = training_seconds + time.perf_counter() - started
            held_out = pooled(fit, arranged.held_out)
            outcomes.append(
                Outcome(fit, arranged, "network", seconds, held_out, restarts[k], trace)
            )
        return outcomes

    @property
    def _refines(self) -> bool:
        return self.refine and self.protocol != "paper"

    def _check_parameters(self) -> None:
        for name in ("n_layers", "max_terms", "n_trials", "max_iter"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")
        limits = {
            "effort": np.inf,
            "l0_weight": np.inf,
            "smoothness": np.inf,
            "validation_fraction": 1,
        }
        for name, high in limits.items():
            value = getattr(self, name, 0.0)
            if not isinstance(value, (int, float, np.number)) or not 0 <= value < high:
                raise ValueError(f"{name}={value!r}: expected a number in [0, {high})")
        if self.method not in METHODS:
            raise unknown_name("method", self.method, METHODS)
        if self.protocol not in PROTOCOLS:
            raise unknown_name("protocol", self.protocol, PROTOCOLS)
        if self.protocol == "paper" and self._weights not in PAPER:
            raise ValueError(
                f"protocol='paper': the paper trains SEQL and HEQL, not {type(self).__name__}"
            )
        try:
            kind = torch.device(self.device).type
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"device={self.device!r}: expected 'cpu' or 'cuda'") from error
        if kind == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device={self.device!r}: no CUDA device here; use device='cpu'")
        P.resolve(self.primitives)

    # --- columns ---------------------------------------------------------------------------

    def _label_column(self, X: Any) -> str | None:
        """The varying column of a DataFrame, if it holds labels and not numbers."""
        single = isinstance(self.varying, (str, Integral))
        if not isinstance(X, pd.DataFrame) or not single or X.columns.has_duplicates:
            return None
        name = self.varying if isinstance(self.varying, str) else None
        if name is None and isinstance(self.varying, Integral) and len(X.columns):
            name = X.columns[int(self.varying) % len(X.columns)]
        if name not in X.columns or numbers(X[name]) is not None:
            return None
        if self._weights != "stacked":
            raise ValueError(
                f"the varying column {name!r} holds labels, between which there is nothing: "
                f"{type(self).__name__} needs numbers. Use SEQL, which has coefficients of its "
                "own for each label"
            )
        return name

    def _encode(self, X: Any) -> tuple[Any, tuple[str, ...] | None]:
        """Labels become positions in their sorted order."""
        name = self._label_column(X)
        if name is None:
            return X, None
        labels = tuple(sorted({str(value) for value in X[name]}))
        positions = {label: float(k) for k, label in enumerate(labels)}
        return X.assign(**{name: [positions[str(value)] for value in X[name]]}), labels

    def _read_columns(self) -> None:
        named = hasattr(self, "feature_names_in_")
        n = self.n_features_in_
        columns = list(self.feature_names_in_) if named else [f"x{k}" for k in range(n)]
        self._varying_indices = column_indices(columns, self.varying, named)
        if not named:
            several = len(self._varying_indices) > 1
            for i, k in enumerate(self._varying_indices, start=1):
                columns[k] = f"t{i}" if several else "t"
        self._columns = columns
        self.varying_names_ = [columns[k] for k in self._varying_indices]
        self.feature_names_ = self._feature_names(columns)
        if not self.feature_names_:
            raise ValueError(
                f"X has {n} feature(s), all of them varying columns {self.varying_names_}: "
                "the equation needs at least one more column"
            )

        if len(self.feature_names_) > MOST_FEATURES:
            raise ValueError(
                f"X has {len(self.feature_names_)} features: a law is looked for among at most "
                f"{MOST_FEATURES}. Choose the columns that may matter, by their correlation with "
                "y or by what is known"
            )

    def _feature_names(self, columns: list[str]) -> list[str]:
        return [c for k, c in enumerate(columns) if k not in self._varying_indices]

    def _split_columns(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        indices = self._varying_indices
        return np.delete(X, indices, axis=1), X[:, indices]

    def _check_steps(self, t: np.ndarray) -> None:
        values, counts = np.unique(t[:, 0], return_counts=True)
        short = values[counts < self._smallest_step]
        if len(short):
            shown = ", ".join(f"{v:g}" for v in short[:4]) + (" …" if len(short) > 4 else "")
            raise ValueError(
                f"{len(short)} of {len(values)} values of {self.varying_names_[0]!r} have fewer "
                f"than {self._smallest_step} rows ({shown}): {type(self).__name__} fits each value "
                "on its own rows. Drop them, pool neighbours, or use HEQL, which needs no grid."
            )

    # --- the network -----------------------------------------------------------------------

    def _schedule(self, rows_per_step: int) -> Schedule:
        """Where steps hold few rows, a batch takes more steps and fewer rows of each."""
        if self.protocol == "paper":
            return PAPER[self._weights]
        points = min(self._points, rows_per_step)
        return Schedule(
            n_steps=int(self.max_iter),
            learning_rate=self._learning_rate,
            gate_learning_rate=1e-2,
            l0_weight=float(self.l0_weight),
            smoothness=0.0,
            points=points,
            steps_per_batch=min(self._steps_per_batch * self._points // points, MOST_STEPS),
        )

    def _network(self, n_steps: int, n_trials: int = 1, seed: int = 0) -> SymbolicNetwork:
        with torch.random.fork_rng(devices=[]):  # the user's random numbers go on as they were
            torch.default_generator.manual_seed(seed)
            return SymbolicNetwork(
                len(self.feature_names_),
                weights=self._weights,
                n_steps=n_steps,
                n_varying=len(self.varying_names_),
                primitives=self.primitives,
                n_layers=int(self.n_layers),
                n_trials=n_trials,
            )

    def _train_trials(
        self, arranged: Arranged, seed: int
    ) -> tuple[list[SymbolicNetwork], list[int]]:
        """Train all trials as one batch; those that blew up begin again with other numbers."""
        table, n_steps = arranged.table, arranged.table.n_steps
        schedule = self._schedule(int(table.count.median()))
        finished: dict[int, SymbolicNetwork] = {}
        restarts = [0] * self.n_trials
        for attempt in range(RESTARTS + 1):
            waiting = [k for k in range(self.n_trials) if k not in finished]
            if not waiting:
                break
            batch = self._network(n_steps, len(waiting), seed + attempt).to(self.device)
            generator = torch.Generator().manual_seed(seed + attempt + 1)
            loss = train(batch, table, schedule, generator, self.verbose)
            for i, k in enumerate(waiting):
                single = self._network(n_steps)
                single.load_state_dict({n: v[i : i + 1] for n, v in batch.state_dict().items()})
                if all(bool(v.isfinite().all()) for v in single.state_dict().values()) and bool(
                    loss[i].isfinite()
                ):
                    finished[k] = single.double().eval()
                else:
                    restarts[k] += 1
                    warnings.warn(f"trial {k}: the loss became NaN, it begins again", stacklevel=4)
        if len(finished) < self.n_trials:
            raise RuntimeError(
                f"{self.n_trials - len(finished)} trials diverged {RESTARTS + 1} times: "
                "check the data for extreme values, or use fewer layers or tamer primitives"
            )
        return [finished[k] for k in range(self.n_trials)], restarts

    @torch.no_grad()
    def _finish(self, network: SymbolicNetwork, arranged: Arranged, trace: list[Fit]) -> Fit:
        """The formula of a trained network: refined, or as it is."""
        steps = None
        if self._weights == "meta":
            steps = torch.from_numpy(arranged.scales.t(arranged.t))
        weights = (network.weights(steps) * network.gates.expected()[:, None])[0]
        weights = weights.expand(len(arranged.t), -1)
        points, layout = arranged.points, network.layout
        start = as_trained(layout, network.shapes, weights, points, arranged.offset)
        if not self._refines:
            return start
        with torch.enable_grad():
            return refine(start, points, [kind for kind, _ in layout.kinds], trace)

    # --- the result ------------------------------------------------------------------------

    def _solution(self, outcome: Outcome, target: str, labels: tuple[str, ...] | None) -> Solution:
        arranged = outcome.arranged
        return Solution.of(
            outcome.fit,
            arranged.points,
            solved=self._refines or outcome.method != "network",
            t=arranged.t,
            scales=arranged.scales,
            features=tuple(self.feature_names_),
            varying=tuple(self.varying_names_),
            target=target,
            source=self._weights,
            labels=labels,
        )

    def _trial_row(self, outcome: Outcome, solution: Solution) -> dict[str, Any]:
        arranged = outcome.arranged
        return {
            "method": outcome.method,
            "criterion": criterion(outcome, self._field),
            "train_error": raw(pooled(outcome.fit, arranged.points), solution),
            "validation_error": raw(outcome.held_out_error, solution),
            "complexity": sum(1 for _ in sympy.preorder_traversal(solution.equation)),
            "equation": str(solution.equation),
            "seconds": outcome.seconds,
            "restarts": outcome.restarts,
        }

    def _pruning_table(self, tried: Sequence[Fit]) -> pd.DataFrame:
        """The smallest error (mean over t) with each number of weights, fewest weights first."""
        best: dict[int, tuple[float, Fit]] = {}
        errors = [float(fit.error.mean()) for fit in tried]
        for error, fit in sorted(zip(errors, tried, strict=True), key=lambda pair: pair[0]):
            best.setdefault(len(fit.constant), (error, fit))
        rows = []
        for n, (error, fit) in sorted(best.items()):
            weights = fit.weights[..., 0].numpy()
            other = replace(self.solution_, formula=fit.formula, weights=weights)
            row = {"train_error": raw(error, other), "equation": str(other.equation)}
            rows.append({"weights": n, **row})
        return pd.DataFrame(rows)

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = super()._state()
        header |= {
            "columns": self._columns,
            "named": hasattr(self, "feature_names_in_"),
            "best_trial": self.best_trial_,
            "prunings": self.prunings_.to_dict(orient="list"),
            "alternatives": self.alternatives_.to_dict(orient="list"),
            "field": asdict(self._field) if self._field else None,
        }
        return header, arrays

    def _restore(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.n_features_in_ = len(header["columns"])
        if header["named"]:
            self.feature_names_in_ = np.array(header["columns"], dtype=object)
        self._read_columns()
        self.best_trial_ = int(header["best_trial"])
        self.prunings_ = pd.DataFrame(header["prunings"])
        self.alternatives_ = pd.DataFrame(header["alternatives"])
        field = header.get("field")  # files of earlier versions do not say
        self._field = FieldRows(**field) if field else None
        super()._restore(header, arrays)
        if list(self.solution_.features) != self.feature_names_:
            raise ValueError("the columns of the table are not those of the formula")

    def predict(self, X: Any) -> np.ndarray:
        """y for each row of ``X``; columns that the equation does not use may be missing.

        >>> import peql
        >>> data = peql.datasets.load("f1", n_t=8, n_train=32)
        >>> model = peql.SEQL(varying="t", random_state=0).fit(data.X_train, data.y_train)
        >>> model.predict(pd.DataFrame({"x": [1.0, 2.0], "t": [3, -3]})).round(9)
        array([  6., -18.])
        """
        check_is_fitted(self)
        x, t = self._split_columns(self._prediction_table(X))
        self._warn_beyond(t)
        return self.solution_.predict(x, t)

    def _warn_beyond(self, t: np.ndarray) -> None:
        """Say where coefficients are only held at what they were at the end of the range."""
        if self._weights != "meta":
            return
        scales = self.solution_.scales
        outside = np.abs(scales.t(t)) > 1 + 1e-9
        for name, out, centre, half in zip(
            self.varying_names_, outside.T, scales.t_centre, scales.t_half, strict=True
        ):
            if out.any():
                warnings.warn(
                    f"{out.sum()} of {len(t)} rows have {name} outside the fitted range, "
                    f"{centre - half:g} to {centre + half:g}: beyond it the coefficients are not "
                    "known, those at its end are used",
                    stacklevel=3,
                )

    def _prediction_table(self, X: Any) -> np.ndarray:
        """``X`` as numbers (row, column) in the order of the fit."""
        solution = self.solution_
        X = dates_as_days(X, self.varying) if solution.labels is None else X
        if isinstance(X, pd.DataFrame) and hasattr(self, "feature_names_in_"):
            used = {*solution.used_features, *self.varying_names_}
            spare = [c for c in self._columns if c not in used and c not in X.columns]
            X = X.assign(**dict.fromkeys(spare, 0.0)) if spare else X
        if solution.labels is not None and isinstance(X, pd.DataFrame):
            name = self.varying_names_[0]
            if name in X.columns:
                X = X.assign(**{name: [float(solution.position(v)) for v in X[name]]})
        return validate_data(self, check_table(X), dtype=np.float64, reset=False)


class EQL(_SymbolicRegressor):
    """One equation with fixed numbers; the varying column is one more input.

    >>> EQL(varying="t", random_state=0).get_params()["varying"]
    't'
    """

    _weights = "single"
    _learning_rate = 1e-2
    _points = 1024
    _steps_per_batch = 1

    def _feature_names(self, columns: list[str]) -> list[str]:
        return list(columns)

    def _split_columns(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return X, np.zeros((len(X), 1))

    def equation(self, t: float | Sequence[float]) -> sympy.Expr:
        """The equation with ``t`` put in for the varying column; SymPy."""
        expression = super().equation(t)
        point = [number(float(value)) for value in self._point(t)]
        return expression.subs(list(zip(self.varying_names_, point, strict=True)))


@dataclass(kw_only=True, eq=False, repr=False)
class SEQL(_SymbolicRegressor):
    """An EQL network for each value of t with shared gates.

    >>> import peql
    >>> data = peql.datasets.load("f3", n_t=8, n_train=64)
    >>> model = SEQL(varying="t", random_state=0).fit(data.X_train, data.y_train)
    >>> model.equation_
    x*a(t)
    """

    _weights = "stacked"
    _learning_rate = 1e-2
    _points = 16
    _steps_per_batch = 2**31
    _smallest_step = 4

    smoothness: float = 1e-5

    def _read_columns(self) -> None:
        super()._read_columns()
        if len(self.varying_names_) > 1:
            raise ValueError(
                f"varying={self.varying!r}: SEQL has one network for each value of one column; "
                "use HEQL, whose coefficients may depend on several"
            )

    def _schedule(self, rows_per_step: int) -> Schedule:
        schedule = super()._schedule(rows_per_step)
        if self.protocol == "paper":
            return schedule
        return replace(schedule, smoothness=float(self.smoothness))


class HEQL(_SymbolicRegressor):
    """An EQL network whose weights a small network computes from t; predicts at any t.

    >>> import peql
    >>> data = peql.datasets.load("f3", n_t=8, n_train=64)
    >>> model = HEQL(varying="t", random_state=0).fit(data.X_train, data.y_train)
    >>> model.equation(t=1.2)
    1.2*x
    """

    _weights = "meta"
    _learning_rate = 1e-3
    _points = 32
    _steps_per_batch = 64
    _pool_below = 12
