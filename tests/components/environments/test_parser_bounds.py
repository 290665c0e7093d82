"""No answer, however long and however meant, costs its reader more than half a second of CPU or 256 MiB.

Each family, each role: what the answer announces, what it does, what is shown of it afterwards.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from components.environments.base import MAX_ANSWER_CHARACTERS, ToolCall
from components.environments.play import Playthrough
from components.environments.registry import family, family_options
from components.schema import Execution, ExecutionResult, Passage, Query
from tests.components.environments.hostile import all_texts, near_values, nests, simple_texts
from tests.components.environments.social.games import ALONE
from tests.components.sandbox.scripted import make_printed
from tests.costs import Piece, assert_cheap

OPTIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "plan_path": ({}, {"tool": "python", "max_program_characters": 20_000}),
    "sokoban": ({}, {"tool": "python", "max_program_characters": 20_000}),
    "code": (
        {"kinds": ["stdin"], "max_answer_characters": 100_000},
        {"kinds": ["function"], "max_answer_characters": 100_000},
    ),
    "math": ({}, {"prose": True, "max_program_characters": 20_000, "max_answer_characters": 400}),
    "search": ({}, {"level": 2}),
}
"""The options under which a family reads the most, beside its defaults."""
SEATS = [
    pytest.param(name, options, role, id=f"{name}-{number}-{role}")
    for name in ALONE
    for number, options in enumerate(OPTIONS.get(name, ({},)))
    for role in family(name).roles
]
PASSAGE = Passage(title="a the " * 1000, text="the a an b " * 9000, score=1.0)


class AnyTools:
    """The world outside an environment: every program prints `stdout`, every query finds long passages."""

    def __init__(self, stdout: str = "1\n") -> None:
        self.stdout = stdout

    def run(self, execution: Execution) -> ExecutionResult:
        return make_printed(self.stdout)

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        return (PASSAGE,) * query.num_passages

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        """Nothing is announced that was not asked."""


def playing(name: str, options: Mapping[str, Any], tools: AnyTools) -> Playthrough:
    """An environment of this family in its first state."""
    chosen = family_options(name, options)
    return family(name).build(family(name).problem(chosen, split="train", index=0, seed=1), tools)


def reading(env: Playthrough, role: str) -> Callable[[str], None]:
    """All that reads an answer of `role`, from one state."""
    before = env.position

    def read(text: str) -> None:
        env.position = before
        env.referee.calls(env.position, role, text)
        outcome = env.apply(role, text)
        assert outcome.error is None or len(outcome.error) < 100_000
        for agent in env.roles:
            env.observe(agent)
        env.render(color=False)

    return read


def lengths(name: str, options: Mapping[str, Any]) -> list[int]:
    """What is read of an answer at most, and what the family's own bounds let through."""
    own = family(name).max_action_characters(family_options(name, options))
    inner = {"code": [100_000, 19_000], "math": [20_000, 400]}.get(name, [4 * own])
    return sorted({MAX_ANSWER_CHARACTERS, own, *inner}, reverse=True)


def pieces(read: Callable[[str], None], texts: Iterator[str] | Sequence[str]) -> Iterator[Piece]:
    for text in texts:
        yield f"{len(text)} characters {text[:40]!r}...{text[-8:]!r}", lambda text=text: read(text)  # type: ignore[misc]


@pytest.mark.parametrize(("name", "options", "role"), SEATS)
def test_every_parser_reads_hostile_answers_cheaply(name: str, options: Mapping[str, Any], role: str) -> None:
    read = reading(playing(name, options, AnyTools()), role)
    turn = [each.values for each in SEATS].index((name, options, role))  # what one seat leaves out the next ones read
    longest, *shorter = lengths(name, options)
    texts = (
        *all_texts(longest, 61, turn),
        *(text for number in shorter for text in all_texts(number, 23, turn + number)),  # with each unit at least once
        *(text for number in (longest, *shorter[:1]) for make in (nests, near_values) for text in make(number)),
    )
    assert_cheap(pieces(read, texts))


@pytest.mark.parametrize(("name", "options", "role"), SEATS)
def test_an_answer_beyond_all_bounds_is_malformed_by_name(name: str, options: Mapping[str, Any], role: str) -> None:
    env = playing(name, options, AnyTools())
    before = env.position.state
    text = "a" * (MAX_ANSWER_CHARACTERS + 1)
    assert env.referee.calls(env.position, role, text) == ()
    error = env.apply(role, text).error
    assert error == f"an answer of {MAX_ANSWER_CHARACTERS + 1} characters; at most {MAX_ANSWER_CHARACTERS} are read"
    assert type(env.position.state) is type(before)


PROGRAMS = {
    "plan_path": ({"tool": "python"}, "tool_agent", "print(1)"),
    "sokoban": ({"tool": "python"}, "tool_agent", "print(1)"),
    "math": ({"prose": True}, "tool_agent", "```python\nprint(1)\n```"),
    "code": ({"kinds": ["stdin"]}, "coder", "print(1)"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_programs_print_is_read_cheaply(name: str) -> None:
    options, role, program = PROGRAMS[name]
    tools = AnyTools()
    read = reading(playing(name, options, tools), role)

    def printing(text: str) -> None:
        tools.stdout = text
        read(program)

    longest = (4 << 20) // 16  # of the longest output that a box may give, for all of a problem's cases together
    last_lines = (f"so\n{text}" for number in (400, 4096) for text in simple_texts(number, 3))
    assert_cheap(pieces(printing, itertools.chain(simple_texts(longest, 6), last_lines)))
