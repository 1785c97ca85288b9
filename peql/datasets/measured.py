"""Five classic tables of repeated measurements: one law, constants of its own in every group."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import pandas as pd
import sympy

from .._suggest import unknown_name


@dataclass(frozen=True)
class Table:
    """What a table holds: the group column, the features, the target, the accepted form."""

    group: str
    features: tuple[str, ...]
    target: str
    form: str
    source: str


TABLES = {
    "indometh": Table(
        "Subject",
        ("time",),
        "conc",
        "A1*exp(-k1*time) + A2*exp(-k2*time)",
        "K. C. Kwan et al. (1976), Kinetics of indomethacin absorption, elimination, and "
        "enterohepatic circulation in man, J. Pharmacokinetics and Biopharmaceutics 4, 255-280",
    ),
    "puromycin": Table(
        "state",
        ("conc",),
        "rate",
        "V*conc/(K + conc)",
        "M. A. Treloar (1974), Effects of puromycin on galactosyltransferase in Golgi membranes, "
        "M.Sc. thesis, University of Toronto",
    ),
    "orange": Table(
        "Tree",
        ("age",),
        "circumference",
        "A/(1 + exp((m - age)/s))",
        "N. R. Draper and H. Smith (1998), Applied Regression Analysis, 3rd ed., Wiley, ex. 24.N",
    ),
    "dnase": Table(
        "Run",
        ("conc",),
        "density",
        "A/(1 + exp((m - log(conc))/s))",
        "M. Davidian and D. M. Giltinan (1995), Nonlinear Models for Repeated Measurement Data, "
        "Chapman & Hall, section 5.2.4",
    ),
    "theoph": Table(
        "Subject",
        ("Time",),
        "conc",
        "C*(exp(-ke*Time) - exp(-ka*Time))",
        "A. J. Boeckmann, L. B. Sheiner and S. L. Beal (1994), NONMEM Users Guide: Part V, "
        "NONMEM Project Group, University of California, San Francisco",
    ),
}


@dataclass(frozen=True)
class Measured:
    """Measurements by group: X has the features and the text column ``varying``.

    ``equation`` is the form the field settled on, its constants functions of the group.
    """

    name: str
    X: pd.DataFrame
    y: pd.Series
    varying: str
    equation: sympy.Expr
    source: str


def load_measured(name: str) -> Measured:
    """The table ``name``; its groups are labels, without an order.

    >>> data = load_measured("puromycin")
    >>> data.equation, sorted(data.X["state"].unique())
    (conc*V(state)/(conc + K(state)), ['treated', 'untreated'])
    """
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)
    table = TABLES[name]
    with files(__package__).joinpath("tables", f"{name}.csv").open() as file:
        frame = pd.read_csv(file)
    features = {k: sympy.Symbol(k) for k in table.features}
    form = sympy.parse_expr(table.form, local_dict=dict(features))
    group = sympy.Symbol(table.group)
    own = {s: sympy.Function(s.name)(group) for s in form.free_symbols - set(features.values())}
    X = frame[list(table.features)].assign(**{table.group: frame[table.group].astype(str)})
    return Measured(name, X, frame[table.target], table.group, form.subs(own), table.source)
