"""The checks of the notebooks, and a few unit tests, as on other processors: make test-machines.

    python scripts/machines.py                           # every setting, with 1 and 2 threads
    python scripts/machines.py oldest avx2 --threads 1   # some of them
    python scripts/machines.py --only tests              # without the notebooks

A setting makes torch, OpenBLAS, MKL or NumPy take the instructions of another processor, so that
sums are rounded otherwise and training takes another path. The book must not notice.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NUMPY = {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"}
SETTINGS: dict[str, dict[str, str]] = {
    "here": {},
    "torch-default": {"ATEN_CPU_CAPABILITY": "default"},
    "torch-avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "numpy": NUMPY,
    "mkl-sse4": {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "OPENBLAS_CORETYPE": "Haswell",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
    "oldest": {
        "ATEN_CPU_CAPABILITY": "default",
        "OPENBLAS_CORETYPE": "Nehalem",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        **NUMPY,
    },
}
UNIT = ("moves", "network", "notebooks", "primitives", "symbolic")
SUITES = {
    "notebooks": ["--nbval", "notebooks/"],
    "tests": [f"tests/test_{name}.py" for name in UNIT],
}


def environment(setting: str, threads: int) -> dict[str, str]:
    """This process's, as on another machine with so many threads."""
    known = {name for chosen in SETTINGS.values() for name in chosen}
    inherited = {name: value for name, value in os.environ.items() if name not in known}
    return {**inherited, **SETTINGS[setting], "OMP_NUM_THREADS": str(threads)}


def run(suite: str, setting: str, threads: int) -> tuple[bool, str, str]:
    """Whether a suite passes, pytest's last line, and all that it said."""
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider"]
    with tempfile.TemporaryFile("w+") as out:
        done = subprocess.run(
            [*command, *SUITES[suite]],
            cwd=ROOT,
            env=environment(setting, threads),
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        out.seek(0)
        told = out.read()
    return done.returncode == 0, (told.strip().splitlines() or ["nothing"])[-1], told


def main() -> int:
    """Print a line for each setting as it is done; 1 if anything failed."""
    parser = argparse.ArgumentParser(
        description=str(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=", ".join(SETTINGS))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", choices=SUITES, help="one of the suites")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.settings if name not in SETTINGS]
    if unknown:
        parser.error(f"no setting {unknown[0]!r}: there are {', '.join(SETTINGS)}")
    suites = [arguments.only] if arguments.only else list(SUITES)
    chosen = arguments.settings or list(SETTINGS)
    print(f"{len(chosen) * len(arguments.threads) * len(suites)} runs, minutes each", flush=True)
    failed = []
    for setting in chosen:
        for threads in arguments.threads:
            for suite in suites:
                started = time.perf_counter()
                passed, last, told = run(suite, setting, threads)
                seconds = time.perf_counter() - started
                name = f"{setting}, {threads} thread{'s' * (threads > 1)}, {suite}"
                print(f"{'passed' if passed else 'FAILED'}  {name:36} {seconds:5.0f} s  {last}")
                sys.stdout.flush()
                if not passed:
                    failed.append(name)
                    print(told, file=sys.stderr)
    print("All passed." if not failed else f"{len(failed)} failed: {'; '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
