"""The contract of an environment, as one check for its tests."""

import json
from collections.abc import Iterator, Mapping
from random import Random
from time import thread_time
from typing import Any

from components.environments.base import Answers, Demonstrator, MultiAgentEnv
from components.environments.environment import Environment
from components.environments.registry import validated
from components.environments.turn_orders import checked_team, turn_order_of
from components.environments.user_environment import OwnFamily, own_family
from components.errors import ConfigurationError
from components.identity import canonical_json
from components.schema import ActionOutcome, Problem
from components.turn_order import phases

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
    answers: Answers = "compact",
) -> None:
    """Check that `environment` with `options` satisfies what training relies on; raise AssertionError with the violation.

    Problems are plain JSON and determined by their seed; train and test share none. Observations and the effect of an answer
    depend on the state alone. Every answer up to `max_answer_characters` is accepted or refused as malformed, and nothing else
    is raised; a refused answer changes nothing; a snapshot restores the state. The answers of an expert, if there is one, are
    well-formed, written in `alphabet`, and solve every problem within `max_turns`. With `answers` "reasoned" all is read as
    under `environment.answers: reasoned`, and `final_answer` keeps the expert's answers as they are.

    **Example**

    >>> check_environment(Mine, {"size": 5})  # doctest: +SKIP
    """
    try:
        checked_team(environment.__qualname__, environment)
        family = own_family(environment.__qualname__, environment(), answers)
        settings = validated(family.options_type, options or {})
        problems = {
            split: [family.problem(settings, split=split, index=i, seed=_SEED) for i in range(num_problems)]
            for split in ("train", "test")
        }
        _check_draws(family, settings, problems)
        for number, problem in enumerate((*problems["train"], *problems["test"])):
            tried = list(_answers(family, settings, Random(number), every_character=number < _NUM_SEARCHED))
            _check_play(family, problem, tried, Random(number), max_turns)
            if isinstance(family, Demonstrator):
                _check_expert(family, settings, problem, max_turns)
    except ConfigurationError as error:
        raise AssertionError(str(error)) from error


def _check_draws(family: OwnFamily, settings: Any, problems: Mapping[str, list[Problem]]) -> None:
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


def _answers(family: OwnFamily, settings: Any, rng: Random, *, every_character: bool) -> Iterator[str]:
    """Answers that a model may write: empty, one character, one repeated to the limit, random ones, and one too long."""
    alphabet, longest = family.alphabet(settings), family.max_action_characters(settings)
    letters = alphabet if every_character else rng.sample(alphabet, min(5, len(alphabet)))
    yield from ("", alphabet[0] * (longest + 1))
    for letter in (*letters, *_FOREIGN):
        yield from (letter, letter * longest)
    for _ in range(10):
        yield "".join(rng.choices(alphabet, k=rng.randint(1, longest)))


def _check_play(family: OwnFamily, problem: Problem, answers: list[str], rng: Random, max_turns: int) -> None:
    """Try each answer in the states of one episode: its effect depends on the state alone, and a refused one has none."""
    env, beside = family.build(problem), family.build(problem)
    for phase in phases(env, family.turn_order, max_turns):
        for role in phase.agents:
            if env.done:
                return
            here, seen = env.snapshot(), _seen(env)
            assert _seen(env) == seen, f"observe() gave two results for one state, {seen} and {_seen(env)}"
            assert isinstance(env.render(color=False), str), "render() returned no text"
            for answer in answers:
                first = _applied(env, role, answer)
                after = _seen(env)
                assert first.error is None or after == seen, (
                    f"{role} wrote {answer!r}, which is malformed, and the state changed"
                )
                env.restore(here)
                assert _seen(env) == seen, f"restore() did not bring back the state before {role} wrote {answer!r}"
                if not beside.done:
                    _applied(
                        beside, role, rng.choice(answers)
                    )  # of another episode: it must change nothing in this one
                again = _applied(env, role, answer), _seen(env)
                assert again == (first, after), (
                    f"step(): {answer!r} of {role} in one state had two effects, {(first, after)} and {again}"
                )
                env.restore(here)
            _applied(env, role, family.random_action(env, role, rng) if rng.random() < 0.5 else rng.choice(answers))


def _seen(env: MultiAgentEnv) -> tuple[object, ...]:
    """The observable state; nothing is observed of a finished episode."""
    return (env.done, env.success, *(env.observe(role) for role in env.roles if not env.done))


def _applied(env: MultiAgentEnv, role: str, answer: str) -> ActionOutcome:
    before = thread_time()
    try:
        outcome = env.apply(role, answer)
    except ConfigurationError as error:
        raise AssertionError(f"{role} wrote {answer!r}: {error}") from error
    seconds = thread_time() - before
    assert seconds <= _ANSWER_CPU_SECONDS, f"step(): {answer!r} of {role} took {seconds:.1f} s of CPU"
    return outcome


def _check_expert(family: Demonstrator, settings: Any, problem: Problem, max_turns: int) -> None:
    """The expert solves the problem with valid answers."""
    env, alphabet = family.build(problem), set(family.alphabet(settings))
    for phase in phases(env, turn_order_of(family, None), max_turns):
        asked = [(role, env.observe(role).state, family.expert_action(env, role)) for role in phase.agents]
        for role, state, answer in asked:
            if env.done:
                break
            for who, text in (("observe()", state), ("expert()", answer)):
                assert set(text) <= alphabet, (
                    f"{who} gave {text!r}; {sorted(set(text) - alphabet)} are not in `alphabet`"
                )
            longest = family.max_action_characters(settings)
            assert len(answer) <= longest, f"expert(): {answer!r} is longer than max_answer_characters, {longest}"
            if env.answers == "reasoned":
                kept = env.final_answer(role, answer)
                assert kept == answer, (
                    f"expert(): {answer!r} of {role} is read as {kept!r}; let final_answer() return such answers as they are"
                )
            outcome = _applied(env, role, answer)
            assert outcome.error is None, f"expert(): {answer!r} of {role} is malformed: {outcome.error}"
    assert env.success, f"expert() does not solve {problem.payload!r} in {max_turns} turns"
