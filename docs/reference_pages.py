"""The pages that are generated as a whole. `make pages` writes them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import configuration_reference
import preset_table

FOLDER = Path(__file__).resolve().parent
_MARK = "<!-- `make pages` writes this page. -->"


def presets() -> str:
    """Each preset with what it trains, its minutes and its hardware."""
    return (
        "# Presets\n\nTrain one with `troupe train` and its name. `troupe presets` prints this list, with the presets of the "
        "`prefect.yaml` in the\ncurrent folder first. `make smollm` installs the weights for the presets named after SmolLM2, "
        f"`make extras` Ray for `plan-path-ray`.\n\n{preset_table.tables()}\n"
    )


def configuration_fields() -> str:
    """Each field of a configuration with its type, bounds, default and documentation."""
    return (
        "# Configuration fields\n\n[Configuration](configuration.md) explains how to set a field. `ROLE` and `POLICY` stand "
        'for names of your own. "Nothing" is\n`null` in YAML. Fields that say "affects results" change how results are rounded.\n'
        "Some sections are one of several variants: a field that only some of them have says with which it goes."
        f"\n\n{configuration_reference.reference()}\n"
    )


PAGES: Mapping[str, Callable[[], str]] = {"presets.md": presets, "configuration_fields.md": configuration_fields}


def page(name: str) -> str:
    """The text of a page."""
    return f"{_MARK}\n{PAGES[name]()}"


def write() -> None:
    """Write all pages."""
    for name in PAGES:
        (FOLDER / name).write_text(page(name))
