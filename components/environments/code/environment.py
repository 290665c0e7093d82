"""code: a tester writes tests, a coder writes the program, hidden tests decide. Programs run in the sandbox."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from components.environments.base import Split, Step, ToolCall, Tools
from components.environments.code.grammar import TESTS_ENDING, cases_in, final_tests, format_case
from components.environments.code.judge import Judge
from components.environments.code.mutants import mutants
from components.environments.code.observations import CODER, ROLES, TESTER, State, instructions, state_text
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem
from components.environments.code.procedural.generate import draw_puzzle, make_problem
from components.environments.code.procedural.puzzle import PUZZLES
from components.environments.code.programs import Verdict, program_in
from components.environments.code.render import picture
from components.environments.code.tables import table_problem, tables
from components.environments.environment import Demonstrator, ToolEnvironment
from components.environments.shared.answer_extraction import PROGRAM_ENDING, final_program
from components.errors import ConfigurationError, MalformedAction

DEFAULT_WEIGHTS: Mapping[str, float] = {
    "team.solved": 1.0,
    "team.passed": 0.2,
    "local.visible": 0.0,
    "local.valid": 0.2,
    "local.killed": 0.2,
    "local.malformed": -0.1,
}
"""Passing visible tests is measured and earns nothing: printing their outputs would pass them."""
_LOCAL_COMPONENTS = {TESTER: ("valid", "killed"), CODER: ("visible",)}
_MADE_UP = (Case(given="[0]", expected="0"),)
_NUM_MUTANTS = 12
"""The mutants from which a noisy expert chooses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A problem being worked on: its judge, and what the team has written."""

    judge: Judge
    work: State

    @property
    def problem(self) -> CodeProblem:
        return self.judge.problem

    @property
    def share_passed(self) -> float:
        """The share of the hidden tests that the newest program passes."""
        return self.work.num_hidden_passed / len(self.problem.hidden)

    @property
    def is_solved(self) -> bool:
        """Whether the newest program passes every hidden test, and those given ones that the dataset counts."""
        shown_pass = all(one.passed for one in self.work.visible[: self.problem.num_visible_deciding])
        return shown_pass and self.work.num_hidden_passed == len(self.problem.hidden)

    @property
    def is_done(self) -> bool:
        """Whether it passes all given and generated tests, which is all that the team can know."""
        seen = (*self.work.visible, *self.work.generated)
        return bool(seen) and all(one.passed for one in seen)

    def refused(self, agent: str, reason: str) -> "Draft":
        """The draft with the reason why the newest answer of `agent` was malformed, empty if it was not."""
        role = ROLES.index(agent)
        refusals = (*self.work.refusals[:role], reason, *self.work.refusals[role + 1 :])
        return replace(self, work=replace(self.work, refusals=refusals))


class CodeEnvironment(Demonstrator, ToolEnvironment):
    """All programming problems."""

    roles = ROLES
    weights = DEFAULT_WEIGHTS
    Options = CodeOptions
    over = "the episode is over: all tests that the team can see pass"
    remedy = (
        "ask for fewer or longer tests (num_visible_tests, num_hidden_tests, max_generated_tests) or raise "
        "max_answer_characters"
    )
    states_are_immutable = True
    max_answer_characters = None

    def problem(self, options: CodeOptions, *, split: Split, index: int, seed: int) -> Mapping[str, Any] | None:
        """A row of the split's dataset; None where problems are drawn."""
        if tables(options)[split].dataset == "procedural":
            return None
        return table_problem(options, split=split, index=index, seed=seed).model_dump(mode="json")

    def draw(self, options: CodeOptions, rng: Random) -> Mapping[str, Any]:
        return draw_puzzle(options, rng)

    def deciding(self, problem: Mapping[str, Any]) -> Mapping[str, Any]:
        """The requested function, in either kind of program."""
        return {"puzzle": problem["puzzle"], **problem["parameters"]}

    def complete_problem(self, options: CodeOptions, drawn: Mapping[str, Any], rng: Random) -> Mapping[str, Any] | None:
        made = make_problem(PUZZLES[drawn["puzzle"]], drawn["parameters"], drawn["kind"], options)
        return made.model_dump(mode="json") if made else None

    def start(self, problem: Mapping[str, Any]) -> Draft:
        return Draft(judge=Judge(CodeProblem.model_validate(problem)), work=State())

    def longest_answer(self, options: CodeOptions) -> int:
        return options.max_answer_characters

    def observe(self, state: Draft, agent: str) -> str:
        return state_text(state.problem, state.work, agent)

    def instructions(self, state: Draft, agent: str) -> str:
        return instructions(state.problem, agent)

    def ending(self, state: Draft, agent: str) -> str:
        return TESTS_ENDING if agent == TESTER else PROGRAM_ENDING

    def final_answer(self, state: Draft, agent: str, text: str) -> str:
        """The last tests, or the last block of a program."""
        if agent == TESTER:
            return final_tests(text, max_cases=state.problem.bounds.max_cases)
        return final_program(text, state.problem.entry)

    def tool_calls(self, state: Draft, agent: str, answer: str) -> Iterator[ToolCall]:
        if agent == TESTER:
            return state.judge.tests_calls(cases_in(answer, state.problem), state.work.program)
        return state.judge.program_calls(_program(state, answer), state.work.cases)

    def step(self, state: Draft, agent: str, answer: str, tools: Tools) -> Step:
        after, local = _apply_tests(state, answer, tools) if agent == TESTER else _apply_code(state, answer, tools)
        return Step(
            state=after.refused(agent, ""),
            solved=after.is_solved,
            success=after.is_solved,
            done=after.is_done,
            team={"passed": after.share_passed},
            local={**local, "malformed": 0.0},
        )

    def after_malformed(self, state: Draft, agent: str, error: MalformedAction) -> Step:
        is_unknown = agent == TESTER and state.problem.reference is None
        return Step(
            state=state.refused(agent, str(error)),
            team={"passed": 0.0},
            local={} if is_unknown else dict.fromkeys(_LOCAL_COMPONENTS[agent], 0.0),
            team_from_start={"passed": state.share_passed, "solved": float(state.is_solved)},
        )

    def picture(self, state: Draft, *, color: bool) -> str:
        return picture(state.problem, state.work, color=color)

    def noisy_expert(self, state: Draft, agent: str, *, noise: float, rng: Random) -> str:
        """The spare tests, or else the given ones, each with another test's output with probability `noise`; or the reference
        program, with that probability a mutant of it.

        Raises ConfigurationError for the coder of a problem without a reference.
        """
        if agent == TESTER:
            return _tests(state.problem, noise, rng)
        program = _reference(state.problem)
        wrong = mutants(program, max_mutants=_NUM_MUTANTS)
        return rng.choice(wrong) if wrong and rng.random() < noise else program

    def random_answer(self, state: Draft, agent: str, rng: Random) -> str:
        """A test of two random numbers, or a program that ignores its input and returns one."""
        problem, number = state.problem, rng.randrange(100)
        if agent == TESTER:
            return f"{rng.randrange(100)} => {number}"
        return f"print({number})" if problem.kind == "stdin" else f"def {problem.entry}(*a): return {number}"

    def scramble(self, state: Draft, rng: Random, tools: Tools) -> Draft:
        """The draft with a mutant that fails a given test, of which no hidden test is run; itself if there is none."""
        wrong = mutants(_reference(state.problem), max_mutants=_NUM_MUTANTS)
        if not wrong:
            return state
        program = rng.choice(wrong)
        visible = state.judge.verdicts(program, state.problem.visible, tools)
        after = replace(state, work=State(program=program, visible=visible))
        return state if after.is_done else after


def _program(draft: Draft, answer: str) -> str:
    return program_in(answer, max_characters=draft.problem.bounds.max_answer_characters)


def _apply_code(draft: Draft, answer: str, tools: Tools) -> tuple[Draft, dict[str, float]]:
    judge, program = draft.judge, _program(draft, answer)
    visible = judge.verdicts(program, draft.problem.visible, tools)
    work = replace(
        draft.work,
        program=program,
        visible=visible,
        generated=judge.verdicts(program, draft.work.cases, tools),
        num_hidden_passed=judge.num_hidden_passed(program, tools),
    )
    return replace(draft, work=work), {"visible": _num_passed(visible) / max(1, len(visible))}


def _apply_tests(draft: Draft, answer: str, tools: Tools) -> tuple[Draft, dict[str, float]]:
    cases, program = cases_in(answer, draft.problem), draft.work.program
    generated = () if program is None else draft.judge.verdicts(program, cases, tools)
    after = replace(draft, work=replace(draft.work, cases=cases, generated=generated))
    return after, draft.judge.worth(cases, tools)


def _num_passed(verdicts: Sequence[Verdict]) -> int:
    return sum(one.passed for one in verdicts)


def _tests(problem: CodeProblem, noise: float, rng: Random) -> str:
    """The expert's tests, in the tester's grammar. Hidden tests are never revealed; without other tests, one is made up."""
    cases = (problem.spare or problem.visible or _MADE_UP)[: problem.bounds.max_cases]
    outputs = [case.expected for case in (*problem.visible, *problem.spare)] or ["0"]
    written = [case._replace(expected=rng.choice(outputs)) if rng.random() < noise else case for case in cases]
    return "\n".join(format_case(case, problem.kind) for case in written)


def _reference(problem: CodeProblem) -> str:
    if problem.reference is None:
        raise ConfigurationError(
            f"environment.options.dataset: {problem.statement.splitlines()[0][:60]!r} has no reference program and "
            "therefore no expert; use procedural, humaneval, apps or code_contests for expert play and warm starts"
        )
    return problem.reference
