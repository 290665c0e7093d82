"""code: a tester writes tests, a coder writes the program, hidden tests decide."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from components.artifacts.refs import Frozen
from components.environments.base import NO_TOOLS, MultiAgentEnv, Retriever, Split, Tools
from components.environments.code.environment import DEFAULT_WEIGHTS, CodeEnv
from components.environments.code.grammar import spelled
from components.environments.code.mutants import mutants
from components.environments.code.observations import CODER, ROLES, TESTER
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem, problem_of
from components.environments.code.procedural.generate import procedural_problem
from components.environments.code.tables import hygiene, table_problem, tables
from components.environments.code.text import ALPHABET
from components.environments.shared.dataset_rows import Hygiene
from components.errors import ConfigurationError
from components.identity import content_id
from components.schema import Problem

_MADE_UP = (Case(given="[0]", expected="0"),)
_NUM_MUTANTS = 12
"""Among which a noisy expert chooses its mistake."""


class CodeFamily:
    """The `EnvironmentFamily` of programming problems.

    The coder acts last: what it answers is the team's answer, with the newest tests in view, and it can play alone.
    """

    name = "code"
    roles = ROLES
    options_type: type[Frozen] = CodeOptions
    default_weights: Mapping[str, float] = DEFAULT_WEIGHTS
    copies_proposals = False

    def problem(self, options: Frozen, *, split: Split, index: int, seed: int) -> Problem:
        """Problem `index` of `split`. Raises ConfigurationError when the dataset cannot be read or has none."""
        wanted = _checked(options)
        dataset = tables(wanted)[split].dataset
        draw = procedural_problem if dataset == "procedural" else table_problem
        payload = draw(wanted, split=split, index=index, seed=seed).payload()
        return Problem(problem_id=content_id(self.name, payload), environment=self.name, payload=payload)

    def hygiene(self, options: Frozen) -> Hygiene:
        """How many problems the splits have, and how many train problems were dropped because they are test problems too.

        A procedural split counts none: its problems are made, and divided by their parameters.
        """
        return hygiene(_checked(options))

    def uses_sandbox(self, options: Frozen) -> bool:
        return True

    def retriever(self, options: Frozen) -> Retriever | None:
        return None

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> CodeEnv:
        assert problem.environment == self.name, f"{problem.problem_id} belongs to {problem.environment!r}"
        return CodeEnv(problem_of(problem.payload), tools)

    def expert_action(self, env: MultiAgentEnv, agent: str) -> str:
        """The reference program, or the spare tests (the given ones where there are none).

        Raises ConfigurationError for the coder of a problem whose dataset has no reference.
        """
        problem = _played(env, agent).problem
        return _tests(problem) if agent == TESTER else _reference(problem)

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The expert's tests, each with probability `noise` with another test's output; or the reference with, at the same
        probability, one operator, comparison or constant changed."""
        problem = _played(env, agent).problem
        if agent == TESTER:
            return _tests(problem, noise=noise, rng=rng)
        program = _reference(problem)
        wrong = mutants(program, max_mutants=_NUM_MUTANTS)
        return rng.choice(wrong) if wrong and rng.random() < noise else program

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """A random number as the answer to a random number, or a program that gives one whatever it is given."""
        problem, number = _played(env, agent).problem, rng.randrange(100)
        if agent == TESTER:
            return f"{rng.randrange(100)} => {number}"
        return f"print({number})" if problem.kind == "stdin" else f"def {problem.entry}(*a): return {number}"

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        """Put a wrong program, one change away from the reference, into `env`; the start where none can be told to be wrong."""
        played = _played(env, CODER)
        wrong = mutants(_reference(played.problem), max_mutants=_NUM_MUTANTS)
        before = played.snapshot()
        if wrong:
            played.place_program(rng.choice(wrong))
            if played.done:
                played.restore(before)

    def alphabet(self, options: Frozen) -> str:
        return ALPHABET

    def max_action_characters(self, options: Frozen) -> int:
        return _checked(options).max_answer_characters


def _tests(problem: CodeProblem, *, noise: float = 0.0, rng: Random | None = None) -> str:
    """Tests of the expert, in the tester's grammar; noise needs `rng`. Hidden tests are not his to show: where nothing else is
    known he makes one up."""
    cases = (problem.spare or problem.visible or _MADE_UP)[: problem.bounds.max_cases]
    outputs = [case.expected for case in (*problem.visible, *problem.spare)] or ["0"]
    written = [
        replace(case, expected=rng.choice(outputs)) if rng is not None and rng.random() < noise else case
        for case in cases
    ]
    return "\n".join(spelled(case, problem.kind) for case in written)


def _reference(problem: CodeProblem) -> str:
    if problem.reference is None:
        raise ConfigurationError(
            f"environment.options.dataset: {problem.statement.splitlines()[0][:60]!r} comes without a reference program, so "
            "there is no expert for it; use procedural, humaneval, apps or code_contests for expert play and warm starts"
        )
    return problem.reference


def _checked(options: Frozen) -> CodeOptions:
    assert isinstance(options, CodeOptions), f"code got options {options!r}"
    return options


def _played(env: MultiAgentEnv, agent: str) -> CodeEnv:
    assert isinstance(env, CodeEnv), f"{env!r} was not built by this family"
    assert agent in ROLES, f"agent {agent!r} is none of {ROLES}"
    return env
