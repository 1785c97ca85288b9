"""The paper's claims, each put to the test.

A function is a test; its docstring is the claim, as the book prints it. It returns a ``Verdict``: a
word, and the reason in words. Numbers that differ between machines decide but are not printed: a
margin is wide enough that the word does not.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, wraps
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sympy
import torch
from matplotlib.figure import Figure

from .. import datasets, results
from ..analysis.comparison import has_true_terms
from ..datasets import analytic as truth
from ..engine.training import PAPER, train
from ..equation import tex
from ..equation.writing import percent, scientific
from ..nn.network import SymbolicNetwork
from ..style import FOUND, legend, styled
from . import analytic, paper, pdes, protocol, robustness, springs
from .future import DUPLICATES, NOISE, PRIMITIVES, n_parameters
from .recording import record

CONFIRMED, CONTRADICTED, PARTLY = "confirmed", "contradicted", "partly"
UNTESTED, UNDECIDED = "not testable here", "undecided"
HELPS = "helps", "does not help"
FEWEST = 3  # seeds of each case without which nothing is said of seeds
FIVE = ("f1", "f2", "f3", "f4", "f5")
SMOOTH = ("f3", "f4", "f5")  # coefficients without jumps and corners
RIGHT = protocol.KINDS[:2]  # what the paper counts as found
EXACT = 1e-20  # a squared error below this is rounding
BETWEEN = 1e-3  # squared error, in units of y's range, that a prediction between two t may have
SETTLED = 1e-2  # squared error, in units of y's mean square, below which a course has arrived


class Verdict(NamedTuple):
    """A word on a claim, and why."""

    word: str
    because: str


Test = Callable[..., Verdict]


def judged(
    holds: bool,
    because: str,
    otherwise: str | None = None,
    *,
    partly: bool = False,
    words: tuple[str, str] = (CONFIRMED, CONTRADICTED),
) -> Verdict:
    """The verdict on what holds or does not; ``otherwise`` is the reason if it does not."""
    if holds:
        return Verdict(words[0], because)
    return Verdict(PARTLY if partly else words[1], because if otherwise is None else otherwise)


def sometimes(seen: bool, because: str) -> Verdict:
    """The verdict on what is said to happen sometimes; denying it takes many seeds."""
    return Verdict(CONFIRMED if seen else UNDECIDED if n_seeds() < 10 else CONTRADICTED, because)


def needs(lacking: Callable[[], str]) -> Callable[[Test], Test]:
    """Make a test undecided while ``lacking`` names something that is missing."""

    def given(test: Test) -> Test:
        @wraps(test)
        def tested(*arguments: int) -> Verdict:
            told = lacking()
            return Verdict(UNDECIDED, told) if told else test(*arguments)

        return tested

    return given


# --- what the tests rest on ----------------------------------------------------------------------


@cache
def trials() -> pd.DataFrame:
    """The stored trials of the paper's protocol; ``true_terms`` as the paper counts them."""
    return results.load("paper_protocol")


@cache
def courses() -> pd.DataFrame:
    """Their training, a row for each point in time: error without gate noise and open gates."""
    table = pd.read_csv(results.folder() / protocol.CURVES)
    parts = table.assign(error=table["error"].str.split(), gates=table["gates"].str.split())
    parts["progress"] = parts["error"].map(lambda error: np.linspace(0, 1, len(error)))
    points = parts.explode(["progress", "error", "gates"], ignore_index=True)
    return points.astype({"progress": float, "error": float, "gates": int})


@cache
def tried(experiment: str) -> pd.DataFrame:
    """The stored runs of one experiment on the paper's future work; may be none."""
    table = results.load("future_work")
    return table[table["experiment"] == experiment]


def not_run(experiment: str, *values: str) -> str:
    """How to make the runs that the stored table lacks; "" if it has all ``values``.

    With no values named, any run will do.
    """
    stored = set(tried(experiment)["value"])
    there = stored and set(values) <= stored
    return "" if there else f"not run yet: `{results.maker('future_work')}`"


def needs_runs(experiment: str, *values: str) -> Callable[[Test], Test]:
    """Make a test undecided until the experiment has been run with all ``values``."""
    return needs(lambda: not_run(experiment, *values))


def n_seeds() -> int:
    """The number of seeds from which every case of the paper's protocol has been run."""
    cases = pd.MultiIndex.from_product([FIVE, tuple(protocol.SOURCES)])
    counted = trials().groupby(["function", "model"])["seed"].nunique()
    return int(counted.reindex(cases, fill_value=0).min())


def too_few() -> str:
    """The reason why the stored sweep decides nothing yet; "" if it has enough seeds."""
    few = n_seeds() < FEWEST
    told = f"the stored sweep has too few seeds; {FEWEST} of each case are needed"
    return told if few else ""


# --- the two architectures -----------------------------------------------------------------------


@cache
def step_ratio(seed: int = 0, n_steps: int = 60) -> float:
    """Seconds of a step of SEQL / of HEQL, both with the batches of the authors' code."""
    data = datasets.load("f1", random_state=seed)
    table = protocol.arranged(data, seed).table
    seconds = {}
    for source, schedule in PAPER.items():
        network = SymbolicNetwork(1, weights=source, n_steps=table.n_steps)
        short = replace(schedule, n_steps=n_steps)
        train(network, table, replace(short, n_steps=10), torch.Generator().manual_seed(seed))
        started = time.process_time()
        train(network, table, short, torch.Generator().manual_seed(seed))
        seconds[source] = time.process_time() - started
    return seconds["stacked"] / seconds["meta"]


CLAIMED_SPEED = paper.table("speed", "heql_speedup_per_minibatch")
CLAIMED_CROSSING = 512  # time steps, in the paper's discussion


def speed(seed: int = 0) -> Verdict:
    """HEQL trains several times faster than SEQL on each minibatch."""
    return judged(
        step_ratio(seed) > CLAIMED_SPEED / 2,
        "on one core of a CPU, too, a step of HEQL is much faster",
        "on one core of a CPU the ratio is less than half of the paper's",
    )


@cache
def sizes() -> tuple[int, int, int]:
    """The parameters of HEQL, those of SEQL at one t, and how many more it has at each other t."""
    heql = n_parameters(SymbolicNetwork(1, weights="meta"))
    one, two = (n_parameters(SymbolicNetwork(1, weights="stacked", n_steps=n)) for n in (1, 2))
    return heql, one, two - one


def memory_crossing() -> int:
    """The smallest number of t at which SEQL has more parameters than HEQL."""
    heql, one, more = sizes()
    return (heql - one) // more + 2


def memory() -> Verdict:
    """HEQL has fewer parameters than SEQL where there are many time steps."""
    near = abs(memory_crossing() / CLAIMED_CROSSING - 1) < 0.05
    reason = (
        f"counted here, SEQL is the larger one from {memory_crossing()} time steps on; the paper "
        f"says about {CLAIMED_CROSSING}"
    )
    return judged(near, reason)


@cache
def spread() -> pd.DataFrame:
    """Of each model: the share of seeds that found the equation, and how far errors scatter."""
    table = trials().assign(digits=np.log10(trials()["test_mse_scaled"]))
    groups = table.groupby(["function", "model"])
    found, scatter = groups["true_terms"].mean(), groups["digits"].std()
    return pd.concat({"found": found.unstack(), "scatter": scatter.unstack()}, axis=1)


@needs(too_few)
def sensitivity() -> Verdict:
    """SEQL is less sensitive to the random initialisation."""
    found, scatter = spread()["found"], spread()["scatter"]
    steadier = int((scatter["SEQL"] < scatter["HEQL"]).sum())
    more = float(found["SEQL"].mean() - found["HEQL"].mean())
    if more > 0.05 and steadier >= 3:
        return Verdict(
            CONFIRMED, "SEQL finds the equation from more seeds, and its errors scatter less"
        )
    if more < -0.05 and steadier <= 2:
        return Verdict(CONTRADICTED, "SEQL finds the equation from fewer seeds, and scatters more")
    better = "SEQL" if more > 0.05 else "HEQL" if more < -0.05 else "neither"
    return Verdict(
        PARTLY,
        f"{better} finds the equation from clearly more seeds; SEQL's errors scatter less on "
        f"{steadier} of {len(scatter)} functions",
    )


@cache
def arrival(what: str) -> pd.DataFrame:
    """The share of training after which the error, or the number of gates, has settled; medians.

    The error stays below ``SETTLED``; the open gates are at most half as many again as in the end.
    """
    points, trial = courses(), ["function", "model", "seed"]
    last = points.groupby(trial)["gates"].transform("last")
    settled = points[what] <= (SETTLED if what == "error" else 1.5 * last)
    arrived = points.assign(arrival=points["progress"].mask(settled, 0.0)).groupby(trial)["arrival"]
    return arrived.max().groupby(["function", "model"]).median().unstack("model")


@needs(too_few)
def convergence() -> Verdict:
    """SEQL converges more quickly."""
    gates, error = (
        int((arrival(what)["SEQL"] < arrival(what)["HEQL"]).sum()) for what in ("gates", "error")
    )
    reason = (
        f"SEQL's formula settles after fewer steps on {gates} of {len(FIVE)} functions, its error "
        f"on {error}"
    )
    return judged(gates >= 4, reason, partly=gates > 1)


@needs(too_few)
def trend() -> Verdict:
    """Neither SEQL nor HEQL is clearly the better one."""
    best = trials().groupby(["function", "model"])["test_mse_scaled"].min().unstack("model")
    ahead = int((best["SEQL"] < best["HEQL"]).sum())
    reason = f"by the best trial SEQL is ahead on {ahead} of {len(best)} functions"
    return judged(ahead not in (0, len(best)), reason)


# --- data: grids, gaps, jumps, edges -------------------------------------------------------------


@cache
def scattered(seed: int = 0) -> Any:
    """A draw of f5 in which no two rows share their t."""
    random = np.random.default_rng(seed)
    X = pd.DataFrame({"x": random.uniform(-3, 3, 4096), "t": random.uniform(-3, 3, 4096)})
    small = datasets.load("f5", n_t=32, n_train=8, random_state=seed)
    return replace(small, X_train=X, y_train=truth.evaluate("f5", X))


@cache
def scattered_fit(seed: int = 0) -> Any:
    """HEQL on rows at scattered t."""
    data = scattered(seed)
    found = analytic.fit_one("HEQL", data, random_state=seed)
    right = has_true_terms(found.equation_, data)
    record({"function": data.name, "model": "HEQL"}, equation=found.equation_, true_terms=right)
    return found


def no_grid(seed: int = 0) -> Verdict:
    """HEQL does not require the data to lie on a grid in t."""
    found = has_true_terms(scattered_fit(seed).equation_, scattered(seed))
    try:
        analytic.fit_one("SEQL", scattered(seed), random_state=seed)
        other = ""
    except ValueError:
        other = "; SEQL refuses them"
    return judged(found, f"HEQL finds f5 from rows that share no t{other}", "HEQL misses f5")


def uneven_grid(seed: int = 0) -> Verdict:
    """SEQL and HEQL allow an uneven grid in t, and numbers of rows that vary."""
    random = np.random.default_rng(seed)
    t = np.repeat(np.sort(random.uniform(-3, 3, 24)), random.integers(24, 96, 24))
    X = pd.DataFrame({"x": random.uniform(-3, 3, len(t)), "t": t})
    data = replace(scattered(seed), X_train=X, y_train=truth.evaluate("f5", X))
    models = {m: analytic.fit_one(m, data, random_state=seed) for m in ("SEQL", "HEQL")}
    missed = [m for m, model in models.items() if not has_true_terms(model.equation_, data)]
    return judged(
        not missed,
        "both find f5 on 24 uneven values of t with 24 to 95 rows each",
        f"{' and '.join(missed)} missed f5 on an uneven grid",
    )


@cache
def between() -> pd.Series:
    """HEQL's median error midway between the training t, of each function."""
    heql = trials()[trials()["model"] == "HEQL"]
    return heql.groupby("function")["midpoint_mse_scaled"].median()


@needs(too_few)
def interpolation() -> Verdict:
    """HEQL is able to interpolate in t."""
    good = [f for f in between().index if between()[f] < BETWEEN]
    bad = [f for f in between().index if f not in good]
    reason = f"within a few percent of y's range midway between the training t: {', '.join(good)}"
    reason += f"; not {', '.join(bad)}" if bad else ""
    return judged(set(SMOOTH) <= set(good), reason, partly=bool(good))


def any_function(seed: int = 0) -> Verdict:
    """The coefficients may be any functions of t."""
    random = np.random.default_rng(seed)
    data = datasets.load("f1", n_t=32, n_train=64, random_state=seed)
    x, step = data.X_train["x"], data.X_train.groupby("t").ngroup()
    a, b = random.normal(size=(2, 32))
    data = replace(data, y_train=a[step] * x**2 + b[step] * x)
    missed = [
        model
        for model in ("SEQL", "HEQL")
        if not has_true_terms(analytic.fit_one(model, data, random_state=seed).equation_, data)
    ]
    told = "f1 with coefficients drawn at random at each t: "
    return judged(not missed, f"{told}both find it", f"{told}missed by {' and '.join(missed)}")


def sharp_jump() -> Verdict:
    """The discontinuous coefficient of f1 is learned without apparent smoothing."""
    jumps = trials()[trials()["function"] == "f1"]["jump"]
    return judged(
        jumps.between(0.98, 1.02).mean() > 0.8,
        "all of the jump lies between the two neighbours of t = 0",
        "part of the jump is spread over more than the neighbours of t = 0",
    )


def extrapolation() -> Verdict:
    """The equations extrapolate outside the training range."""
    worst = trials()[trials()["true_terms"]].groupby("function")["outside_mse_scaled"].max()
    return judged(
        worst.max() < 1e-2,
        "outside [-3, 3] every trial that found the equation is within 10 % of y's range",
        "some trials that found the equation are far off outside",
    )


# --- other methods -------------------------------------------------------------------------------


def eql_fails(seed: int = 0) -> Verdict:
    """EQL learns an overly complicated and incorrect equation for f1, and does not extrapolate."""
    data = datasets.load("f1", random_state=seed)
    model = analytic.fit_one("EQL", data, l0_weight=0.01, random_state=seed)
    inside, outside = analytic.split_error(data, model.predict(data.X_test))
    missed = analytic.misses({"f1": (data, {"EQL": model})})
    terms = "wrong terms" if missed else "the true terms"
    size = "larger" if outside > 2 * inside else "no larger"
    reason = f"{terms}, and an error that is {size} outside the training range than inside"
    return judged(bool(missed) and outside > 2 * inside, reason)


@cache
def sindy() -> tuple[float, float]:
    """SINDy's error of u_t on Burgers' equation, with u u_x among its candidates and without."""
    data = datasets.load("burgers", cross_terms=True, n_x=256, n_t=256)
    return pdes.u_t_mse(pdes.sindy(data), data), pdes.sindy_without_the_answer()[0]


def cross_terms() -> Verdict:
    """SINDy relies on cross terms being computed beforehand."""
    with_terms, without = sindy()
    return judged(
        without > 100 * with_terms,
        "it chooses among the columns it is given; without u u_x its error on Burgers' equation "
        "is over a hundred times larger",
        "without the column u u_x its error is not much larger",
    )


def linear_f1(seed: int = 0) -> Verdict:
    """Linear regression cannot find f1."""
    exact = analytic.polynomial_error(datasets.load("f1", random_state=seed)) < EXACT
    return judged(
        not exact,
        "a polynomial fitted at each t on its own fails",
        "a polynomial fitted at each t on its own is exact: the coefficients enter linearly",
    )


def linear_f2(seed: int = 0) -> Verdict:
    """Linear regression cannot find f2."""
    failed = analytic.polynomial_error(datasets.load("f2", random_state=seed)) > 1e-3
    return judged(
        failed, "a polynomial fitted at each t on its own fails", "such a polynomial fits it"
    )


def coefficients() -> Verdict:
    """SEQL and HEQL predict the coefficients of PDEs better than SINDy."""
    ours = results.load("pde")
    group = ours[(ours["model"] == "SINDy") & (ours["equation"] == "advection_diffusion")]
    sindy_error = group[group["cross_terms"]]["coefficient_mse"].max()
    printed = paper.table("pde_mse", "coefficient", "advection_diffusion_cross")
    return judged(
        sindy_error >= min(printed["SEQL"], printed["HEQL"]) / 100,
        "counted over the true terms, SINDy is not far ahead",
        "counted over the true terms, SINDy's error is less than a hundredth of theirs",
    )


def lowest_u_t() -> Verdict:
    """SINDy has the lowest error of u_t where it is offered the right columns."""
    table = paper_pdes()
    offered = table.groupby(["equation", "cross_terms"]).filter(
        lambda case: bool(case[case["model"] == "SINDy"]["true_terms"].any())
    )
    if offered["model"].nunique() < 3:
        return Verdict(UNDECIDED, "the stored sweep has too few runs")
    sindys = offered[offered["model"] == "SINDy"].set_index(["equation", "cross_terms"])["u_t_mse"]
    others = offered[offered["model"] != "SINDy"].set_index(["equation", "cross_terms"])
    ratio = others["u_t_mse"] / sindys.reindex(others.index)
    right = others["true_terms"].astype(bool)
    spare = int((ratio[~right] < 1).sum())
    fitted = f"; {spare} trials with wrong terms go below it by fitting the derivatives' errors"
    return judged(
        bool((ratio[right] >= 1).all()),
        "there it is the least-squares limit; with the true terms SEQL and HEQL, refined, end "
        f"within {percent(ratio[right].max() - 1)} of it" + fitted * bool(spare),
        "SEQL or HEQL, refined, is lower",
    )


def paper_pdes() -> pd.DataFrame:
    """The stored trials on the paper's two PDEs."""
    table = results.load("pde")
    return table[table["equation"].isin(("advection_diffusion", "burgers"))]


def fewer_inputs() -> Verdict:
    """Without cross terms among their inputs, SEQL and HEQL reach a lower error of u_t."""
    printed = paper.table("pde_mse", "u_t")
    lower = [
        printed[name][model] < printed[f"{name}_cross"][model]
        for name in ("advection_diffusion", "burgers")
        for model in ("SEQL", "HEQL")
    ]
    ours = paper_pdes().groupby(["equation", "model", "cross_terms"])["u_t_mse"].median()
    ratio = (
        ours.unstack().reindex(columns=[False, True]).pipe(lambda part: part[False] / part[True])
    )
    ratio = ratio[ratio.index.get_level_values("model") != "SINDy"].dropna()
    same = "the same error" if bool(ratio.between(0.95, 1.05).all()) else "another error"
    reason = (
        f"in the paper's own table in {sum(lower)} of {len(lower)} cases; "
        f"refined, {same} either way"
    )
    return judged(all(lower), reason, partly=any(lower))


# --- springs -------------------------------------------------------------------------------------


def spring_edges() -> Verdict:
    """On springs, SEQL and HEQL extrapolate and the ReLU network does not."""
    table = results.load("spring")
    symbolic = table[table["model"] != "ReLU"].groupby("target")["mse_outside"].max()
    dense = table[table["model"] == "ReLU"].groupby("target")["mse_outside"].min()
    return judged(
        bool((dense > 100 * symbolic).all()),
        "on far pairs the best ReLU run is over a hundred times worse than the worst of the others",
        "on far pairs the best ReLU run is less than a hundred times worse than the worst of the "
        "others",
    )


def straight_latent() -> Verdict:
    """SEQL and HEQL make the latent variable linear in the position."""
    table = results.load("spring")
    straight = table[table["model"] != "ReLU"]["r"] >= springs.LEAST_R
    reason = (
        f"correlated to {springs.LEAST_R:g} or more in {straight.sum()} of {len(straight)} runs"
    )
    return judged(bool(straight.all()), reason)


def curved_latent() -> Verdict:
    """The ReLU network makes the latent variable one-to-one with the position, but not linear."""
    table = results.load("spring")
    r = table[table["model"] == "ReLU"]["r"]
    straight = int((r >= springs.LEAST_R_TORN).sum())
    reason = (
        f"nearly straight in {straight} of {len(r)} runs, torn in the others; "
        "it depends on the encoder"
    )
    return judged(straight < len(r) / 2, reason)


# --- how it fails --------------------------------------------------------------------------------


@needs(too_few)
def easiest() -> Verdict:
    """SEQL and HEQL find f3 nearly always."""
    share = trials()[trials()["function"] == "f3"]["true_terms"].mean()
    return judged(share >= 0.9, counted("f3"))


@needs(too_few)
def majority() -> Verdict:
    """The equation is found in a large majority of the trials."""
    share = trials().groupby(["function", "model"])["true_terms"].mean()
    rare = [f"{case[1]} on {case[0]}" for case in share.index[share <= 0.5]]
    reason = f"in more than half of them for {len(share) - len(rare)} of {len(share)} cases"
    reason += f"; not {', '.join(rare)}" if rare else ""
    return judged(not rare, reason, partly=2 * len(rare) < len(share))


@needs(too_few)
def far_misses() -> Verdict:
    """A trial that misses the equation has an error orders of magnitude above the best."""
    best = trials().groupby(["function", "model"])["test_mse_scaled"].transform("min")
    ratio = (trials()["test_mse_scaled"] / best)[~trials()["true_terms"].astype(bool)]
    if ratio.empty:
        return Verdict(UNDECIDED, "no trial missed it")
    far = int((ratio > 100).sum())
    reason = f"over a hundred times the best of its kind in {far} of {len(ratio)} misses"
    return judged(2 * far > len(ratio), reason, partly=far > 0)


@needs(too_few)
def f4_more_often() -> Verdict:
    """SEQL finds f4 more often than HEQL."""
    share = spread()["found"].loc["f4"]
    alike = "as often: " if share["SEQL"] == share["HEQL"] else "less often: "
    return judged(share["SEQL"] > share["HEQL"], counted("f4"), alike + counted("f4"))


def counted(function: str, kinds: tuple[str, ...] = RIGHT) -> str:
    """In how many trials of each model the printed equation is one of ``kinds``, in words."""
    chosen = trials()[trials()["function"] == function]
    words = []
    for model in ("SEQL", "HEQL"):
        hit = chosen[chosen["model"] == model]["terms"].isin(kinds)
        words.append(f"{model} {int(hit.sum())} of {len(hit)}")
    return ", ".join(words)


def slow_sine() -> Verdict:
    """HEQL sometimes adds a slow sine to f4."""
    chosen = trials()[(trials()["function"] == "f4") & (trials()["model"] == "HEQL")]
    seen = bool((chosen["terms"] == "a slow sine besides").any())
    return sometimes(seen, f"seen in: {counted('f4', ('a slow sine besides',))}")


def two_sines() -> Verdict:
    """HEQL sometimes learns two sines of nearly the same frequency for f2 and f5."""
    kinds = ("several sines",)
    chosen = trials()[trials()["terms"].isin(kinds)]
    seen = bool((chosen["model"] == "HEQL").any())
    reason = "; ".join(f"{f}: {counted(f, kinds)}" for f in ("f2", "f5"))
    too = bool((chosen["model"] == "SEQL").any())
    return sometimes(seen, f"seen in {reason}" + ("; SEQL does it too" if too else ""))


@needs_runs("duplicates", *DUPLICATES)
def duplicates() -> Verdict:
    """How often a primitive is duplicated hardly matters."""
    runs = tried("duplicates")
    found = runs["true_terms"].astype(bool).groupby(runs["value"]).mean()
    told = ", ".join(f"{value}: {percent(found[value])}" for value in DUPLICATES)
    reason = f"runs on f1 and f5 that found the equation, with {told}"
    return judged(found.max() - found.min() < 0.25, reason)


# --- the paper's future work ---------------------------------------------------------------------


def median(experiment: str, column: str = "test_mse_scaled") -> pd.DataFrame:
    """Medians over seeds: a row for each value tried, a column for each function."""
    table = tried(experiment)
    found = table.groupby(["value", "function"], sort=False)[column].median().unstack("function")
    return found.reindex(list(dict.fromkeys(table["value"])))


@needs_runs("rates", "one", "separate")
def separate_rates() -> Verdict:
    """Separate learning rates for the gates and the meta-weight unit."""
    gates = median("rates", "gates")
    return judged(
        bool((gates.loc["separate"] < gates.loc["one"] / 2).all()),
        "after the same short training fewer than half as many gates are open, on every function; "
        "this is how HEQL is trained in this package",
        "as many gates stay open",
        words=HELPS,
    )


@needs_runs("rank", "1", "full")
def lower_rank() -> Verdict:
    """Weights of lower rank."""
    error, size = median("rank"), median("rank", "parameters")["f1"]
    full = error.loc["full"]
    good = [rank for rank in error.index[:-1] if (error.loc[rank] < 3 * full).all()]
    if not good:
        return Verdict(HELPS[1], "every lower rank costs several times the error")
    saved = 1 - size[good[0]] / size["full"]
    return Verdict(
        HELPS[0],
        f"rank {good[0]} has less than three times the error of full rank, and {percent(saved)} "
        "fewer parameters; the rest are hidden layers, which it leaves as they are",
    )


def exact(experiment: str) -> pd.Series:
    """Whether each run of an experiment is exact on the test rows, terms aside."""
    return tried(experiment)["test_mse_scaled"] < EXACT


@needs_runs("primitives", *PRIMITIVES)
def primitives() -> Verdict:
    """Snake, Padé and NALU units."""
    table = tried("primitives").assign(exact=exact("primitives"))
    share = table.groupby(["value", "function"])["exact"].mean().unstack("function")
    new = [name for name in PRIMITIVES if name != "the paper's"]
    helpful = [name for name in new if float(share["rational"][name]) > 0.5]
    snake = "also written" if float(share["f5"]["Snake for sin"]) > 0.5 else "not written"
    found = f"the rational law is found {' and '.join(helpful) or 'with none of them'}"
    word = "some help" if helpful else "they do not help"
    return Verdict(word, f"{found}; f5's sine is {snake} by Snake in place of the sine")


def few_data() -> Verdict:
    """Data efficiency."""
    table = results.load("robustness")
    words = [
        f"{kept} {robustness.AXES[column]}"
        for column, (kept, _) in robustness.limits(table).items()
        if kept and column != "noise"
    ]
    noise = percent(robustness.size_noise(table))
    told = f"with {noise} noise, " + " or ".join(words) + " are enough in nine trials of ten"
    return Verdict("measured", told if words else f"with {noise} noise, no size is enough")


@needs_runs("smoothness", "0", "1")
def smoothing() -> Verdict:
    """Smoothness against noise."""
    error, jump = median("smoothness"), median("smoothness", "jump")["f1"]
    blurs = "; a large one blurs the jump" if jump["1"] < 0.9 else ""
    return judged(
        bool((error.loc["0"] / error.min() > 1.5).any()),
        f"with {percent(NOISE)} noise the right weight lowers the error{blurs}",
        f"with {percent(NOISE)} noise no weight lowers the error much{blurs}",
        words=HELPS,
    )


# --- all of them ---------------------------------------------------------------------------------

CLAIMS: tuple[Test, ...] = (
    *(speed, memory, sensitivity, convergence, trend),
    *(no_grid, uneven_grid, any_function, interpolation, sharp_jump, extrapolation),
    *(eql_fails, cross_terms, linear_f1, linear_f2, lowest_u_t, coefficients, fewer_inputs),
    *(spring_edges, straight_latent, curved_latent),
    *(easiest, majority, f4_more_often, far_misses, slow_sine, two_sines, duplicates),
)
LIVE = (speed, no_grid, uneven_grid, any_function, eql_fails, linear_f1, linear_f2)
FUTURE: tuple[Test, ...] = (separate_rates, lower_rank, primitives, few_data, smoothing)
NOT_HERE = (
    (
        "A trial takes {SEQL} s (SEQL) or {HEQL} s (HEQL) on a GPU".format(
            **paper.table("speed", "seconds")
        ),
        "there is no such GPU here",
    ),
    (
        "Skip connections and L0 improve on the original EQL",
        "that network is not part of this package",
    ),
    (
        "Methods that average or smooth over neighbouring t have difficulty with jumps",
        "none of them is run here",
    ),
)
ORDER = (CONTRADICTED, PARTLY, CONFIRMED, UNDECIDED, UNTESTED)  # of the table: news first


@cache
def judge(test: Test, seed: int = 0) -> Verdict:
    """The verdict of a test; tests that fit something here start from ``seed``."""
    return test(seed) if test in LIVE else test()


def claim(test: Test) -> str:
    """The claim that a test is about."""
    return str(test.__doc__).rstrip(".")


def table(seed: int = 0) -> pd.DataFrame:
    """Every claim with its verdict."""
    rows = [(claim(test), *judge(test, seed)) for test in CLAIMS]
    rows += [(told, UNTESTED, reason) for told, reason in NOT_HERE]
    return _table(sorted(rows, key=lambda row: ORDER.index(row[1])), "the paper says")


def future_table() -> pd.DataFrame:
    """Every suggestion for future work with what came of it."""
    return _table([(claim(test), *test()) for test in FUTURE], "the paper suggests")


def _table(rows: list[tuple[str, str, str]], name: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[name, "verdict", "because"]).set_index(name)


def tally(seed: int = 0) -> dict[str, int]:
    """How many claims got which word."""
    return {str(k): int(v) for k, v in table(seed)["verdict"].value_counts().items()}


def summary(seed: int = 0) -> str:
    """What becomes of the claims and of the future work, in two sentences."""
    words, future = tally(seed), future_table()["verdict"]
    told = {
        CONFIRMED: "{} are confirmed",
        PARTLY: "{} confirmed in part",
        CONTRADICTED: "{} contradicted",
        UNDECIDED: "{} undecided, for want of stored runs",
    }
    *first, last = [told[word].format(words[word]) for word in told if words.get(word)]
    n_tested = sum(n for word, n in words.items() if word != UNTESTED)
    helped = int(future.str.contains("help").sum() - future.str.contains("not help").sum())
    return (
        f"Of the paper's claims, {n_tested} can be put to the test: {', '.join(first)} and {last}. "
        f"Of its {len(future)} suggestions for future work, all tried here, {helped} help."
    )


# --- tables and figures of the sections ----------------------------------------------------------


def rank_table() -> pd.DataFrame:
    """Parameters and error of HEQL against the rank of its weights."""
    if not_run("rank"):
        return pd.DataFrame()
    error, size = median("rank"), median("rank", "parameters")
    shown = error.map(lambda v: scientific(v, 1)).rename(
        columns=lambda f: f"error, {tex.inline(f)}"
    )
    return shown.assign(parameters=size["f1"].astype(int)).rename_axis(index="rank", columns=None)


def primitives_table() -> pd.DataFrame:
    """Runs that are exact on the test rows: a row for each choice of primitives."""
    if not_run("primitives"):
        return pd.DataFrame()
    table = tried("primitives").assign(exact=exact("primitives"))
    counts = table.groupby(["value", "function"], sort=False)["exact"]
    told = counts.agg(lambda runs: f"{int(runs.sum())} of {len(runs)}").unstack("function")
    x, t = sympy.symbols("x t")
    law = sympy.Function("a")(t) * x / (1 + x**2)
    names = {f: tex.inline(f) for f in ("f1", "f5")} | {"rational": tex.inline(law)}
    return (
        told.reindex(list(dict.fromkeys(tried("primitives")["value"])))
        .rename(columns=names)
        .rename_axis(index="primitives", columns=None)
    )


@styled
def training_courses(functions: tuple[str, ...] = FIVE) -> Figure:
    """The error and the open gates over training, a thin line for each seed."""
    figure, axes = plt.subplots(
        2,
        len(functions),
        figsize=(2.0 * len(functions), 4.4),
        sharex=True,
        sharey="row",
        squeeze=False,
    )
    for column, function in zip(axes.T, functions, strict=True):
        chosen = courses()[courses()["function"] == function]
        for (model, _), course in chosen.groupby(["model", "seed"]):
            look = {
                "color": FOUND[str(model)]["color"],
                "linewidth": 0.8,
                "label": str(model),
                "linestyle": "-" if model == "SEQL" else (0, (4, 1)),
            }
            column[0].plot(course["progress"], course["error"], **look)
            column[1].plot(course["progress"], course["gates"], **look)
        column[0].set_title(f"${tex.name(function)}$")
        column[0].set_yscale("log")
        column[1].set_yscale("log")
        column[1].set_xlabel("share of training")
    axes[0, 0].set_ylabel("error, held-out rows")
    axes[1, 0].set_ylabel("open gates")
    legend(figure)
    return figure


@styled
def memory_lines(most: int = 1024) -> Figure:
    """Parameters of SEQL and HEQL over the number of t."""
    figure, ax = plt.subplots(figsize=(5.2, 2.8))
    n = np.array([1, most])
    heql, one, more = sizes()
    ax.plot(n, one + more * (n - 1), **FOUND["SEQL"], label="SEQL")
    ax.plot(n, [heql, heql], **FOUND["HEQL"], label="HEQL")
    label = f"{CLAIMED_CROSSING}, the paper's"
    ax.axvline(CLAIMED_CROSSING, color="black", linewidth=0.8, label=label)
    ax.set(xlabel="number of $t$", ylabel="parameters", ylim=(0, None))
    legend(figure)
    return figure


@styled
def smoothness_figure() -> Figure:
    """Error and jump over the weight of the smoothness penalty, with noise."""
    if missing := not_run("smoothness"):
        figure = plt.figure(figsize=(7.6, 1))
        figure.text(0.5, 0.5, missing, ha="center")
        return figure
    error, jump = median("smoothness"), median("smoothness", "jump")["f1"]
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 2.8))
    places = range(len(error))
    for function, marker in zip(error.columns, "os", strict=True):
        axes[0].plot(places, error[function], marker=marker, label=f"${tex.name(function)}$")
    axes[1].plot(places, jump, marker="o")
    axes[0].set(yscale="log", title="test MSE, scaled units")
    axes[1].set(title="share of the jump of $f_1$ at $t = 0$", ylim=(0, 1.1))
    for ax in axes:
        ax.set_xticks(places, [re.sub(r"1e(-\d+)", r"$10^{\1}$", str(w)) for w in error.index])
        ax.set_xlabel("weight of the smoothness penalty")
    legend(figure)
    return figure


def failures() -> pd.DataFrame:
    """The trials of the paper's protocol, counted by the kind of equation that they print."""
    counts = trials().groupby(["function", "model", "terms"]).size().unstack("terms").fillna(0)
    table = counts.reindex(columns=list(protocol.KINDS)).fillna(0).astype(int)
    table.index = pd.MultiIndex.from_tuples([(tex.inline(f), m) for f, m in table.index])
    return table.rename_axis(columns=None)
