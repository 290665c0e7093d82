"""Every regular expression takes linear time, also on texts that nearly match: pumped from the expression itself."""

import re
from collections.abc import Callable, Iterator

import pytest

from components.environments.games import parsing
from components.text import bounded_json
from flows.preflight.checks import imitates_bfloat16
from tests.costs import MAX_CPU_SECONDS, Piece, assert_cheap, cost_of
from tests.slow_regex_inputs import patterns_of, pump

PACKAGES = ("components.environments", "components.artifacts", "components.text.think_tags")
LENGTH = 8192
MOST_CPU_SECONDS = MAX_CPU_SECONDS / (2 if imitates_bfloat16() else 5)
"""More on the slower kinds of processor, which have no instructions for bfloat16."""
KEYS = "components.artifacts"
"""Its expressions are matched with whole keys of the store."""
AT_THE_START_ALONE = {
    # Matched from one place of a text, and so not quadratic where a search from every place is.
    "components.environments.code.layouts.humaneval._SEPARATOR",
    "components.environments.games.parsing._SENTENCE",
    "components.environments.math.numbers._SLASHED",
    "components.environments.math.numbers._STACKED",
    "components.environments.search.grammar.SEARCH",
    "components.environments.search.grammar.ANSWER",
}
MADE_ON_DEMAND = {
    "moves": parsing.patterns(f"[{parsing.MOVES}]", False)[0],
    "placements": parsing.patterns(f"[{parsing.SYMBOLS}]{{3}}", True)[0],
    "pairs": parsing.patterns("[abc][abc0]", False)[0],
    "strings": bounded_json._STRING,
}
FOUND = {name: pattern for package in PACKAGES for name, pattern in patterns_of(package)} | MADE_ON_DEMAND


def uses(name: str, pattern: re.Pattern[str], num_characters: int) -> Iterator[Piece]:
    """The ways in which a pattern is used, on each of its pumped texts."""
    at_the_start = name.partition("[")[0] in AT_THE_START_ALONE | MADE_ON_DEMAND.keys() - {"strings"} or KEYS in name
    # A search from every place begins with a match at the first.
    ways: list[Callable[[str], object]] = [pattern.fullmatch, pattern.match if at_the_start else pattern.findall]
    for text in pump(pattern, num_characters):
        for way in ways:
            yield f"{text[:40]!r}...{text[-3:]!r}", lambda way=way, text=text: way(text)  # type: ignore[misc]


def test_all_expressions_are_found() -> None:
    assert len(FOUND) > 45
    assert {name.partition("[")[0] for name in FOUND} >= AT_THE_START_ALONE


@pytest.mark.parametrize("name", FOUND)
def test_an_expression_takes_linear_time_on_what_nearly_matches(name: str) -> None:
    assert_cheap(uses(name, FOUND[name], LENGTH), most_cpu_seconds=MOST_CPU_SECONDS)


EXPONENTIAL = r"(?<=\d)(?:[\s~]*/?[\s~]*\\text\{[a-z]+\})+(?=[\s.]*$)"


@pytest.mark.parametrize("pattern", [EXPONENTIAL, r"\s+$", r"(?<=1)\s*\{?\s*2", r"<(.*?)>"])
def test_a_careless_expression_is_found_out(pattern: str) -> None:
    cost = cost_of(uses("careless", re.compile(pattern), 8 * LENGTH))
    assert cost.failed or cost.cpu_seconds > MAX_CPU_SECONDS, cost
