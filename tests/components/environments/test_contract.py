"""The built-in environments keep the public contract that an environment of one's own is checked by."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from components.environments.base import AnswerFormat, Retriever
from components.environments.registry import family, family_options
from components.schema import Execution, ExecutionResult, Passage, Query
from tests.components.environments.code.conftest import HostTools
from tests.components.environments.social.games import ALONE
from tests.components.environments.test_prompts_of_splits import EVERY
from troupe.testing import check_environment

PYTHON = {"tool": "python", "max_program_characters": 400}
SMALL = [
    *EVERY,
    ("plan_path", {**PYTHON, "size": 4, "min_distance": 2, "max_distance": 6, "max_moves": 6}),
    ("sokoban", {**PYTHON, "size": 5, "min_distance": 3, "max_distance": 8, "max_moves": 8}),
    ("sudoku", {**PYTHON, "size": 4, "num_blanks": 4}),
]
MODES: Sequence[AnswerFormat] = ("strict", "free")
CHECKED = [(name, options, MODES[number % 2]) for number, (name, options) in enumerate(SMALL)]


class OwnTools(HostTools):
    """Programs run in this process, each call once; queries are answered by the environment's own retriever."""

    def __init__(self, retriever: Retriever | None) -> None:
        super().__init__()
        self.retriever = retriever
        self.results: dict[tuple[str, str], ExecutionResult] = {}

    def run(self, execution: Execution) -> ExecutionResult:
        call = execution.program, execution.stdin
        if call not in self.results:
            self.results[call] = super().run(execution)
        return self.results[call]

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        assert self.retriever is not None, query
        return self.retriever.search(query)


@pytest.mark.parametrize(
    ("name", "options", "answer_format"), CHECKED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_built_in_environment_keeps_the_contract(
    name: str, options: Mapping[str, Any], answer_format: AnswerFormat
) -> None:
    chosen = family(name)
    tools = OwnTools(chosen.retriever(family_options(name, options)))
    environment, max_turns = type(chosen.environment), 4 if name == "search" else 2
    check_environment(
        environment, options, num_problems=2, max_turns=max_turns, answer_format=answer_format, tools=tools
    )
    assert bool(tools.ran) == chosen.uses_sandbox(family_options(name, options))


def test_every_built_in_environment_is_checked() -> None:
    assert {name for name, _, _ in CHECKED} == set(ALONE)


def test_problems_experts_and_corpora_do_not_depend_on_the_hash_seed_of_the_process() -> None:
    program = (
        "from components.environments.registry import family, family_options\n"
        f"for name, options in {SMALL!r}:\n"
        "    f, o = family(name), family_options(name, options)\n"
        "    retriever = f.retriever(o)\n"
        "    for i in range(2):\n"
        "        p = f.problem(o, split='test', index=i, seed=5)\n"
        "        print(p, repr(f.expert_action(f.build(p).position, f.roles[0])), retriever and retriever.digest)"
    )
    command = [sys.executable, "-c", program]
    env = {**os.environ, "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    told = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
    with redirect_stdout(StringIO()) as here:
        exec(program, {})
    assert len(told.splitlines()) == 2 * len(SMALL)
    assert told == here.getvalue()
