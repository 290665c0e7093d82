"""code: a tester writes tests, a coder writes the program, hidden tests decide."""

from collections.abc import Mapping
from random import Random
from typing import Any

from components.environments.base import MultiAgentEnv, Split, Tools
from components.environments.code.environment import CodeEnv
from components.environments.code.grammar import spelled
from components.environments.code.mutants import mutants
from components.environments.code.observations import CODER, TESTER
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem
from components.environments.code.procedural.generate import draw_puzzle, make_problem
from components.environments.code.procedural.puzzle import PUZZLES
from components.environments.code.tables import table_problem, tables
from components.environments.family import Demonstrations, DrawnFamily
from components.errors import ConfigurationError
from components.frozen import Frozen

_MADE_UP = (Case(given="[0]", expected="0"),)
_NUM_MUTANTS = 12
"""The mutants from which a noisy expert chooses."""


class CodeFamily(Demonstrations, DrawnFamily[CodeOptions, CodeEnv]):
    """The `EnvironmentFamily` of programming problems."""

    name = "code"
    options_type = CodeOptions
    env_type = CodeEnv
    remedy = (
        "ask for fewer or longer tests (num_visible_tests, num_hidden_tests, max_generated_tests) or raise "
        "max_answer_characters"
    )

    def payload(self, options: CodeOptions, *, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        if tables(options)[split].dataset == "procedural":
            return super().payload(options, split=split, index=index, seed=seed)
        return table_problem(options, split=split, index=index, seed=seed).model_dump(mode="json")

    def draw(self, options: CodeOptions, rng: Random) -> Mapping[str, Any]:
        return draw_puzzle(options, rng)

    def deciding(self, drawn: Mapping[str, Any]) -> Mapping[str, Any]:
        """The requested function, in either kind of program."""
        return {"puzzle": drawn["puzzle"], **drawn["parameters"]}

    def completed(self, options: CodeOptions, drawn: Mapping[str, Any], rng: Random) -> Mapping[str, Any] | None:
        made = make_problem(PUZZLES[drawn["puzzle"]], drawn["parameters"], drawn["kind"], options)
        return made.model_dump(mode="json") if made else None

    def play(self, payload: Mapping[str, Any], tools: Tools) -> CodeEnv:
        return CodeEnv(CodeProblem.model_validate(payload), tools)

    def uses_sandbox(self, options: Frozen) -> bool:
        return True

    def max_action_characters(self, options: Frozen) -> int:
        return self.checked(options).max_answer_characters

    def noisy_expert_action(self, env: MultiAgentEnv, agent: str, *, noise: float, rng: Random) -> str:
        """The spare tests, or else the given ones, each with another test's output with probability `noise`; or the reference
        program, with that probability a mutant of it.

        Raises ConfigurationError for the coder of a problem without a reference.
        """
        problem = self.played(env, agent).problem
        if agent == TESTER:
            return _tests(problem, noise, rng)
        program = _reference(problem)
        wrong = mutants(program, max_mutants=_NUM_MUTANTS)
        return rng.choice(wrong) if wrong and rng.random() < noise else program

    def random_action(self, env: MultiAgentEnv, agent: str, rng: Random) -> str:
        """A test of two random numbers, or a program that ignores its input and returns one."""
        problem, number = self.played(env, agent).problem, rng.randrange(100)
        if agent == TESTER:
            return f"{rng.randrange(100)} => {number}"
        return f"print({number})" if problem.kind == "stdin" else f"def {problem.entry}(*a): return {number}"

    def scramble(self, env: MultiAgentEnv, rng: Random) -> None:
        """Put a mutant that fails a given test into `env`; leave it at its start if there is none."""
        played = self.played(env, CODER)
        wrong = mutants(_reference(played.problem), max_mutants=_NUM_MUTANTS)
        before = played.snapshot()
        if wrong:
            played.place_program(rng.choice(wrong))
            if played.done:
                played.restore(before)


def _tests(problem: CodeProblem, noise: float, rng: Random) -> str:
    """The expert's tests, in the tester's grammar. Hidden tests are never revealed; without other tests, one is made up."""
    cases = (problem.spare or problem.visible or _MADE_UP)[: problem.bounds.max_cases]
    outputs = [case.expected for case in (*problem.visible, *problem.spare)] or ["0"]
    written = [case._replace(expected=rng.choice(outputs)) if rng.random() < noise else case for case in cases]
    return "\n".join(spelled(case, problem.kind) for case in written)


def _reference(problem: CodeProblem) -> str:
    if problem.reference is None:
        raise ConfigurationError(
            f"environment.options.dataset: {problem.statement.splitlines()[0][:60]!r} has no reference program and "
            "therefore no expert; use procedural, humaneval, apps or code_contests for expert play and warm starts"
        )
    return problem.reference
