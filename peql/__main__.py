"""``python -m peql`` is the command ``peql``."""

import sys

from .cli import main

if __name__ == "__main__":  # a process pool imports this module again
    sys.exit(main())
