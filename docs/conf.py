"""The documentation site. `make docs` builds it; a warning ends the build."""

import tomllib
from pathlib import Path

project = "Troupe"
author = "the Troupe contributors"
copyright = "the Troupe contributors, Apache License 2.0"
release = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["version"]
extensions = ["myst_parser"]
exclude_patterns = ["_build", "skills"]  # skills are read in the repository
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
nitpicky = True
smartquotes = False
html_theme = "furo"
html_title = "Troupe"
html_copy_source = False
html_show_sphinx = False
