"""The contract of an environment: who keeps it passes, and each way to break it is told."""

import itertools
import random
import re
import runpy
import time
from pathlib import Path
from typing import Any

import pytest

from components.sandbox.base import SandboxDescription
from components.schema import ExecutionResult
from troupe import Environment, MalformedAnswer, Options, Step, testing
from troupe.testing import check_environment

ROOT = Path(__file__).resolve().parents[2]


class Echo(Environment):
    """One agent repeats a number of three digits; keeps the contract."""

    roles = ("pupil",)
    max_answer_characters = 8

    def draw(self, options: Any, rng: random.Random) -> dict[str, Any]:
        return {"number": rng.randrange(100, 1000)}

    def observe(self, state: Any, agent: str) -> str:
        return str(state["number"])

    def step(self, state: Any, agent: str, answer: str) -> Step:
        if re.fullmatch("[0-9]{3}", answer) is None:
            raise MalformedAnswer("write three digits")
        return Step(state=state, solved=int(answer) == state["number"])

    def expert(self, state: Any, agent: str) -> str:
        return str(state["number"])


def test_who_keeps_the_contract_passes() -> None:
    check_environment(Echo)


@pytest.mark.parametrize(("place", "name"), [("guess/guess.py", "Guess"), ("team/team.py", "Vote")])
def test_the_examples_keep_the_contract(place: str, name: str) -> None:
    check_environment(runpy.run_path(str(ROOT / "examples" / place))[name])


def test_programs_of_the_example_with_tools_run_in_a_sandbox_that_the_check_opens_and_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every program is evaluated here by what it is: a line of arithmetic."""
    opened: list[Any] = []

    class Box:
        description = SandboxDescription(backend="bubblewrap", image_digest="i", num_boxes=1, box_limits={})
        is_closed = False

        def run(self, program: str, **_: Any) -> ExecutionResult:
            ended = {"status": "nonzero_exit", "stdout": "", "stderr": "", "exit_code": 1, "detail": ""}
            found = re.fullmatch(r"f = lambda x: (\d+)\*x\+(\d+)\nprint\(f\(1\), f\(10\)\)", program)
            if found:
                a, b = map(int, found.groups())
                ended |= {"status": "ok", "stdout": f"{a + b} {10 * a + b}\n", "exit_code": 0}
            return ExecutionResult(**ended, wall_seconds=0.0, cpu_seconds=0.0)

        def close(self) -> None:
            self.is_closed = True

    monkeypatch.setattr(testing, "new_sandbox", lambda *_: opened.append(Box()) or opened[-1])
    check_environment(runpy.run_path(str(ROOT / "examples" / "tools" / "functions.py"))["Functions"], num_problems=3)
    assert [box.is_closed for box in opened] == [True]


class Branching(Echo):
    """The pupil writes, a teacher corrects; the state says who is next."""

    roles = ("pupil", "teacher")

    def next_role(self, state: Any) -> str | None:
        return "teacher" if "written" in state else "pupil"

    def step(self, state: Any, agent: str, answer: str) -> Step:
        if agent == "pupil":
            return Step(state={**state, "written": answer})
        return Step(state=state, solved=answer == str(state["number"]))


def test_a_team_that_branches_is_followed() -> None:
    check_environment(Branching)
    with pytest.raises(AssertionError, match=r"does not solve .* in 1 turns"):
        check_environment(Branching, max_turns=1)


class Sized(Echo):
    class Options(Options):
        size: int

    def draw(self, options: Any, rng: random.Random) -> dict[str, Any]:
        return {"number": rng.randrange(100, 100 + options.size)}


def test_options_are_those_of_a_configuration() -> None:
    check_environment(Sized, {"size": 500})
    with pytest.raises(AssertionError, match=r"options\.sise: unknown key .*did you mean 'size'"):
        check_environment(Sized, {"sise": 500})


class NoExpert(Echo):
    expert = Environment.expert


def test_an_expert_is_not_asked_for_where_there_is_none() -> None:
    check_environment(NoExpert)


class Impatient(Echo):
    def draw(self, options: Any, rng: random.Random) -> dict[str, Any]:
        return {"number": random.randrange(100, 1000)}


class Pairs(Echo):
    def draw(self, options: Any, rng: random.Random) -> dict[str, Any]:
        return {"number": rng.randrange(100, 1000), "pair": (1, 2)}


class Single(Echo):
    def draw(self, options: Any, rng: random.Random) -> dict[str, Any]:
        return {"number": rng.choice((100, 101))}


class Counting(Echo):
    count = itertools.count()

    def observe(self, state: Any, agent: str) -> str:
        return f"{state['number']} {next(self.count)}"


class Remembering(Echo):
    """What one episode did is seen by another."""

    last = ""

    def step(self, state: Any, agent: str, answer: str) -> Step:
        solved = answer == self.last
        type(self).last = answer
        return Step(state=state, solved=solved)


class Trusting(Echo):
    def step(self, state: Any, agent: str, answer: str) -> Step:
        return Step(state=state, solved=int(answer) == state["number"])


class FullWidth(Echo):
    """Takes the digits of every alphabet for those of its own."""

    def step(self, state: Any, agent: str, answer: str) -> Step:
        if not answer.isdigit() or len(answer) > 3:
            raise MalformedAnswer("write digits")
        return Step(state=state, solved="0123456789".index(answer[0]) == 0)


class Slow(Echo):
    def step(self, state: Any, agent: str, answer: str) -> Step:
        started = time.thread_time()
        while len(answer) == self.max_answer_characters and time.thread_time() < started + 1.1:
            pass
        return Step(state=state)


class Wordy(Echo):
    def expert(self, state: Any, agent: str) -> str:
        return f"the number is {state['number']}"


class Foreign(Echo):
    alphabet = "0123456789"

    def observe(self, state: Any, agent: str) -> str:
        return f"n{state['number']}"


class Wrong(Echo):
    def expert(self, state: Any, agent: str) -> str:
        return "999" if state["number"] != 999 else "998"


class Unpaid(Echo):
    def step(self, state: Any, agent: str, answer: str) -> Step:
        return Step(state=state, local={"polite": 1.0})


class Twice(Echo):
    roles = ("pupil", "pupil")


class Picture(Echo):
    def render(self, state: Any) -> str:
        return state["number"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (Impatient, "equal seeds gave"),
        (Pairs, "comes back from JSON"),
        (Single, "none of 1000 draws|all .* problems are"),
        (Counting, "observe\\(\\) gave two results"),
        (Remembering, "had two effects"),
        (Trusting, "pupil wrote '': .*ValueError"),
        (FullWidth, "ValueError: substring not found"),
        (Slow, "s of CPU"),
        (Wordy, "longer than max_answer_characters, 8"),
        (Foreign, r"observe\(\) gave 'n.*not in `alphabet`"),
        (Wrong, "does not solve"),
        (Unpaid, "local.polite, which has no weight"),
        (Twice, "names 'pupil' twice"),
        (Picture, r"render\(\) returned int, not text"),
    ],
)
def test_each_way_to_break_it_is_told(environment: type[Environment], told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        check_environment(environment)
