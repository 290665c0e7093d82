"""The documentation site. `make docs` builds it; a warning ends the build."""

import sys
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]  # the packages of this checkout, and the modules beside this file

from generated import filled_in  # noqa: E402

project = "Troupe"
author = "the Troupe contributors"
copyright = "the Troupe contributors, Apache License 2.0"
release = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
nitpicky = True
smartquotes = False
html_theme = "furo"
html_title = "Troupe"
html_copy_source = False
html_show_sphinx = False


def fill_in(app: Any, name: str, source: list[str]) -> None:
    source[0] = filled_in(source[0])


def setup(app: Any) -> None:
    app.connect("source-read", fill_in)
