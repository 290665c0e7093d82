"""The tool agent as a programmer: programs in a real sandbox, what they print, and how they fail."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from components.environments.base import Tools
from components.environments.family import Family
from components.environments.games.python_tool import ProgramFailed, printing_program, read_printed_moves
from components.environments.play import Playthrough
from components.environments.registry import family, family_options
from components.environments.shared.text import PRINTABLE
from components.errors import ConfigurationError, ExecutionFailed
from components.schema import Execution, ExecutionResult, Limits
from components.tool_calls.ledger import ExecutionLedger, ToolSources
from tests.components.sandbox.scripted import ScriptedSandbox, make_printed, sandbox_failed

TOOL, PLAN = "tool_agent", "plan_agent"
WRITERS = ("plan_path", "sokoban", "sudoku", "blocksworld", "eight_queens")
PROBLEM_IDS = {
    "plan_path": ("plan_path-f73c9ba90248", "plan_path-2fd29210d0b1", "plan_path-f0fdc4fe78f9"),
    "sokoban": ("sokoban-2997f557f8d2", "sokoban-2308d51bd0e3", "sokoban-6168a77c560a"),
    "sudoku": ("sudoku-cdadb61cd250", "sudoku-a66d24b04f4d", "sudoku-88439befe1ac"),
}
"""Of the first training problems at seed 0 as they were before tool agents could write programs."""


def open_play(name: str, tools: Tools, index: int = 0, **options: Any) -> tuple[Family, Playthrough]:
    chosen = family(name)
    checked = family_options(name, {"tool": "python", **options})
    return chosen, chosen.build(chosen.problem(checked, split="train", index=index, seed=0), tools)


def make_ledger(respond: Callable[[str, str], ExecutionResult]) -> ExecutionLedger:
    sandbox = ScriptedSandbox(respond)
    return ExecutionLedger(ToolSources(sandbox=lambda: sandbox, retriever=lambda: None, limits=Limits()))


NOTHING = make_ledger(lambda program, stdin: make_printed(""))


@pytest.mark.parametrize("name", sorted(PROBLEM_IDS))
def test_problems_of_moves_are_what_they_were(name: str) -> None:
    chosen = family(name)
    for options in ({}, {"tool": "moves"}):
        checked = family_options(name, options)
        problems = [chosen.problem(checked, split="train", index=index, seed=0) for index in range(3)]
        assert tuple(problem.problem_id for problem in problems) == PROBLEM_IDS[name]
        assert all("tool" not in problem.payload for problem in problems)
        assert not chosen.uses_sandbox(checked)


@pytest.mark.parametrize("name", WRITERS)
def test_the_option_changes_the_name_of_a_problem_and_nothing_else_of_its_board(name: str) -> None:
    chosen = family(name)
    moves = chosen.problem(family_options(name, {}), split="test", index=2, seed=3)
    python = chosen.problem(family_options(name, {"tool": "python"}), split="test", index=2, seed=3)
    assert python.payload == {**moves.payload, "tool": "python", "max_program_characters": 1000}
    assert python.problem_id != moves.problem_id
    assert chosen.uses_sandbox(family_options(name, {"tool": "python"}))


@pytest.mark.parametrize("name", WRITERS)
def test_the_experts_programs_solve_in_a_real_sandbox(name: str, sandbox_tools: Tools) -> None:
    for index in range(2):
        chosen, env = open_play(name, sandbox_tools, index)
        program = chosen.expert_action(env.position, TOOL)
        assert env.referee.calls(env.position, PLAN, program) == ()
        sandbox_tools.prepare(env.referee.calls(env.position, TOOL, program))
        outcome = env.apply(TOOL, program)
        assert (outcome.error, outcome.solves, outcome.done) == (None, True, False)
        assert env.observe(PLAN).state.endswith("y>")
        assert env.apply(PLAN, chosen.expert_action(env.position, PLAN)).done


def test_the_search_program_solves_from_what_it_reads_also_after_moves(sandbox_tools: Tools) -> None:
    chosen, env = open_play("plan_path", sandbox_tools, size=7, max_distance=12, max_moves=12)
    program = chosen.expert_action(env.position, TOOL)
    assert "json.load(sys.stdin)" in program
    env.position = chosen.scramble(env.position, Random(0), env.referee.tools)
    assert chosen.expert_action(env.position, TOOL) == program
    assert env.apply(TOOL, f"Here it is:\n```python\n{program}```\n").solves


def test_the_expert_prints_its_list_where_a_search_is_too_long() -> None:
    chosen, env = open_play("plan_path", NOTHING, max_program_characters=80)
    moves = chosen.expert_action(env.position, PLAN)
    assert chosen.expert_action(env.position, TOOL) == f"print('\"{moves}\"')"


@pytest.mark.parametrize(
    ("program", "mark", "reason"),
    [
        ('print(\'["U", "D"]\')', "n", None),
        ("print('thinking...')\nprint('\"\"')\n\n", "n", None),
        ("print('[\"UD\"]')", "n", None),
        ("1 / 0", "x", "nonzero_exit: ZeroDivisionError: division by zero"),
        ("import sys; sys.exit('\\x1b[2J\\x07 gone')", "x", "nonzero_exit: ?[2J? gone"),
        ("print('U' * 100_000)", "o", "output_limit"),
        ("x = 1", "j", "the last line of the output: '' is not JSON"),
        ("print('UD')", "j", "'UD' is not JSON"),
        ("print(['U'])", "j", "is not JSON"),
        ("print('[1]')", "j", "is no list of moves"),
        ("print('{\"moves\": 1}')", "j", "is no list of moves"),
        ("print('[[\"U\"]]')", "j", "nested deeper than 1"),
        ("print('\"' + 'U' * 5000 + '\"')", "j", "5002 characters; at most 4096"),
        ("print('[\"north\"]')", "!", "'north' is not a list of moves from UDLR"),
        ("print('\"UUUUUUUUUUU\"')", "!", "11 moves; at most 10"),
        ("x" * 1001, "!", "a program of 1001 characters; at most 1000"),
        ("", "!", "no program"),
        ("'\ud800'", "!", "surrogates not allowed"),
    ],
)
def test_what_programs_print_and_how_they_fail(
    program: str, mark: str, reason: str | None, sandbox_tools: Tools
) -> None:
    _, env = open_play("plan_path", sandbox_tools)
    widths = [len(env.observe(role).state) for role in env.roles]
    board = env.observe(TOOL)
    outcome = env.apply(TOOL, program)
    assert (reason is None) == (outcome.error is None)
    if reason is not None:
        assert reason in str(outcome.error)
        assert outcome.local == {"clean": 0.0, "malformed": 1.0}
        assert outcome.team == {"solved": 0.0, "progress": 0.0}
    assert env.observe(PLAN).state.endswith(f"{mark}>")
    assert [len(env.observe(role).state) for role in env.roles] == widths
    assert env.observe(TOOL) == board


@pytest.mark.parametrize(
    ("status", "mark"),
    [("wall_timeout", "t"), ("cpu_timeout", "t"), ("memory", "m"), ("output_limit", "o"), ("process_limit", "p")],
)
def test_every_limit_has_a_mark_and_is_named(status: Any, mark: str) -> None:
    result = replace(make_printed('"U"'), status=status, detail="it did too much")
    _, env = open_play("plan_path", make_ledger(lambda program, stdin: result))
    assert env.apply(TOOL, "print(1)").error == f"the program ended with {status}: it did too much"
    assert env.observe(PLAN).state.endswith(f"{mark}>")


def test_what_will_be_asked_is_announced_and_equal_work_is_equal_text() -> None:
    asked: list[tuple[str, str]] = []

    def respond(program: str, stdin: str) -> ExecutionResult:
        asked.append((program, stdin))
        return make_printed('"UD"')

    _, env = open_play("plan_path", make_ledger(respond))
    for answer in ("print(1)", "print(1)\n\n", "```python\nprint(1)\n```"):
        [execution] = env.referee.calls(env.position, TOOL, answer)
        assert execution == Execution(program="print(1)\n", stdin=execution.stdin)
        env.apply(TOOL, answer)
    assert asked == [("print(1)\n", execution.stdin)]
    assert {*json.loads(execution.stdin)} == {"rows", "position", "goal", "max_moves"}
    assert env.referee.calls(env.position, TOOL, "x" * 2000) == env.referee.calls(env.position, TOOL, "\ud800") == ()


def test_a_failing_sandbox_says_nothing_about_the_program_and_changes_nothing() -> None:
    _, env = open_play("plan_path", make_ledger(lambda program, stdin: sandbox_failed("no box")))
    env.apply(TOOL, "x" * 2000)
    before, rewards = env.position, (env.team_reward, env.local_reward(TOOL))
    with pytest.raises(ExecutionFailed, match="no box"):
        env.apply(TOOL, "print(1)")
    assert env.position == before
    assert (env.team_reward, env.local_reward(TOOL)) == rewards


def test_without_tools_a_program_is_a_mistake_of_who_built_the_environment() -> None:
    chosen = family("plan_path")
    env = chosen.build(chosen.problem(family_options("plan_path", {"tool": "python"}), split="train", index=0, seed=0))
    with pytest.raises(ConfigurationError, match="runs programs"):
        env.apply(TOOL, "print(1)")


def test_a_solved_puzzle_runs_no_program() -> None:
    chosen, env = open_play("plan_path", make_ledger(lambda program, stdin: sandbox_failed("no box")))
    env.apply(PLAN, chosen.expert_action(env.position, PLAN))
    assert env.referee.calls(env.position, TOOL, "print(1)") == ()
    assert env.apply(TOOL, "print(1)").error == "the episode is over: the puzzle is solved"


@pytest.mark.parametrize("name", WRITERS)
def test_the_plan_agent_writes_moves_as_before_and_the_tool_agent_is_told_of_programs(name: str) -> None:
    chosen, env = open_play(name, NOTHING)
    other = chosen.build(chosen.problem(family_options(name, {}), split="train", index=0, seed=0))
    assert env.observe(PLAN).state == other.observe(PLAN).state
    assert env.observe(TOOL).state == other.observe(TOOL).state
    assert other.observe(PLAN).instructions.splitlines()[1:] == env.observe(PLAN).instructions.splitlines()[1:]
    told = env.observe(TOOL).instructions
    assert "at most 1000" in told
    assert "Its standard input is JSON" in told
    assert "Answer with" not in told
    stdin = json.loads(env.referee.calls(env.position, TOOL, "print(1)")[0].stdin)
    assert all(f'"{key}"' in told for key in stdin)


@pytest.mark.parametrize("name", WRITERS)
def test_the_example_program_runs_and_solves_nothing(name: str, sandbox_tools: Tools) -> None:
    for index in range(2):
        chosen, env = open_play(name, sandbox_tools, index)
        example = chosen and env.observe(TOOL).instructions.rpartition("Example: ")[2].partition(" proposes")[0]
        for _ in range(3):
            outcome = env.apply(TOOL, example)
            assert not outcome.solves
            assert outcome.error is None or "cannot be" in outcome.error


@pytest.mark.parametrize("name", WRITERS)
def test_demonstrations_are_programs_in_the_alphabet_and_within_the_limit(name: str) -> None:
    ran: list[str] = []

    def respond(program: str, stdin: str) -> ExecutionResult:
        ran.append(program)
        assert program.startswith("print('")
        return make_printed(program.removeprefix("print('").rpartition("')")[0])

    options = family_options(name, {"tool": "python"})
    rng = Random(0)
    for index in range(4):
        chosen, env = open_play(name, make_ledger(respond), index)
        assert chosen.alphabet(options) == PRINTABLE
        assert {*chosen.expert_action(env.position, TOOL)} <= {*PRINTABLE}
        for answer in (
            chosen.noisy_expert_action(env.position, TOOL, noise=0.5, rng=rng),
            chosen.random_action(env.position, TOOL, rng),
        ):
            assert env.apply(TOOL, answer).error is None
            assert len(answer) <= chosen.max_action_characters(options) == 1000
        assert env.apply(PLAN, chosen.noisy_expert_action(env.position, PLAN, noise=0.5, rng=rng)).error is None
    assert len(ran) >= 4


def test_a_program_limit_without_programs_is_explained() -> None:
    with pytest.raises(ConfigurationError, match="max_program_characters is for tool python"):
        family_options("sokoban", {"max_program_characters": 200})
    with pytest.raises(ConfigurationError, match=r"environment\.options\.tool"):
        family_options("sokoban", {"tool": "pyhton"})


@pytest.mark.parametrize(
    ("name", "move"), [("plan_path", "U"), ("sudoku", "123"), ("blocksworld", "ab"), ("eight_queens", "11")]
)
def test_a_list_and_a_string_propose_the_same(name: str, move: str) -> None:
    chosen, env = open_play(name, NOTHING)
    as_list = env.position.state.game.parse(read_printed_moves(make_printed(f'["{move}", "{move}"]\n')))
    as_text = env.position.state.game.parse(read_printed_moves(make_printed(f'"{move} {move}"')))
    assert [*as_list] == [*as_text] == [move, move]
    assert chosen.name == name


def test_the_shortest_program_prints_json() -> None:
    assert printing_program("UD") == "print('\"UD\"')"
    with pytest.raises(ProgramFailed) as failed:
        read_printed_moves(make_printed("UD"))
    assert failed.value.mark == "j"


def test_boards_are_small_plain_json() -> None:
    boards: dict[str, Mapping[str, Any]] = {}
    for name in WRITERS:
        _, env = open_play(name, NOTHING)
        boards[name] = json.loads(env.referee.calls(env.position, TOOL, "print(1)")[0].stdin)
        assert len(env.referee.calls(env.position, TOOL, "print(1)")[0].stdin) < 400
    assert {*boards["sokoban"]} == {"rows", "player", "boxes", "goals", "max_moves"}
    assert {*boards["sudoku"]} == {"rows", "clues", "box", "max_placements"}
    assert boards["sudoku"]["box"] == [2, 2]
    assert {*boards["blocksworld"]} == {"towers", "goal", "max_moves"}
    assert {*boards["eight_queens"]} == {"columns", "given", "max_placements"}
