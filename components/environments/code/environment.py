"""One programming problem being played: programs run in the sandbox, verdicts are made here."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from components.environments.base import MultiAgentEnv, Step, ToolCall, Tools
from components.environments.code.grammar import cases_in
from components.environments.code.mutants import mutants
from components.environments.code.novelty import repeats
from components.environments.code.observations import CODER, ROLES, TESTER, State, observation
from components.environments.code.picture import picture
from components.environments.code.problem import Case, CodeProblem
from components.environments.code.programs import Verdict, agrees, execution, program_in, verdict
from components.errors import MalformedAction
from components.schema import Limits, Observation

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
_REFERENCE_LIMITS = Limits(wall_seconds=5.0, cpu_seconds=1.0)
"""Limits of the reference and its mutants, some of which never end."""
_NUM_EQUIVALENCE_CASES = 3
"""A mutant that passes this many of the problem's tests counts as correct."""


class CodeEnv(MultiAgentEnv):
    """The `MultiAgentEnv` of a programming problem.

    `success` means that the newest program passes every hidden test, `done` that it passes all given and generated tests, which
    is all that the team can know.
    """

    roles = ROLES
    weights = DEFAULT_WEIGHTS
    over = "the episode is over: all tests that the team can see pass"

    _state: State

    def __init__(self, problem: CodeProblem, tools: Tools) -> None:
        assert problem.hidden, f"no hidden test, so nothing decides: {problem.statement!r}"
        super().__init__(State())
        self.problem = problem
        self._tools = tools

    @property
    def state(self) -> State:
        """The current state."""
        return self._state

    def observe(self, agent: str) -> Observation:
        assert agent in ROLES, f"agent {agent!r} is none of {ROLES}"
        return observation(self.problem, self._state, agent)

    def asked(self, agent: str, answer: str) -> Iterator[ToolCall]:
        return self._tester_calls(answer) if agent == TESTER else self._coder_calls(answer)

    def step(self, agent: str, answer: str) -> Step:
        state, local = self._tested(answer) if agent == TESTER else self._coded(answer)
        return Step(
            state=self._noted(state, agent, ""),
            solved=self._solved(state),
            done=_done(state),
            team={"passed": self._share_passed(state)},
            local={**local, "malformed": 0.0},
        )

    def after_malformed(self, agent: str, error: MalformedAction) -> Step:
        local = dict.fromkeys(_LOCAL_COMPONENTS[agent], 0.0)
        return Step(
            state=self._noted(self._state, agent, str(error)),
            team={"passed": 0.0},
            local=local,
            team_from_start={"passed": self._share_passed(self._state), "solved": float(self.success)},
        )

    def _share_passed(self, state: State) -> float:
        return state.num_hidden_passed / len(self.problem.hidden)

    def _noted(self, state: State, agent: str, refusal: str) -> State:
        """The state with the reason why an agent's newest answer was malformed, empty if it was not."""
        role = ROLES.index(agent)
        return replace(state, refusals=(*state.refusals[:role], refusal, *state.refusals[role + 1 :]))

    def place_program(self, program: str) -> None:
        """Set the state to one with `program` and without generated tests; no hidden test is run."""
        self._state = State(program=program, visible=self._verdicts(program, self.problem.visible))

    def _coder_calls(self, action: str) -> Iterator[ToolCall]:
        program = self._program(action)
        for case in (*self.problem.visible, *self._state.cases, *self.problem.hidden):
            yield execution(self.problem, program, case)

    def _coded(self, action: str) -> tuple[State, dict[str, float]]:
        program, problem = self._program(action), self.problem
        visible = self._verdicts(program, problem.visible)
        state = replace(
            self._state,
            program=program,
            visible=visible,
            generated=self._verdicts(program, self._state.cases),
            num_hidden_passed=_num_passed(self._verdicts(program, problem.hidden)),
        )
        return state, {"visible": _num_passed(visible) / max(1, len(visible))}

    def _tester_calls(self, action: str) -> Iterator[ToolCall]:
        problem = self.problem
        cases = cases_in(action, problem)
        if self._state.program is not None:
            yield from (execution(problem, self._state.program, case) for case in cases)
        new = self._new(cases)
        if problem.reference is None or not new:
            return
        for case in new:
            if case.given not in self._known:
                yield execution(problem, problem.reference, case, limits=_REFERENCE_LIMITS)
        for mutant in self._mutants:
            for case in (*self._equivalence_cases, *new):
                yield execution(problem, mutant, case, limits=_REFERENCE_LIMITS)

    def _tested(self, action: str) -> tuple[State, dict[str, float]]:
        cases = cases_in(action, self.problem)
        program = self._state.program
        generated = () if program is None else self._verdicts(program, cases)
        new = self._new(cases)
        valid = [self._is_valid(case) for case in new]
        found = {mutant: self._failed(mutant, new) for mutant in self._mutants} if new else {}
        killed = [
            any(fails and right for fails, right in zip(found[mutant], valid, strict=True))
            for mutant in (self._wrong_programs if new else ())
        ]
        state = replace(self._state, cases=cases, generated=generated)
        return state, {"valid": sum(valid) / len(cases), "killed": sum(killed) / max(1, len(killed))}

    def _is_valid(self, case: Case) -> bool:
        """Whether the reference has the output that the tester expects."""
        if case.given in self._known:
            return agrees(self._known[case.given], case, self.problem.kind)
        reference = self.problem.reference
        return reference is not None and not any(self._failed(reference, [case]))

    def _failed(self, program: str, cases: Iterable[Case]) -> list[bool]:
        """Which of `cases` the reference or a mutant fails. All are run, so that exactly the announced `calls` are recorded."""
        return [not one.passed for one in self._verdicts(program, cases, limits=_REFERENCE_LIMITS)]

    def _verdicts(self, program: str, cases: Iterable[Case], *, limits: Limits | None = None) -> tuple[Verdict, ...]:
        runs = ((execution(self.problem, program, case, limits=limits), case) for case in cases)
        return tuple(verdict(self._tools.run(run), case, self.problem.kind) for run, case in runs)

    def _program(self, action: str) -> str:
        return program_in(action, max_characters=self.problem.bounds.max_answer_characters)

    def _new(self, cases: Sequence[Case]) -> list[Case]:
        """The tests that do not repeat given ones."""
        problem = self.problem
        return [case for case in cases if not any(repeats(case, one, problem.kind) for one in problem.visible)]

    @cached_property
    def _known(self) -> Mapping[str, str]:
        """The reference's outputs for the problem's own inputs."""
        problem = self.problem
        if problem.reference is None:
            return {}
        return {case.given: case.expected for case in (*problem.visible, *problem.hidden, *problem.spare)}

    @cached_property
    def _mutants(self) -> tuple[str, ...]:
        if self.problem.reference is None:
            return ()
        return mutants(self.problem.reference, max_mutants=self.problem.bounds.max_mutants)

    @cached_property
    def _equivalence_cases(self) -> tuple[Case, ...]:
        return (*self.problem.hidden, *self.problem.visible)[:_NUM_EQUIVALENCE_CASES]

    @cached_property
    def _wrong_programs(self) -> tuple[str, ...]:
        """The mutants that fail some of the problem's own tests."""
        return tuple(mutant for mutant in self._mutants if any(self._failed(mutant, self._equivalence_cases)))

    def _solved(self, state: State) -> bool:
        return state.num_hidden_passed == len(self.problem.hidden)

    @property
    def done(self) -> bool:
        return _done(self._state)

    @property
    def success(self) -> bool:
        return self._solved(self._state)

    def render(self, *, color: bool) -> str:
        return picture(self.problem, self._state, color=color)


def _done(state: State) -> bool:
    seen = (*state.visible, *state.generated)
    return bool(seen) and all(one.passed for one in seen)


def _num_passed(verdicts: Sequence[Verdict]) -> int:
    return sum(one.passed for one in verdicts)
