"""The contract of an environment, as one check for its tests."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import cache
from random import Random
from time import thread_time
from typing import Any

from components.config import ExecutionConfig, SandboxConfig
from components.environments.base import NO_TOOLS, AnswerFormat, ToolCall, Tools
from components.environments.environment import Environment
from components.environments.family import Family
from components.environments.play import Position, Referee
from components.environments.registry import validated
from components.environments.turn_orders import checked_team
from components.errors import ConfigurationError
from components.identity import canonical_json
from components.schema import ActionOutcome, Execution, ExecutionResult, Limits, Passage, Problem, Query
from components.session.toolbox import new_sandbox
from components.tool_calls.ledger import ExecutionLedger, ToolSources
from components.turn_order import Phase

_SEED = 7
_ANSWER_CPU_SECONDS = 1.0
_NUM_SEARCHED = 3
"""The number of problems on which every character is tried at the greatest length; the others get a sample."""
_FOREIGN = "\x00é１٣🙂"
"""Characters that a pretrained model may write; Python counts two of them as digits."""


def check_environment(
    environment: type[Environment],
    options: Mapping[str, Any] | None = None,
    *,
    num_problems: int = 25,
    max_turns: int = 4,
    answer_format: AnswerFormat = "strict",
    tools: Tools | None = None,
) -> None:
    """Check that `environment` with `options` satisfies what training relies on; raise AssertionError with the violation.

    Problems are plain JSON and determined by their seed; train and test share none. Observations and the effect of an answer
    depend on the state alone. Every answer up to `max_answer_characters` is accepted or refused as malformed, and nothing else
    is raised; a refused answer changes nothing, unless `after_malformed` says so; no call changes the state that it gets.
    `choices` are the same when asked again, and each is accepted. The answers of an expert, if there is one, are well-formed,
    written in `alphabet`, and solve every problem within `max_turns`. With `answer_format` "free" all is read as under
    that setting of `environment`, and `final_answer` keeps the expert's answers as they are. A `ToolEnvironment` plays with
    `tools`, by default its own retriever and a sandbox, opened for the check as in training, and makes every call that
    `tool_calls` tells. Raises ServiceMissing, with the install command, where no sandbox works.

    **Example**

    >>> check_environment(Mine, {"size": 5})  # doctest: +SKIP
    """
    try:
        checked_team(environment.__qualname__, environment)
        family = Family(environment.__qualname__, environment(), answer_format)
        settings = validated(family.options_type, options or {})
        family = family.under(settings)
        problems = {
            split: [family.problem(settings, split=split, index=i, seed=_SEED) for i in range(num_problems)]
            for split in ("train", "test")
        }
        _check_draws(family, settings, problems)
        with _opened_tools(family, settings) if tools is None else nullcontext(tools) as playing:
            for number, problem in enumerate((*problems["train"], *problems["test"])):
                tried = list(_answers(family, settings, Random(number), every_character=number < _NUM_SEARCHED))
                referee = family.referee(_WatchedTools(playing))
                _check_play(family, referee, problem, tried, Random(number), max_turns)
                if family.has_expert:
                    _check_expert(family, referee, settings, problem, max_turns)
    except ConfigurationError as error:
        raise AssertionError(str(error)) from error


@contextmanager
def _opened_tools(family: Family, settings: Any) -> Iterator[Tools]:
    """The tools that training opens for the environment, until the end of the block."""
    retriever, limits = family.retriever(settings), Limits(**ExecutionConfig().model_dump())
    with ExitStack() as opened:
        sandbox = cache(lambda: opened.enter_context(closing(new_sandbox(SandboxConfig(), limits))))
        if family.uses_sandbox(settings):
            sandbox()  # before any answer is tried
        elif retriever is None:
            yield NO_TOOLS
            return
        yield ExecutionLedger(ToolSources(sandbox=sandbox, retriever=lambda: retriever, limits=limits))


class _WatchedTools:
    """Tools that remember which calls were made, as text, and the CPU seconds that they took in this thread."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
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


def _check_draws(family: Family, settings: Any, problems: Mapping[str, list[Problem]]) -> None:
    """The problems are JSON, reproducible from their seed, and not all equal."""
    for split, drawn in problems.items():
        for i, problem in enumerate(drawn):
            payload = json.loads(canonical_json(problem.payload))
            assert payload == problem.payload, f"draw(): {problem.payload!r} comes back from JSON as {payload!r}"
            again = family.problem(settings, split="test" if split == "test" else "train", index=i, seed=_SEED)
            assert again == problem, (
                f"draw(): equal seeds gave {problem.payload!r} and {again.payload!r}; use only `rng`"
            )
        assert len({problem.problem_id for problem in drawn}) > 1, (
            f"draw(): all {split} problems are {drawn[0].payload!r}"
        )


def _answers(family: Family, settings: Any, rng: Random, *, every_character: bool) -> Iterator[str]:
    """Answers that a model may write: empty, one character, one repeated to the limit, random ones, and one too long."""
    alphabet, longest = family.alphabet(settings), family.max_action_characters(settings)
    letters = alphabet if every_character else rng.sample(alphabet, min(5, len(alphabet)))
    yield from ("", alphabet[0] * (longest + 1))
    for letter in (*letters, *_FOREIGN):
        yield from (letter, letter * longest)
    for _ in range(10):
        yield "".join(rng.choices(alphabet, k=rng.randint(1, longest)))


def _check_play(
    family: Family, referee: Referee, problem: Problem, answers: list[str], rng: Random, max_turns: int
) -> None:
    """Try each answer in the positions of one episode: its effect depends on the position alone, and a refused one has none."""
    position, beside = referee.start(problem), referee.start(problem)
    leaves_marks = type(family.environment).after_malformed is not Environment.after_malformed
    phase: Phase | None = None
    while phase := referee.next_phase(position, family.turn_order, after=phase, max_turns=max_turns):
        if referee.acts_together(phase):
            position = _check_joint_step(referee, position, phase, answers, rng)
            continue
        for role in phase.agents:
            if position.is_done:
                return
            seen = _seen(referee, position)
            assert _seen(referee, position) == seen, (
                f"observe() gave two results for one state, {seen} and {_seen(referee, position)}"
            )
            referee.picture(position, color=False)  # raises for what is no text
            choices = _checked_choices(referee, position, role)
            for answer in (*answers, *choices):
                outcome, after = _applied(referee, position, role, answer)
                assert answer not in choices or outcome.error is None, (
                    f"choices(): {answer!r} of {role} is refused: {outcome.error}"
                )
                effect = outcome, _seen(referee, after)
                assert outcome.error is None or leaves_marks or effect[1] == seen, (
                    f"{role} wrote {answer!r}, which is malformed, and the state changed"
                )
                assert _seen(referee, position) == seen, (
                    f"step(): {answer!r} of {role} changed the state that it was given"
                )
                if not beside.is_done:
                    _, beside = _applied(referee, beside, role, rng.choice(answers))  # it must change nothing here
                again, after = _applied(referee, position, role, answer)
                assert (again, _seen(referee, after)) == effect, (
                    f"step(): {answer!r} of {role} in one state had two effects, {effect} and "
                    f"{(again, _seen(referee, after))}"
                )
            lucky = rng.random() < 0.5
            answer = family.random_action(position, role, rng) if lucky else rng.choice(answers)
            _, position = _applied(referee, position, role, answer)


def _check_joint_step(referee: Referee, position: Position, phase: Phase, answers: list[str], rng: Random) -> Position:
    """The position after one of several mixtures of answers at once. Each has one effect, and changes no state that it gets."""
    seen, after = _seen(referee, position), position
    choices = {role: _checked_choices(referee, position, role) for role in phase.agents}
    first_choices = choices[phase.agents[0]]
    for first in (*answers, *first_choices):
        others = {role: rng.choice([*answers, *choices[role]]) for role in phase.agents[1:]}
        told = {phase.agents[0]: first, **others}
        outcomes, after = referee.act_together(position, told)
        assert _seen(referee, position) == seen, f"step_together(): {told} changed the state that it was given"
        again, beside = referee.act_together(position, told)
        assert (again, _seen(referee, beside)) == (outcomes, _seen(referee, after)), (
            f"step_together(): {told} in one state had two effects, {outcomes} and {again}"
        )
        for role, outcome in outcomes.items():
            assert told[role] not in choices[role] or outcome.error is None, (
                f"choices(): {told[role]!r} of {role} is refused: {outcome.error}"
            )
    return after


def _checked_choices(referee: Referee, position: Position, role: str) -> tuple[str, ...]:
    """The choices of a role, the same when asked again; none if its answers are free text."""
    choices = referee.rules.choices(position.state, role)
    assert referee.rules.choices(position.state, role) == choices, f"choices() gave two lists for {role} in one state"
    return choices or ()


def _seen(referee: Referee, position: Position) -> tuple[object, ...]:
    """What can be observed of a position; nothing of a finished episode but its end."""
    roles = () if position.is_done else referee.rules.roles
    return (position.is_done, position.is_solved, *(referee.observe(position, role) for role in roles))


def _applied(referee: Referee, position: Position, role: str, answer: str) -> tuple[ActionOutcome, Position]:
    watched = referee.tools
    assert isinstance(watched, _WatchedTools), f"a referee with unwatched tools {watched}"
    before = thread_time() - watched.cpu_seconds
    try:
        told = referee.calls(position, role, answer)
        outcome, after = referee.act(position, role, answer)
    except ConfigurationError as error:
        raise AssertionError(f"{role} wrote {answer!r}: {error}") from error
    unmade = [call for call in told if repr(call) not in watched.made]
    assert not unmade, f"tool_calls(): {answer!r} of {role} tells of {unmade[0]!r}, which step() never makes"
    seconds = thread_time() - watched.cpu_seconds - before
    assert seconds <= _ANSWER_CPU_SECONDS, f"step(): {answer!r} of {role} took {seconds:.1f} s of CPU"
    return outcome, after


def _check_expert(family: Family, referee: Referee, settings: Any, problem: Problem, max_turns: int) -> None:
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
