"""The math family: where problems come from, and how they are played by rule."""

from collections.abc import Mapping
from random import Random
from typing import Any

from components.artifacts.refs import Frozen
from components.environments.base import NO_TOOLS, MultiAgentEnv, Retriever, Split, Tools
from components.environments.math.environment import DEFAULT_WEIGHTS, ROLES, MathEnv, Progress
from components.environments.math.history import Round, Run
from components.environments.math.numbers import number
from components.environments.math.options import MathOptions
from components.environments.math.procedural import draw_question
from components.environments.math.questions import QuestionSplit, questions_of
from components.environments.math.views import COMPACT_ALPHABET, EXAMPLE_ANSWER, PROSE_ALPHABET, TOOL_AGENT
from components.environments.shared.dataset_rows import shuffled_index
from components.environments.shared.splits import split_of
from components.errors import ConfigurationError
from components.identity import content_id, seed_for
from components.schema import Problem

_MAX_ATTEMPTS = 200
_RANDOM_NUMBERS = 999


class MathFamily:
    """All math problems. A statement's content decides its split."""

    name = "math"
    options_type: type[Frozen] = MathOptions
    roles = ROLES
    default_weights: Mapping[str, float] = DEFAULT_WEIGHTS
    copies_proposals = False

    def problem(self, options: Frozen, *, split: Split, index: int, seed: int) -> Problem:
        """Problem `index` of `split`: drawn by rule, or a question of the split's dataset, all of them once an epoch.

        Raises ConfigurationError when the dataset cannot be used.
        """
        wanted = _checked(options)
        drawn = (
            self._drawn(wanted, split, index, seed)
            if wanted.dataset_of(split) == "procedural"
            else self._asked(wanted, split, index, seed)
        )
        payload = {
            **drawn,
            "compact": wanted.is_compact,
            "max_program_characters": wanted.max_answer_width,
            "max_answer_characters": wanted.max_answer_characters,
            "max_output_characters": wanted.max_output_characters,
        }
        return Problem(problem_id=content_id(self.name, payload), environment=self.name, payload=payload)

    def hygiene(self, options: Frozen, split: Split) -> QuestionSplit | None:
        """The questions of a split and what was left out of it; None for problems drawn by rule."""
        wanted = _checked(options)
        return None if wanted.dataset_of(split) == "procedural" else questions_of(wanted, split)

    def uses_sandbox(self, options: Frozen) -> bool:
        return True

    def retriever(self, options: Frozen) -> Retriever | None:
        return None

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> MathEnv:
        assert problem.environment == self.name, f"{problem.problem_id} belongs to {problem.environment!r}"
        return MathEnv(problem.payload, tools)

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        """The tool agent prints the expression or the reference answer, the reasoner gives the reference answer."""
        payload = _played(env, agent).payload
        if agent == TOOL_AGENT:
            return _printing(payload.get("expression"), payload["answer"])
        return _spoken(payload["answer"], compact=payload["compact"])

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The same with each digit and each operator replaced by a random one with probability `noise`.

        A noisy reasoner cannot compute: where a program printed an answer, it repeats that, right or wrong.
        """
        played = _played(env, agent)
        payload = played.payload
        if agent == TOOL_AGENT:
            expression = payload.get("expression")
            noisy = None if expression is None else _blurred(expression, noise, rng)
            return _printing(noisy, _blurred(payload["answer"], noise, rng))
        run = played.progress.run
        told = run.printed if noise > 0 and run is not None else None
        known = told if told is not None and number(told) is not None else payload["answer"]
        return _spoken(_blurred(known, noise, rng), compact=payload["compact"])

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """A random number, printed or given as the answer."""
        payload = _played(env, agent).payload
        drawn = str(rng.randint(-_RANDOM_NUMBERS, _RANDOM_NUMBERS))
        return _printing(drawn, drawn) if agent == TOOL_AGENT else _spoken(drawn, compact=payload["compact"])

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        """Go to the second turn, after one with a wrong answer."""
        played = _played(env, ROLES[0])
        printed, answered = (str(rng.randint(-_RANDOM_NUMBERS, _RANDOM_NUMBERS)) for _ in range(2))
        run = Run(program=_printing(printed, printed) + "\n", output=printed, printed=printed, failure="")
        before = played.progress
        played.set_progress(Progress(rounds=(Round(run=run, answer=answered),), answer=answered))
        if played.success or printed == answered:
            played.set_progress(before)

    def alphabet(self, options: Frozen) -> str:
        """For datasets in words this is printable ASCII: their statements may hold more, which character models refuse."""
        return COMPACT_ALPHABET if _checked(options).is_compact else PROSE_ALPHABET

    def max_action_characters(self, options: Frozen) -> int:
        return _checked(options).max_answer_width

    def _drawn(self, options: MathOptions, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        for attempt in range(_MAX_ATTEMPTS):
            rng = Random(seed_for(seed, self.name, split, index, attempt))
            generator = rng.choice(options.generators)
            question = draw_question(generator, level=options.level, prose=not options.is_compact, rng=rng)
            if question is None or question["answer"] == EXAMPLE_ANSWER:
                continue
            if split_of({"statement": question["statement"]}) == split:
                return question
        raise ConfigurationError(
            f"environment.options.generators {list(options.generators)}: no {split} problem in {_MAX_ATTEMPTS} draws; "
            "name others"
        )

    def _asked(self, options: MathOptions, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        questions = questions_of(options, split).questions
        question = questions[shuffled_index(index, num_rows=len(questions), seed=seed, split=split)]
        return {"statement": question.statement, "answer": question.answer}


def _checked(options: Frozen) -> MathOptions:
    assert isinstance(options, MathOptions), f"math got options {options!r}"
    return options


def _played(env: MultiAgentEnv, agent: str) -> MathEnv:
    assert isinstance(env, MathEnv), f"{env!r} was not built by this family"
    assert agent in ROLES, f"agent {agent!r} is none of {ROLES}"
    return env


def _printing(expression: str | None, answer: str) -> str:
    """A program that prints an expression's value, or an answer as it is."""
    return f"print({answer!r})" if expression is None else f"print({expression})"


def _spoken(answer: str, *, compact: bool) -> str:
    return answer if compact else f"\\boxed{{{answer}}}"


def _blurred(text: str, noise: float, rng: Random) -> str:
    """`text` with digits and operators replaced by others of their kind; a number keeps its first digit from being 0."""
    blurred = ""
    for character in text:
        before = blurred[-1:]
        if rng.random() >= noise:
            blurred += character
        elif character.isdecimal():
            blurred += rng.choice("0123456789" if before.isdecimal() or before == "." else "123456789")
        elif character in "+-*" and before.isdecimal():
            blurred += rng.choice("+-*")
        else:
            blurred += character
    return blurred
