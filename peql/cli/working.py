"""A command at work: it says what is going on, and what it writes is new and appears whole."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

PULSE = 15  # seconds after which a step that still runs says so again


def check_writable(out: Path) -> None:
    """Raise unless ``out`` is new and can be made: before the work, not after it."""
    if out.exists() or out.is_symlink():
        raise FileExistsError(f"{out} exists: name another with --out, or remove it")
    folder = out.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{out}: there is no folder {folder}; make it first")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{out.name}.", suffix=".part"):
            pass
    except OSError as error:
        raise OSError(f"{out}: cannot write into {folder} ({error.strerror})") from None


def printable(text: str) -> str:
    """Replace control characters: names and notes come from the reader's file."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _say(line: str) -> None:
    tqdm.write(printable(line), file=sys.stderr)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Say what is going on, and again every ``PULSE`` seconds while it is."""
    _say(f"{name} …")
    started, done = time.perf_counter(), threading.Event()

    def pulse() -> None:
        while not done.wait(PULSE):
            _say(f"  still {name}, {time.perf_counter() - started:.0f} s")

    thread = threading.Thread(target=pulse, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def told(notes: list[str]) -> Iterator[None]:
    """Say the ``notes`` that were taken, also if they ended in an error, which they may explain."""
    try:
        yield
    finally:
        for note in notes:
            _say(f"note: {note}")


@contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    """Print each warning once, without the line of code, and add it to ``notes``."""
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as warned:
        yield
    for warning in dict.fromkeys(str(each.message) for each in warned):
        notes.append(warning)
        _say(f"note: {warning}")


@contextmanager
def made_whole(out: Path) -> Iterator[Path]:
    """A folder to fill that becomes ``out`` in the end, or nothing if the work fails."""
    folder = out.absolute().parent
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".part", dir=folder))
    try:
        yield part
        part.chmod(0o755)
        try:
            part.rename(out)
        except OSError as error:  # someone else made it meanwhile: the work is not to be lost
            other = Path(tempfile.mkdtemp(prefix=f"{out.name}-", dir=folder))
            part.rename(other)
            raise FileExistsError(f"{out} appeared meanwhile; the result is in {other}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
