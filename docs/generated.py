"""Writes the generated pages and parts of pages: `make pages`. A test holds them equal to the code and the measured rows.

A part stands in its page between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

import multi_model_table  # noqa: E402
import petting_table  # noqa: E402
import reference_pages  # noqa: E402
import results_tables  # noqa: E402

PART = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
PARTS: Mapping[str, Callable[[], str]] = {
    "petting keys": petting_table.table,
    "multi model fields": multi_model_table.table,
    **results_tables.TABLES,
}


def fill_parts(page: str) -> str:
    """The page with its parts as they are today. Raises KeyError for a part that nothing generates."""
    return PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n\n", page)


if __name__ == "__main__":
    reference_pages.write()
    for file in DOCS.glob("*.md"):
        file.write_text(fill_parts(file.read_text(encoding="utf-8")), encoding="utf-8")
