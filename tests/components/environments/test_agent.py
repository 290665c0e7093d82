"""Problems of a file that a program plays, as a configuration alone names them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.environments.base import NO_TOOLS
from components.environments.family import Family
from components.environments.program import AgentBox
from components.environments.registry import family, family_options, source_of
from components.errors import ConfigurationError
from components.identity import canonical_json
from components.rewards.base import Rubric
from components.schema import Execution, ExecutionResult, ProgramEnd

JUDGE = "def judge(problem, end):\n    return end.files.get('answer.txt') == str(problem['answer'])\n"
CHECK = "import json, sys\ntold = json.load(sys.stdin)\nprint('scored')\nprint(told['problem']['answer'] / 100)\n"


class OneTool:
    """Tools whose sandbox answers one program."""

    def __init__(self, stdout: str, exit_code: int = 0) -> None:
        self.stdout, self.exit_code, self.asked = stdout, exit_code, list[Execution]()

    def run(self, execution: Execution) -> ExecutionResult:
        self.asked.append(execution)
        return ExecutionResult(
            status="ok", stdout=self.stdout, stderr="", exit_code=self.exit_code, wall_seconds=0.0, cpu_seconds=0.0
        )

    def retrieve(self, query: Any) -> Any:
        raise AssertionError(query)

    def prepare(self, calls: Any) -> None:
        """Nothing is prepared."""


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The options of forty problems in the current folder."""
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"{n} + 1", "answer": n + 1, "files": {"data.txt": f"{n}\n"}} for n in range(40)]
    Path("problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("own_judge.py").write_text(JUDGE)
    Path("check.py").write_text(CHECK)
    Path("agent.py").write_text("print('hello')\n")
    return {
        "problems": {"path": "problems.jsonl"},
        "command": ["python", "agent.py"],
        "files": ["agent.py"],
        "outputs": ["answer.txt"],
        "volatile": ["took [0-9]+ s"],
        "judge": "own_judge:judge",
        "roles": ["clerk", "boss"],
    }


def draw_both(options: dict[str, Any]) -> None:
    settings = family_options("agent", options)
    family("agent").problem(settings, split="train", index=0, seed=0)
    family("agent").problem(settings, split="test", index=0, seed=0)


def finish(agent: Family, problem: Any, end: ProgramEnd, tools: Any = NO_TOOLS) -> tuple[float, bool]:
    """The reward of a program's end, and whether the problem is solved."""
    referee = agent.referee(tools)
    last, position = referee.act(referee.start(problem), "clerk", "whatever")
    outcome, position = referee.finish(position, "clerk", last, end)
    return Rubric(weights=agent.default_weights, team_weight=1.0).reward(outcome), position.is_solved


def test_each_row_is_a_problem_of_one_split(options: dict[str, Any]) -> None:
    settings = family_options("agent", options)
    agent = family("agent").under(settings)
    assert agent.roles == ("clerk", "boss")
    seen = {
        split: {agent.problem(settings, split=split, index=i, seed=0).payload["problem"]["question"] for i in range(40)}  # type: ignore[arg-type]
        for split in ("train", "test")
    }
    assert len(seen["train"] | seen["test"]) == 40
    assert not seen["train"] & seen["test"]
    assert 3 <= len(seen["test"]) <= 16


def test_a_program_sees_the_problem_without_what_is_hidden(options: dict[str, Any]) -> None:
    settings = family_options("agent", options)
    problem = family("agent").problem(settings, split="train", index=0, seed=0)
    program = family("agent").rules.program(problem)
    assert program is not None
    assert (program.command, program.outputs) == (("python", "agent.py"), ("answer.txt",))
    assert program.volatile == ("took [0-9]+ s",)
    assert program.shown == {"question": problem.payload["problem"]["question"]}
    assert program.box is None
    boxed = family_options("agent", {**options, "box": {"reads": ["/opt/x"], "memory_mib": 100}})
    in_box = family("agent").rules.program(family("agent").problem(boxed, split="train", index=0, seed=0))
    assert in_box is not None
    assert in_box.box == AgentBox(reads=("/opt/x",), memory_mib=100)
    assert program.files == {"agent.py": "print('hello')\n", "data.txt": f"{program.shown['question'].split()[0]}\n"}


def test_a_judge_scores_how_a_program_ended(options: dict[str, Any]) -> None:
    settings = family_options("agent", options)
    agent = family("agent").under(settings)
    problem = agent.problem(settings, split="train", index=0, seed=0)
    right = {"answer.txt": str(problem.payload["problem"]["answer"])}
    assert finish(agent, problem, ProgramEnd(exit_code=0, output="", files=right)) == (1.0, True)
    assert finish(agent, problem, ProgramEnd(exit_code=0, output="", files={})) == (0.0, False)


@pytest.mark.parametrize(
    ("stdout", "exit_code", "expected"),
    [
        ("scored\n0.25\n", 0, (0.25, False)),
        ("1", 0, (1.0, True)),
        ("1", 1, (0.0, False)),
        ("nan", 0, (0.0, False)),
        ("1 of 3", 0, (3.0, True)),
        ("right", 0, (0.0, False)),
        ("", 0, (0.0, False)),
    ],
)
def test_a_check_in_the_sandbox_scores_it(
    options: dict[str, Any], stdout: str, exit_code: int, expected: tuple[float, bool]
) -> None:
    settings = family_options("agent", {**options, "judge": "", "check": "check.py"})
    agent, tools = family("agent").under(settings), OneTool(stdout, exit_code)
    problem = agent.problem(settings, split="train", index=0, seed=0)
    end = ProgramEnd(exit_code=3, output="said", files={"answer.txt": "5"})
    assert finish(agent, problem, end, tools) == expected
    (asked,) = tools.asked
    assert asked.program == CHECK
    told = {"problem": problem.payload["problem"], "exit_code": 3, "output": "said", "files": {"answer.txt": "5"}}
    assert json.loads(asked.stdin) == told
    assert agent.uses_sandbox(settings)


@pytest.mark.parametrize("name", ["agent.py", "check.py"])
def test_a_changed_file_is_another_source(options: dict[str, Any], name: str) -> None:
    options = {**options, "judge": "", "check": "check.py"}
    before = source_of("agent", options)
    Path(name).write_text(Path(name).read_text() + "\n")
    assert source_of("agent", options) != before


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"function": "a:b"}, "command, function: name one of the two"),
        ({"command": []}, "command, function: name one of the two"),
        ({"check": "check.py"}, "judge, check: name one of the two"),
        ({"judge": ""}, "judge, check: name one of the two"),
        ({"files": ["absent.py"]}, "files 'absent.py': No such file"),
        ({"files": ["../x"]}, "files '../x': is outside of"),
        ({"files": ["big.txt"]}, "files 'big.txt': 300000 bytes; at most 262144"),
        ({"files": ["binary"]}, "files 'binary': not UTF-8"),
        ({"judge": "own_judge:absent"}, "judge 'own_judge:absent': .*has no 'absent'"),
        ({"judge": "own_judge"}, "judge 'own_judge'"),
        ({"problems": {"path": "absent.jsonl"}}, "problems.path 'absent.jsonl'"),
        ({"problems": {"path": "one.jsonl"}}, "no problem is left for the t.* split of 1"),
        ({"comand": []}, "environment.options.comand: unknown key"),
        ({"seconds": 0}, "environment.options.seconds"),
        ({"seconds": float("inf")}, "environment.options.seconds: Input should be a finite number"),
        ({"hidden": ["anwser"]}, "hidden 'anwser': no problem has this key; did you mean 'answer'"),
        ({"volatile": ["took (", "x"]}, r"volatile: 'took \(' is no regular expression \(.*mend it"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], changes: dict[str, Any], says: str) -> None:
    Path("big.txt").write_text("x" * 300_000)
    Path("binary").write_bytes(b"\xff\xfe")
    Path("one.jsonl").write_text('{"question": "alone"}\n')
    with pytest.raises(ConfigurationError, match=says):
        draw_both({**options, **changes})


@pytest.mark.parametrize("gives", ["'right'", "float('nan')", "None", "1 / 0"])
def test_a_judge_that_gives_no_score_is_named(options: dict[str, Any], gives: str) -> None:
    name = f"judge_{len(gives)}"
    Path(f"{name}.py").write_text(f"def judge(problem, end):\n    return {gives}\n")
    settings = family_options("agent", {**options, "judge": f"{name}:judge"})
    agent = family("agent").under(settings)
    problem = agent.problem(settings, split="train", index=0, seed=0)
    with pytest.raises(ConfigurationError, match=re.escape(f"judge '{name}:judge'")):
        finish(agent, problem, ProgramEnd(exit_code=0, output="", files={}))


def test_equal_problems_have_equal_names(options: dict[str, Any]) -> None:
    settings = family_options("agent", options)
    first, second = (family("agent").problem(settings, split="train", index=0, seed=0) for _ in range(2))
    assert first.problem_id == second.problem_id
    assert canonical_json(first.payload) == canonical_json(second.payload)
