"""What the book asks of Sphinx beyond ``_config.yml``."""

import os
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """Load MathJax on every page, and give the chapters' kernels the surroundings of the tests."""
    app.set_html_assets_policy("always")  # a sidebar shows TeX on pages without equations too
    os.environ["TQDM_DISABLE"] = "1"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.pop("MPLBACKEND", None)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
