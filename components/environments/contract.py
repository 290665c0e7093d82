"""The contract of an environment: what training relies on, as checks that raise AssertionError with the violation."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from random import Random
from time import thread_time
from typing import Any

from components.environments.base import ToolCall, Tools
from components.environments.environment import Environment
from components.environments.family import Family
from components.environments.play import Position, Referee
from components.errors import ConfigurationError
from components.identity import canonical_json
from components.schema import ActionOutcome, Execution, ExecutionResult, Passage, Problem, Query
from components.turn_order import Phase, TurnOrder

_SEED = 7
_FOREIGN = "\x00é１٣🙂"
"""Characters that a pretrained model may write; Python counts two of them as digits."""


class WatchedTools:
    """Tools that remember which calls were made, as text, and the CPU seconds that they took in this thread.

    `most_cpu_seconds` is what an answer may take beside them.
    """

    def __init__(self, tools: Tools, *, most_cpu_seconds: float = inf) -> None:
        self._tools = tools
        self.most_cpu_seconds = most_cpu_seconds
        self.made: set[str] = set()
        self.cpu_seconds = 0.0

    def run(self, execution: Execution) -> ExecutionResult:
        with self._making(execution):
            return self._tools.run(execution)

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        with self._making(query):
            return self._tools.retrieve(query)

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        self._tools.prepare(calls)

    @contextmanager
    def _making(self, call: ToolCall) -> Iterator[None]:
        self.made.add(repr(call))
        before = thread_time()
        try:
            yield
        finally:
            self.cpu_seconds += thread_time() - before


def draw_problems(family: Family, settings: Any, num_problems: int) -> dict[str, list[Problem]]:
    """The first problems of each split, which are JSON and reproducible from their seed."""
    problems = {
        split: [family.problem(settings, split=split, index=i, seed=_SEED) for i in range(num_problems)]
        for split in ("train", "test")
    }
    for split, drawn in problems.items():
        for i, problem in enumerate(drawn):
            payload = json.loads(canonical_json(problem.payload))
            assert payload == problem.payload, f"draw(): {problem.payload!r} comes back from JSON as {payload!r}"
            again = family.problem(settings, split="test" if split == "test" else "train", index=i, seed=_SEED)
            assert again == problem, (
                f"draw(): equal seeds gave {problem.payload!r} and {again.payload!r}; use only `rng`"
            )
    return problems


def check_variety(problems: Mapping[str, list[Problem]]) -> None:
    """The problems of a split are not all equal."""
    for split, drawn in problems.items():
        assert len({problem.problem_id for problem in drawn}) > 1, (
            f"draw(): all {split} problems are {drawn[0].payload!r}"
        )


def answers_to_try(family: Family, settings: Any, rng: Random, *, every_character: bool) -> Iterator[str]:
    """Answers that a model may write: empty, one character, one repeated to the limit, random ones, and one too long."""
    alphabet, longest = family.alphabet(settings), family.max_action_characters(settings)
    letters = alphabet if every_character else rng.sample(alphabet, min(5, len(alphabet)))
    yield from ("", alphabet[0] * (longest + 1))
    for letter in (*letters, *_FOREIGN):
        yield from (letter, letter * longest)
    for _ in range(10):
        yield "".join(rng.choices(alphabet, k=rng.randint(1, longest)))


def check_play(
    family: Family,
    referee: Referee,
    problem: Problem,
    answers: Sequence[str],
    rng: Random,
    *,
    turn_order: TurnOrder,
    max_turns: int,
) -> None:
    """Try each answer in the positions of one episode: its effect depends on the position alone, and a refused one has none."""
    position, beside = referee.start(problem), referee.start(problem)
    leaves_marks = type(family.environment).after_malformed is not Environment.after_malformed
    phase: Phase | None = None
    while phase := referee.next_phase(position, turn_order, after=phase, max_turns=max_turns):
        if referee.acts_together(phase):
            position = _check_joint_step(referee, position, phase, answers, rng)
            continue
        for role in phase.agents:
            if position.is_done:
                return
            seen = _look_at(referee, position)
            assert _look_at(referee, position) == seen, (
                f"observe() gave two results for one state, {seen} and {_look_at(referee, position)}"
            )
            referee.picture(position, color=False)  # raises for what is no text
            choices = _check_choices(referee, position, role)
            for answer in (*answers, *choices):
                outcome, after = _apply(referee, position, role, answer)
                assert answer not in choices or outcome.error is None, (
                    f"choices(): {answer!r} of {role} is refused: {outcome.error}"
                )
                effect = outcome, _look_at(referee, after)
                assert outcome.error is None or leaves_marks or effect[1] == seen, (
                    f"{role} wrote {answer!r}, which is malformed, and the state changed"
                )
                assert _look_at(referee, position) == seen, (
                    f"step(): {answer!r} of {role} changed the state that it was given"
                )
                if not beside.is_done:
                    _, beside = _apply(referee, beside, role, rng.choice(answers))  # it must change nothing here
                again, after = _apply(referee, position, role, answer)
                assert (again, _look_at(referee, after)) == effect, (
                    f"step(): {answer!r} of {role} in one state had two effects, {effect} and "
                    f"{(again, _look_at(referee, after))}"
                )
            lucky = rng.random() < 0.5
            answer = family.random_action(position, role, rng) if lucky else rng.choice(answers)
            _, position = _apply(referee, position, role, answer)


def _check_joint_step(
    referee: Referee, position: Position, phase: Phase, answers: Sequence[str], rng: Random
) -> Position:
    """The position after one of several mixtures of answers at once. Each has one effect, and changes no state that it gets."""
    seen, after = _look_at(referee, position), position
    choices = {role: _check_choices(referee, position, role) for role in phase.agents}
    first_choices = choices[phase.agents[0]]
    for first in (*answers, *first_choices):
        others = {role: rng.choice([*answers, *choices[role]]) for role in phase.agents[1:]}
        told = {phase.agents[0]: first, **others}
        outcomes, after = referee.act_together(position, told)
        assert _look_at(referee, position) == seen, f"step_together(): {told} changed the state that it was given"
        again, beside = referee.act_together(position, told)
        assert (again, _look_at(referee, beside)) == (outcomes, _look_at(referee, after)), (
            f"step_together(): {told} in one state had two effects, {outcomes} and {again}"
        )
        for role, outcome in outcomes.items():
            assert told[role] not in choices[role] or outcome.error is None, (
                f"choices(): {told[role]!r} of {role} is refused: {outcome.error}"
            )
    return after


def _check_choices(referee: Referee, position: Position, role: str) -> tuple[str, ...]:
    """The choices of a role, the same when asked again; none if its answers are free text."""
    choices = referee.rules.choices(position.state, role)
    assert referee.rules.choices(position.state, role) == choices, f"choices() gave two lists for {role} in one state"
    return choices or ()


def _look_at(referee: Referee, position: Position) -> tuple[object, ...]:
    """What can be observed of a position; nothing of a finished episode but its end."""
    roles = () if position.is_done else referee.rules.roles
    return (position.is_done, position.is_solved, *(referee.observe(position, role) for role in roles))


def _apply(referee: Referee, position: Position, role: str, answer: str) -> tuple[ActionOutcome, Position]:
    watched = referee.tools
    assert isinstance(watched, WatchedTools), f"a referee with unwatched tools {watched}"
    before = thread_time() - watched.cpu_seconds
    try:
        told = referee.calls(position, role, answer)
        outcome, after = referee.act(position, role, answer)
    except ConfigurationError as error:
        raise AssertionError(f"{role} wrote {answer!r}: {error}") from error
    unmade = [call for call in told if repr(call) not in watched.made]
    assert not unmade, f"tool_calls(): {answer!r} of {role} tells of {unmade[0]!r}, which step() never makes"
    seconds = thread_time() - watched.cpu_seconds - before
    assert seconds <= watched.most_cpu_seconds, f"step(): {answer!r} of {role} took {seconds:.1f} s of CPU"
    return outcome, after


def check_expert(family: Family, referee: Referee, settings: Any, problem: Problem, max_turns: int) -> None:
    """The expert solves the problem with valid answers."""
    position, alphabet = referee.start(problem), set(family.alphabet(settings))
    phase: Phase | None = None
    while phase := referee.next_phase(position, family.turn_order, after=phase, max_turns=max_turns):
        answers = [family.expert_action(position, role) for role in phase.agents]
        for role, answer in zip(phase.agents, answers, strict=True):
            for who, text in (("observe()", referee.observe(position, role).state), ("expert()", answer)):
                assert set(text) <= alphabet, (
                    f"{who} gave {text!r}; {sorted(set(text) - alphabet)} are not in `alphabet`"
                )
            longest = family.max_action_characters(settings)
            assert len(answer) <= longest, f"expert(): {answer!r} is longer than max_answer_characters, {longest}"
            if family.answer_format == "free":
                kept = referee.rules.final_answer(position.state, role, answer)
                assert kept == answer, (
                    f"expert(): {answer!r} of {role} is read as {kept!r}; let final_answer() return such answers as they are"
                )
        outcomes, position = referee.advance(position, phase, answers)
        for role, answer, outcome in zip(phase.agents, answers, outcomes, strict=False):
            assert outcome.error is None, f"expert(): {answer!r} of {role} is malformed: {outcome.error}"
            assert outcome.unscorable is None, f"a tool failed at {answer!r} of {role}: {outcome.unscorable}"
    assert position.is_solved, f"expert() does not solve {problem.payload!r} in {max_turns} turns"
