"""What every fitted model offers: each thing is read from its solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date as date_type
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import sympy
from sklearn.utils.validation import check_is_fitted
from torch import nn

from .. import primitives as P
from ..analysis.breaks import jumps
from ..analysis.explanation import explain
from ..columns import days
from ..engine.formula import Formula
from ..equation.tex import tex
from ..nn.network import SymbolicNetwork
from ..solution import Solution
from . import checkpoint


class Solved:
    """A model that holds a ``Solution`` as ``solution_``.

    Attributes:
        solution_: the ``peql.Solution``: formula, weights at each t, scales and names.
        equation_: SymPy, with functions of the varying column as coefficients.
        coefficients_: DataFrame over the known t, one column per coefficient function.
        coefficient_errors_: DataFrame like it, the standard errors from the least-squares fit.
        constants_: DataFrame, the numbers that do not vary, with their standard errors.
        trials_: DataFrame, a row per trial, with where it came from.
        network_: a ``peql.nn.SymbolicNetwork`` (float64, scaled units) that holds the formula.
    """

    solution_: Solution
    trials_: pd.DataFrame
    verbose: bool
    primitives: P.PrimitiveChoice
    get_params: Callable[..., dict[str, Any]]

    @property
    def equation_(self) -> sympy.Expr:
        return self._solved().equation

    @property
    def coefficients_(self) -> pd.DataFrame:
        return self._solved().coefficients

    @property
    def coefficient_errors_(self) -> pd.DataFrame:
        return self._solved().coefficient_errors

    @property
    def constants_(self) -> pd.DataFrame:
        return self._solved().constants

    @property
    def network_(self) -> SymbolicNetwork:
        return self._solved().network()

    @property
    def formula_(self) -> Formula:
        return self._solved().formula

    @property
    def t_(self) -> np.ndarray:
        return self._solved().t

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "solution_")

    def _solved(self) -> Solution:
        # A property that raises anything but AttributeError would break hasattr().
        if "solution_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} has no equation yet: call fit first")
        return self.solution_

    def equation(self, t: Any) -> sympy.Expr:
        """The equation with numbers at ``t``, one number (or label) for each varying column.

        >>> import peql
        >>> data = peql.datasets.load("f1", n_t=8, n_train=32)
        >>> model = peql.SEQL(varying="t", random_state=0).fit(data.X_train, data.y_train)
        >>> model.equation(t=3)
        3.0*x**2 + 3.0*x
        """
        check_is_fitted(self)
        return self.solution_.at(self._point(t))

    def _point(self, t: Any) -> np.ndarray:
        """``t`` as positions (varying,)."""
        solution = self.solution_
        if solution.labels is not None:
            return np.array([float(solution.position(t))])
        try:
            date = days(pd.Series([t])) if isinstance(t, (str, date_type)) else None
            point = np.atleast_1d(np.asarray(t if date is None else date, dtype=float))
        except (TypeError, ValueError):
            point = np.array([np.nan])
        if point.shape != (len(solution.varying),) or not np.isfinite(point).all():
            expected = " and ".join(solution.varying)
            raise ValueError(f"t={t!r}: expected a finite number for {expected}")
        return point

    def latex(self, precision: int = 3) -> str:
        r"""The equation as LaTeX, numbers with ``precision`` significant digits.

        >>> import peql
        >>> data = peql.datasets.load("f1", n_t=8, n_train=32)
        >>> model = peql.SEQL(varying="t", random_state=0).fit(data.X_train, data.y_train)
        >>> print(model.latex())
        a(t) \, x^{2} + b(t) \, x
        """
        check_is_fitted(self)
        return tex(self.equation_, f".{precision}g")

    def jumps(self) -> pd.DataFrame:
        """Jumps and corners of the coefficient functions, see ``peql.analysis.breaks``.

        >>> import peql
        >>> data = peql.datasets.load("f1", n_t=32, n_train=32)
        >>> model = peql.SEQL(varying="t", random_state=0).fit(data.X_train, data.y_train)
        >>> model.jumps()[["coefficient", "kind", "t"]].to_dict("list")
        {'coefficient': ['b'], 'kind': ['jump'], 't': [0.0]}
        """
        check_is_fitted(self)
        return jumps(self.solution_, smoothed=self._smoothed)

    def explain(self, coefficients: Sequence[str] | None = None) -> pd.DataFrame:
        """What each coefficient function itself is, where that can be said.

        >>> import peql
        >>> data = peql.datasets.load("f1", n_t=8, n_train=32)
        >>> model = peql.SEQL(varying="t", random_state=0).fit(data.X_train, data.y_train)
        >>> explained = model.explain(["a"])
        >>> explained.loc[0, ["coefficient", "expression", "verdict"]].tolist()
        ['a', t, 'consistent']
        """
        check_is_fitted(self)
        return explain(self.solution_, coefficients, progress=self.verbose, smoothed=self._smoothed)

    @property
    def _smoothed(self) -> bool:
        """Whether the rows are those of a field, whose coefficients are as smooth as its waves."""
        return getattr(self, "_field", None) is not None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to ``path``: arrays and JSON, no code. ``peql.load`` reads it."""
        check_is_fitted(self)
        header, arrays = self._state()
        solution, more = checkpoint.packed(self.solution_)
        header = {"model": type(self).__name__, "solution": solution, **header}
        checkpoint.write(path, header, {**arrays, **more})

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What a file must hold beside the solution."""
        kinds = P.resolve(self.primitives)
        for primitive, _ in kinds:
            checkpoint.check_registered(primitive)
        # A set stays one: "default" lets the search choose among all that are registered.
        chosen = self.primitives
        named = chosen if isinstance(chosen, str) else {p.name: n for p, n in kinds}
        parameters = {**self.get_params(), "primitives": named}
        return {
            "parameters": {k: _plain(v) for k, v in parameters.items()},
            "trials": self.trials_.to_dict(orient="list"),
        }, {}

    def _restore(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Set what ``_state`` and the solution hold."""
        self.trials_ = pd.DataFrame(header["trials"]).rename_axis("trial")
        self.solution_ = checkpoint.unpacked(header["solution"], arrays)


def _plain(value: Any) -> Any:
    """A parameter as JSON has it; a random generator or a module is not kept."""
    if isinstance(value, np.generic):
        return value.item()
    return None if isinstance(value, (np.random.RandomState, nn.Module)) else value
