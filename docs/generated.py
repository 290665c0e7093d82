"""The parts of pages that are generated when the site is built; run as a program, it writes the pages of reference_pages.py.

`<!-- generated: NAME -->` in a page is replaced by one, with the lines right below it, which say to readers of the file itself
where to find the part.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import multi_model_table
import petting_table
import reference_pages
import results_tables

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(r"^<!-- generated: ([a-z ]+) -->(?:\n.+)*$", re.MULTILINE)


def security() -> str:
    """The security page of `infra/`, with how to report from the checkout's own."""
    page = (ROOT / "infra" / "SECURITY.md").read_text(encoding="utf-8").partition("## Reporting")[0]
    reporting = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("**Reporting.** ")[2]
    assert reporting, "SECURITY.md says nothing of reporting"
    return f"{page}## Reporting\n\n{reporting}"


PARTS: Mapping[str, Callable[[], str]] = {
    "security": security,
    "petting keys": petting_table.table,
    "multi model fields": multi_model_table.table,
    **results_tables.TABLES,
}


def filled_in(text: str) -> str:
    """The page with its generated parts. Raises KeyError for a name that nothing generates."""
    return MARK.sub(lambda found: PARTS[found[1]](), text)


if __name__ == "__main__":
    reference_pages.write()
