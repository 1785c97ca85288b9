"""The scikit-learn face: ``EQL``, ``SEQL`` and ``HEQL``."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import sympy
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from tqdm import tqdm

from . import primitives as P
from . import symbolic
from .network import SymbolicNetwork
from .refinement import PRECISION, Fit, Formula, Points, as_trained, mean_squared_error, refine
from .tables import Arranged, arrange, check_table, check_target, column_indices
from .training import Schedule, train
from .uncertainty import coefficient_errors
from .weights import MetaWeights

PAPER_THRESHOLD = 0.01  # terms with smaller numbers are not printed when nothing was refined
RESTARTS = 3  # times a trial that blew up begins again
MOST_STEPS = 512  # of a batch
BLOCK = 4096  # values of t whose weights are computed at once
NEAR = 0.01  # a t this close to a known one, in units of the spacing, is that one printed shorter


@dataclass(kw_only=True, eq=False, repr=False)  # writes a constructor that only stores
class _SymbolicRegressor(RegressorMixin, BaseEstimator):
    """What the three models share; they differ in where the weights come from.

    Parameters
    ----------
    varying : name (DataFrame) or position (array) of the column along which coefficients change;
        HEQL also takes a list of them.
    primitives : "default", a mapping of primitive to copies, or a list; see ``peql.primitives``.
    n_layers : hidden layers, the depth of nesting that can be found.
    n_trials : random restarts, trained together; the best on held-out rows is kept.
    max_iter : gradient steps of a trial.
    l0_weight : price of an open gate.
    refine : remove spare weights and solve for the rest in float64 after training. False is the
        plain protocol of the paper.
    validation_fraction : share of the rows of each t that is held out to choose among trials.
    device : where to train, "cpu" or "cuda".
    verbose : show a progress bar when run in a terminal.
    random_state : seed; the same seed gives the same equation.

    Attributes
    ----------
    equation_ : SymPy, with functions of the varying column as coefficients.
    coefficients_ : DataFrame over the training t, one column per coefficient function.
    coefficient_errors_ : DataFrame like it, the standard errors from the least-squares fit.
    trials_ : DataFrame, a row per trial.
    prunings_ : DataFrame, the best equation of each number of weights that refinement tried.
    network_ : the fitted ``peql.nn.SymbolicNetwork`` (float64, scaled units).
    """

    _weights: ClassVar[str]
    _learning_rate: ClassVar[float]
    _points: ClassVar[int]
    _steps_per_batch: ClassVar[int]
    _smallest_step: ClassVar[int] = 1  # fewer rows at one t are an error
    _pool_below: ClassVar[int] = 0  # fewer rows at one t are fitted with their neighbours'

    varying: str | int | Sequence[str | int] = -1
    primitives: P.PrimitiveChoice = "default"
    n_layers: int = 2
    n_trials: int = 1
    max_iter: int = 1000
    l0_weight: float = 3e-3
    refine: bool = True
    validation_fraction: float = 0.1
    device: str = "cpu"
    verbose: bool = True
    random_state: int | np.random.RandomState | None = None

    # --- fitting ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> _SymbolicRegressor:
        """Find the equation. ``X`` (row, column) holds the features and the varying column."""
        self._check_parameters()
        X = check_table(X)
        if y is not None:
            y = check_target(y, X)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        self._read_columns()
        x, t = self._split_columns(X)
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31))
        self._check_steps(t)
        arranged = arrange(
            x,
            t,
            y,
            validation_fraction=self.validation_fraction,
            pool_below=self._pool_below,
            random=np.random.default_rng(seed),
            device=self.device,
        )
        self.scales_, self.t_ = arranged.scales, arranged.t

        started = time.perf_counter()
        networks, restarts = self._train_trials(arranged, seed)
        training_seconds = (time.perf_counter() - started) / len(networks)
        results = []
        hidden = None if self.verbose else True  # None: shown in a terminal only
        traces: list[list[Fit]] = [[] for _ in networks]
        for network, trace in zip(
            tqdm(networks, desc="refining", disable=hidden, leave=False), traces, strict=True
        ):
            started = time.perf_counter()
            fit = self._finish(network, arranged, trace)
            results.append((fit, training_seconds + time.perf_counter() - started))
        self.trials_ = self._trial_table(results, restarts, arranged)
        self.n_iter_ = self.max_iter
        self.best_trial_ = _choose(self.trials_, self._raw_error(PRECISION))
        best = results[self.best_trial_][0]
        self._keep(best, networks[self.best_trial_])
        self._set_errors(best, arranged.points)
        self.prunings_ = self._pruning_table([*traces[self.best_trial_], best])
        return self

    def _check_parameters(self) -> None:
        for name in ("n_layers", "n_trials", "max_iter"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")
        limits = {"l0_weight": np.inf, "smoothness": np.inf, "validation_fraction": 1}
        for name, high in limits.items():
            value = getattr(self, name, 0.0)
            if not isinstance(value, (int, float, np.number)) or not 0 <= value < high:
                raise ValueError(f"{name}={value!r}: expected a number in [0, {high})")
        try:
            kind = torch.device(self.device).type
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"device={self.device!r}: expected 'cpu' or 'cuda'") from error
        if kind == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device={self.device!r}: no CUDA device here; use device='cpu'")
        P.resolve(self.primitives)

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

    def _schedule(self, rows_per_step: int) -> Schedule:
        """Where steps hold few rows, a batch takes more steps and fewer rows of each."""
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
                    warnings.warn(f"trial {k}: the loss became NaN, it begins again", stacklevel=3)
        if len(finished) < self.n_trials:
            raise RuntimeError(
                f"{self.n_trials - len(finished)} trials diverged {RESTARTS + 1} times: "
                "check the data for extreme values, or use fewer layers or tamer primitives"
            )
        return [finished[k] for k in range(self.n_trials)], restarts

    @torch.no_grad()
    def _weights_at(self, network: SymbolicNetwork, t: np.ndarray) -> Tensor:
        """Gated weights (step, weight) at raw ``t`` (step, varying)."""
        steps = self._steps(t)
        weights = (network.weights(steps) * network.gates.expected()[:, None])[0]
        return weights.expand(len(t), -1)

    def _open_weights(self, t: np.ndarray) -> Tensor:
        """The formula's weights (step, weight) at raw ``t``; in blocks, to bound the memory."""
        blocks = np.array_split(t, max(1, len(t) // BLOCK))
        columns = list(self.formula_.open)
        return torch.cat([self._weights_at(self.network_, b)[:, columns] for b in blocks])

    def _steps(self, t: np.ndarray) -> Tensor | None:
        """What the source of weights takes for raw ``t``."""
        raise NotImplementedError

    def _finish(self, network: SymbolicNetwork, arranged: Arranged, trace: list[Fit]) -> Fit:
        """The formula of a trained network: refined, or as it is."""
        weights = self._weights_at(network, arranged.t)
        if self.refine:
            return refine(network.layout, network.shapes, weights, arranged.points, trace)
        return as_trained(network.layout, network.shapes, weights, arranged.points)

    def _trial_table(
        self, results: Sequence[tuple[Fit, float]], restarts: list[int], arranged: Arranged
    ) -> pd.DataFrame:
        rows = []
        for k, (fit, seconds) in enumerate(results):
            equation = self._read(fit.formula, fit.weights[..., 0])
            rows.append(
                {
                    "train_error": self._raw_error(_pooled(fit, arranged.points)),
                    "validation_error": self._raw_error(_pooled(fit, arranged.held_out)),
                    "complexity": sum(1 for _ in sympy.preorder_traversal(equation.expression)),
                    "equation": str(equation.expression),
                    "seconds": seconds,
                    "restarts": restarts[k],
                }
            )
        return pd.DataFrame(rows).rename_axis("trial")

    def _pruning_table(self, tried: Sequence[Fit]) -> pd.DataFrame:
        """The smallest error (mean over t) with each number of weights, fewest weights first."""
        errors = [float(fit.error.mean()) for fit in tried]
        best: dict[int, tuple[float, Fit]] = {}
        for error, fit in sorted(zip(errors, tried, strict=True), key=lambda pair: pair[0]):
            best.setdefault(len(fit.formula.open), (error, fit))
        rows = [
            {
                "weights": n,
                "train_error": self._raw_error(error),
                "equation": str(self._read(fit.formula, fit.weights[..., 0]).expression),
            }
            for n, (error, fit) in sorted(best.items())
        ]
        return pd.DataFrame(rows)

    def _raw_error(self, scaled: float) -> float:
        return self.scales_.y * (self.scales_.y * scaled)  # y**2 may be out of range

    def _keep(self, fit: Fit, network: SymbolicNetwork) -> None:
        """Put the solution back into the network and read the equation from there."""
        self.formula_ = fit.formula
        self.network_ = network
        if self.refine:
            self._write_back(fit, network)
        self._set_equation()

    @torch.no_grad()
    def _write_back(self, fit: Fit, network: SymbolicNetwork) -> None:
        columns = list(fit.formula.open)
        network.gates.log_alpha.fill_(-100.0)
        network.gates.log_alpha[0, columns] = 100.0
        t, values = self.scales_.t(self.t_), fit.weights[..., 0]
        if fit.weights.shape[-1] == 2:  # lines over ranges of t: follow them to both ends
            ends, slopes = np.array([[-1.0], [1.0]]), fit.weights[[0, -1], :, 1]
            outer = values[[0, -1]] + slopes * torch.from_numpy(ends - t[[0, -1]])
            t, kept = np.unique(np.concatenate([t, ends]).round(12), axis=0, return_index=True)
            values = torch.cat([values, outer])[torch.from_numpy(kept)]
        full = torch.zeros(len(values), network.n_weights, dtype=torch.float64)
        full[:, columns] = values
        if isinstance(network.weights, MetaWeights):
            network.weights.interpolate(torch.from_numpy(t), full)
        else:
            network.weights.value.copy_(full[None])

    def _set_equation(self) -> None:
        weights = self._open_weights(self.t_)
        self._parametric = self._read(self.formula_, weights)
        self.equation_ = self._parametric.expression
        names = self.varying_names_
        index: pd.Index = (
            pd.Index(self.t_[:, 0], name=names[0])
            if len(names) == 1
            else pd.MultiIndex.from_arrays(self.t_.T, names=names)  # type: ignore[arg-type]
        )
        self.coefficients_ = symbolic.coefficient_table(self._parametric, weights.numpy(), index)

    def _set_errors(self, fit: Fit, points: Points) -> None:
        """Standard errors of the coefficients; without refinement nothing was solved for: NaN."""
        errors = coefficient_errors(self._parametric, fit, points) if self.refine else np.nan
        self.coefficient_errors_ = pd.DataFrame(
            errors, index=self.coefficients_.index, columns=self.coefficients_.columns
        )

    def _read(self, formula: Formula, weights: Tensor) -> symbolic.ParametricEquation:
        return symbolic.read(
            formula,
            weights.numpy(),
            self.feature_names_,
            self.varying_names_,
            self.scales_.x.tolist(),
            self.scales_.y,
        )

    # --- using the result ------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """y for each row of ``X``."""
        check_is_fitted(self, "network_")
        X = validate_data(self, check_table(X), dtype=np.float64, reset=False)
        x, t = self._split_columns(X)
        distinct, step = np.unique(t, axis=0, return_inverse=True)
        rows = self._open_weights(distinct)[torch.from_numpy(step.reshape(-1))]
        scaled = torch.from_numpy(x / self.scales_.x)[:, None]
        y = self.formula_([w[:, None] for w in rows.unbind(-1)], scaled)
        return (self.scales_.y * y[:, 0]).numpy()

    def equation(self, t: float | Sequence[float]) -> sympy.Expr:
        """The equation with numbers at ``t``, one number for each varying column; SymPy."""
        check_is_fitted(self, "network_")
        weights = self._open_weights(self._check_point(t)[None])
        values = self._parametric.evaluate(weights.numpy())[0]
        threshold = 0.0 if self.refine else PAPER_THRESHOLD
        return self._parametric.at(values, threshold)

    def _check_point(self, t: float | Sequence[float]) -> np.ndarray:
        point = np.atleast_1d(np.asarray(t, dtype=float))
        if point.shape != (len(self.varying_names_),) or not np.isfinite(point).all():
            expected = " and ".join(self.varying_names_)
            raise ValueError(f"t={t!r}: expected a finite number for {expected}")
        return point

    def latex(self, precision: int = 3) -> str:
        """The equation as LaTeX, numbers with ``precision`` significant digits."""
        check_is_fitted(self, "network_")
        numbers = {n: sympy.Float(n, precision) for n in self.equation_.atoms(sympy.Float)}
        return sympy.latex(self.equation_.xreplace(numbers))

    def jumps(self) -> pd.DataFrame:
        """Jumps and corners of the coefficient functions, see ``peql.discontinuities``."""
        from .discontinuities import jumps  # it works on a fitted model

        return jumps(self)

    def explain(self) -> pd.DataFrame:
        """What each coefficient function itself is, where that can be said."""
        from .explanation import explain  # it fits models of its own

        return explain(self)

    def save(self, path: Any) -> None:
        """Write the fitted model to ``path``: arrays and JSON, no code. See ``peql.load``."""
        from .checkpoint import save  # the checkpoint module knows the estimators

        save(self, path)


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

    def _steps(self, t: np.ndarray) -> None:
        return None

    def equation(self, t: float | Sequence[float]) -> sympy.Expr:
        """The equation with ``t`` put in for the varying column; SymPy."""
        expression = super().equation(t)
        point = [symbolic.number(float(value)) for value in self._check_point(t)]
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
        return replace(super()._schedule(rows_per_step), smoothness=self.smoothness)

    def _steps(self, t: np.ndarray) -> Tensor:
        """Positions of ``t`` among the training values; the nearest one if it is that, rounded."""
        known = self.t_[:, 0]
        spacing = np.diff(known).min(initial=np.inf)
        right = np.clip(np.searchsorted(known, t[:, 0]), 1, max(len(known) - 1, 1))
        right = np.minimum(right, len(known) - 1)
        left = np.maximum(right - 1, 0)
        nearest = np.where(
            np.abs(t[:, 0] - known[left]) <= np.abs(t[:, 0] - known[right]), left, right
        )
        far = np.abs(t[:, 0] - known[nearest]) > NEAR * min(spacing, max(np.ptp(known), 1e-300))
        if far.any():
            raise ValueError(
                f"{self.varying_names_[0]} = {t[far][0, 0]:g} was not in the training data: SEQL "
                f"knows {len(known)} values from {known[0]:g} to {known[-1]:g}. "
                "Use HEQL to predict between or beyond them."
            )
        return torch.from_numpy(nearest)


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

    def _steps(self, t: np.ndarray) -> Tensor:
        return torch.from_numpy(self.scales_.t(t))


def _pooled(fit: Fit, points: Points) -> float:
    """Mean squared error over all rows of all steps, scaled units."""
    rows = points.mask.sum()
    if rows == 0:
        return float("nan")
    per_step = mean_squared_error(fit.formula, fit.weights, points)
    return float((per_step * points.count * (points.mask.sum(-1) > 0)).sum() / rows)


def _choose(trials: pd.DataFrame, exact: float) -> int:
    """The simplest among the trials whose validation error is about the smallest."""
    error = trials["validation_error"].fillna(trials["train_error"])
    good = trials[error <= 2 * error.min() + exact]
    return int(good.assign(error=error).sort_values(["complexity", "error"]).index[0])
