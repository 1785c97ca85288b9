"""The command line: each subcommand is a module of this room with ``add_parser``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from .. import __version__

# Each offers add_parser(subparsers), which registers it with the function from the parsed arguments
# to the exit code.
COMMANDS = ("fit", "predict", "sweep", "table")


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    made = argparse.ArgumentParser(
        prog="peql", description="Discover equations whose coefficients vary."
    )
    made.add_argument("--version", action="version", version=f"peql {__version__}")
    made.add_argument(
        "--traceback", action="store_true", help="show where an error arose, not only what it says"
    )
    subparsers = made.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f"peql.cli.{name}").add_parser(subparsers)
    return made


def subcommand(
    subparsers: Any,
    name: str,
    does: str,
    run: Callable[[argparse.Namespace], int],
    *,
    epilog: str,
    formatter: Any = argparse.RawDescriptionHelpFormatter,
) -> argparse.ArgumentParser:
    """The parser of a subcommand that runs ``run``; its help ends with ``epilog``."""
    made = subparsers.add_parser(
        name,
        help=does,
        description=f"{does[0].upper()}{does[1:]}.",
        epilog=epilog,
        formatter_class=formatter,
    )
    made.set_defaults(run=run)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code.

    0 is done, 1 is done in part (some run failed, say), 2 is not started for bad input, and 130
    is interrupted.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    parsed = parser().parse_args(given)
    parsed.command_line = shlex.join(["peql", *given])
    try:
        return parsed.run(parsed)
    except KeyboardInterrupt:
        print("peql: interrupted", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError) as error:
        if parsed.traceback:
            raise
        print(f"peql: {error}", file=sys.stderr)
        return 2
