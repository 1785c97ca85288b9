"""Speed and memory in one run: a step, a trial, and how both grow.

    python benchmarks/bench.py            # about ten minutes on one core
    python benchmarks/bench.py --quick    # a minute: fewer sizes, no whole trials

Times on a shared machine are noisy; the ratios, listed once more at the end, compare things that
were measured in turn in the same run, and are what to hold against another run.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

import peql
from peql.datasets import Dataset
from peql.datasets.classbench import LAWS
from peql.engine.training import Descent
from peql.nn import SymbolicNetwork

POINTS = 16
Ratios = dict[str, float]


def training_step(weights: str, n_steps: int, n_trials: int) -> Callable:
    """A closure that does one forward pass, backward pass and update."""
    torch.manual_seed(0)
    network = SymbolicNetwork(1, weights=weights, n_steps=n_steps, n_trials=n_trials)
    optimiser = Descent(torch.optim.RMSprop(network.parameters(), lr=1e-3))
    x = torch.rand(n_trials, n_steps, POINTS, 1) * 2 - 1
    steps = torch.linspace(-1, 1, n_steps)[:, None] if weights == "meta" else None

    def step() -> None:
        loss = (network(x, steps) - x.square()).square().mean() + 1e-3 * network.gates.l0().sum()
        loss.backward()
        optimiser.step(1.0)

    return step


def milliseconds(*steps: Callable, rounds: int = 15) -> list[float]:
    """Median CPU time of each closure, taken in turn so that a busy moment hits all alike."""
    times: list[list[float]] = [[] for _ in steps]
    for round_ in range(rounds + 2):
        for closure, seen in zip(steps, times, strict=True):
            start = time.process_time()
            closure()
            if round_ >= 2:
                seen.append(1e3 * (time.process_time() - start))
    return [median(seen) for seen in times]


def seconds_of(model: str, data: Dataset, **options: Any) -> float:
    """CPU seconds of one fit."""
    estimator = getattr(peql, model)(varying=data.varying, verbose=False, **options)
    start = time.process_time()
    estimator.fit(data.X_train, data.y_train)
    return time.process_time() - start


def table(title: str, header: str, rows: list[tuple]) -> None:
    """Print rows under a title."""
    print(f"\n{title}\n{header}", flush=True)
    for row in rows:
        print("  ".join(f"{v:>10.2f}" if isinstance(v, float) else f"{v:>10}" for v in row))


def over_t(sizes: tuple[int, ...]) -> Ratios:
    """A step of SEQL and of HEQL over the number of t."""
    rows, ratios = [], {}
    for n in sizes:
        seql, heql = milliseconds(training_step("stacked", n, 1), training_step("meta", n, 1))
        rows.append((n, seql, heql, heql / seql))
        ratios[f"a step at {n} t, HEQL / SEQL"] = heql / seql
    table("ms a step over the number of t", "         t        SEQL        HEQL  HEQL/SEQL", rows)
    return ratios


def over_trials(sizes: tuple[int, ...]) -> Ratios:
    """A step of several trials together, against one by one."""
    rows, ratios = [], {}
    for n in sizes:
        alone, together = milliseconds(
            training_step("stacked", 128, 1), training_step("stacked", 128, n), rounds=7
        )
        rows.append((n, together, n * alone / together))
        ratios[f"{n} trials one by one / together"] = n * alone / together
    table("ms a SEQL step over trials", "    trials          ms  speed-up against one by one", rows)
    return ratios


def whole_trials() -> Ratios:
    """A trial with and without its refinement."""
    rows, ratios = [], {}
    for name in ("f1", "f5"):
        data, refined = peql.datasets.load(name), {}
        for model in ("SEQL", "HEQL"):
            trained, refined[model] = (
                seconds_of(model, data, method="network", refine=refine, random_state=0)
                for refine in (False, True)
            )
            rows.append((model, name, refined[model], trained))
            ratios[f"a trial of {model} on {name}, refined / trained only"] = (
                refined[model] / trained
            )
        ratios[f"a trial on {name}, HEQL / SEQL"] = refined["HEQL"] / refined["SEQL"]
    table("CPU seconds a trial", "     model        data     refined  trained only", rows)
    return ratios


def searches() -> Ratios:
    """The search on ClassBench's laws, in units of a SEQL trial on f1."""
    unit = seconds_of("SEQL", peql.datasets.load("f1"), method="network", random_state=300)
    rows, ratios = [], {}
    for noise in (0.0, 0.01, 0.1):
        laws = (peql.datasets.load(law, random_state=300, noise=noise) for law in LAWS)
        times = [seconds_of("SEQL", data, random_state=300) / unit for data in laws]
        rows.append((f"{noise:.0%}", median(times), max(times)))
        ratios[f"a law at {noise:.0%} noise / a SEQL trial on f1, median"] = median(times)
        ratios[f"a law at {noise:.0%} noise / a SEQL trial on f1, worst"] = max(times)
    title = f"a ClassBench law, in units of a SEQL trial on f1 ({unit:.1f} CPU seconds)"
    table(title, "     noise      median       worst", rows)
    return ratios


def main() -> None:
    """Print the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes, no whole trials")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    ratios = over_t((32, 128) if quick else (32, 64, 128, 256, 512, 1024))
    ratios |= over_trials((1, 8) if quick else (1, 2, 4, 8, 16, 40))
    if not quick:
        ratios |= whole_trials() | searches()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory of this run: {peak:.0f} MB\n\nratios of this run")
    for what, ratio in ratios.items():
        print(f"{ratio:10.2f}  {what}")


if __name__ == "__main__":
    main()
