"""One programming problem being played: programs run in the sandbox, verdicts are made here."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice

from components.environments.base import MultiAgentEnv, Step, ToolCall, Tools
from components.environments.code.answer_extraction import PROGRAM_ENDING, TESTS_ENDING, final_tests
from components.environments.code.grading import accepts, checking
from components.environments.code.grammar import cases_in
from components.environments.code.mutants import mutants
from components.environments.code.novelty import repeats
from components.environments.code.observations import CODER, ROLES, TESTER, State, observation
from components.environments.code.problem import Case, CodeProblem
from components.environments.code.programs import Verdict, agrees, execution, output_of, program_in, timed_out, verdict
from components.environments.code.render import picture
from components.environments.shared.answer_extraction import final_program, reasoning_instructions
from components.errors import ExecutionFailed, MalformedAction
from components.schema import ExecutionResult, Limits, Observation

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
_LONGEST_EQUIVALENCE_CASE = 20_000
"""In characters: mutants are not run on longer tests."""
_HIDDEN_AT_ONCE = 16
"""Hidden tests run in blocks of this many, in parallel; the first block is announced."""
_MAX_TIMEOUTS = 2
"""After a block that brings a program's hidden tests to this many timeouts, the rest count as failed without being run: all of
them would cost minutes per program."""


class CodeEnv(MultiAgentEnv):
    """The `MultiAgentEnv` of a programming problem.

    `success` means that the newest program passes every hidden test, and those given ones that the dataset counts; `done` that
    it passes all given and generated tests, which is all that the team can know.
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
        seen = observation(self.problem, self._state, agent)
        if self.answers == "compact":
            return seen
        ending = TESTS_ENDING if agent == TESTER else PROGRAM_ENDING
        return replace(seen, instructions=reasoning_instructions(seen.instructions, ending))

    def final_answer(self, agent: str, text: str) -> str:
        """The last tests, or the last block of a program."""
        if agent == TESTER:
            return final_tests(text, max_cases=self.problem.bounds.max_cases)
        return final_program(text)

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
        is_unknown = agent == TESTER and self.problem.reference is None
        local = {} if is_unknown else dict.fromkeys(_LOCAL_COMPONENTS[agent], 0.0)
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
        for case in (*self.problem.visible, *self._state.cases, *self.problem.hidden[:_HIDDEN_AT_ONCE]):
            yield execution(self.problem, program, case)

    def _coded(self, action: str) -> tuple[State, dict[str, float]]:
        program, problem = self._program(action), self.problem
        visible = self._verdicts(program, problem.visible)
        state = replace(
            self._state,
            program=program,
            visible=visible,
            generated=self._verdicts(program, self._state.cases),
            num_hidden_passed=self._num_hidden_passed(program),
        )
        return state, {"visible": _num_passed(visible) / max(1, len(visible))}

    def _num_hidden_passed(self, program: str) -> int:
        num_passed = num_timeouts = 0
        hidden = self.problem.hidden
        for first in range(0, len(hidden), _HIDDEN_AT_ONCE):
            block = hidden[first : first + _HIDDEN_AT_ONCE]
            if first > 0:
                self._tools.prepare([execution(self.problem, program, case) for case in block])
            results = self._results(program, block)
            num_passed += _num_passed(self._judged(block, results))
            num_timeouts += sum(map(timed_out, results))
            if num_timeouts >= _MAX_TIMEOUTS:
                break
        return num_passed

    def _tester_calls(self, action: str) -> Iterator[ToolCall]:
        problem = self.problem
        cases = cases_in(action, problem)
        if self._state.program is not None:
            yield from (execution(problem, self._state.program, case) for case in cases)
        new = self._new(cases)
        if problem.reference is None or not new:
            return
        for case in new:
            if case.given.rstrip() not in self._known:
                yield execution(problem, problem.reference, case, limits=_REFERENCE_LIMITS)
        for mutant in self._mutants:
            for case in (*self._equivalence_cases, *new):
                yield execution(problem, mutant, case, limits=_REFERENCE_LIMITS)

    def _tested(self, action: str) -> tuple[State, dict[str, float]]:
        cases = cases_in(action, self.problem)
        program = self._state.program
        generated = () if program is None else self._verdicts(program, cases)
        new = self._new(cases)
        state = replace(self._state, cases=cases, generated=generated)
        if self.problem.reference is None:
            return state, self._known_validity(new, len(cases))
        valid = [self._is_valid(case) for case in new]
        found = {mutant: self._failed(mutant, new) for mutant in self._mutants} if new else {}
        killed = [
            any(fails and right for fails, right in zip(found[mutant], valid, strict=True))
            for mutant in (self._wrong_programs if new else ())
        ]
        return state, {"valid": sum(valid) / len(cases), "killed": sum(killed) / max(1, len(killed))}

    def _known_validity(self, new: Sequence[Case], num_cases: int) -> dict[str, float]:
        """`valid` without a reference: only inputs of the problem's own tests tell which outputs are right. Without such an
        input nothing is known, and the component is absent."""
        known = [self._is_valid(case) for case in new if case.given.rstrip() in self._known]
        return {"valid": sum(known) / num_cases} if known else {}

    def _is_valid(self, case: Case) -> bool:
        """Whether the output that the tester expects is right: the dataset's for a known input, else the reference's."""
        right: str | None = self._known.get(case.given.rstrip())
        if right is None:
            assert self.problem.reference is not None, "without a reference only known inputs are judged"
            (result,) = self._results(self.problem.reference, [case], limits=_REFERENCE_LIMITS)
            right = output_of(result, self.problem.kind)
        if right is None:
            return False
        if self.problem.checker:
            return self._accepted([(case.given, right, case.expected)])[0]
        return agrees(right, case.expected, self.problem.kind, self.problem.grader)

    def _failed(self, program: str, cases: Iterable[Case]) -> list[bool]:
        """Which of `cases` the reference or a mutant fails. All are run, so that exactly the announced `calls` are recorded."""
        return [not one.passed for one in self._verdicts(program, tuple(cases), limits=_REFERENCE_LIMITS)]

    def _verdicts(self, program: str, cases: Sequence[Case], *, limits: Limits | None = None) -> tuple[Verdict, ...]:
        return self._judged(cases, self._results(program, cases, limits=limits))

    def _results(
        self, program: str, cases: Iterable[Case], *, limits: Limits | None = None
    ) -> tuple[ExecutionResult, ...]:
        runs = (execution(self.problem, program, case, limits=limits) for case in cases)
        return tuple(map(self._tools.run, runs))

    def _judged(self, cases: Sequence[Case], results: Sequence[ExecutionResult]) -> tuple[Verdict, ...]:
        kind, grader, accepted = self.problem.kind, self.problem.grader, dict[Case, bool]()
        if self.problem.checker:
            outputs = [(case, output_of(result, kind)) for case, result in zip(cases, results, strict=True)]
            printed = [(case, output) for case, output in outputs if output is not None]
            asked = [(case.given, case.expected, output) for case, output in printed]
            accepted = dict(zip((case for case, _ in printed), self._accepted(asked), strict=True))
        return tuple(
            verdict(result, case, kind, grader, accepted=accepted.get(case))
            for case, result in zip(cases, results, strict=True)
        )

    def _accepted(self, triples: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Which of (input, expected, output) the checker accepts. Its runs depend on outputs, so they are not announced.

        Raises ExecutionFailed if it refuses the expected output of one of the problem's own tests: then it judges nothing.
        """
        problem = self.problem
        checks = [checking(problem, given=given, expected=wanted, output=text) for given, wanted, text in triples]
        self._tools.prepare(checks)
        accepted = [accepts(self._tools.run(check)) for check in checks]
        for (given, wanted, _), good in zip(triples, accepted, strict=True):
            if not good and self._known.get(given.rstrip()) == wanted:
                itself = checking(problem, given=given, expected=wanted, output=wanted)
                if not accepts(self._tools.run(itself)):
                    raise ExecutionFailed(f"the checker of {problem.statement[:60]!r} refuses an expected output")
        return accepted

    def _program(self, action: str) -> str:
        return program_in(action, max_characters=self.problem.bounds.max_answer_characters)

    def _new(self, cases: Sequence[Case]) -> list[Case]:
        """The tests that do not repeat given ones."""
        problem = self.problem
        return [case for case in cases if not any(repeats(case, one, problem.kind) for one in problem.visible)]

    @cached_property
    def _known(self) -> Mapping[str, str]:
        """The right outputs for the problem's own inputs, without trailing white space."""
        problem = self.problem
        return {case.given.rstrip(): case.expected for case in (*problem.visible, *problem.hidden, *problem.spare)}

    @cached_property
    def _mutants(self) -> tuple[str, ...]:
        if self.problem.reference is None:
            return ()
        return mutants(self.problem.reference, max_mutants=self.problem.bounds.max_mutants)

    @cached_property
    def _equivalence_cases(self) -> tuple[Case, ...]:
        cases = (*self.problem.hidden, *self.problem.visible)
        short = (case for case in cases if len(case.given) + len(case.expected) <= _LONGEST_EQUIVALENCE_CASE)
        return tuple(islice(short, _NUM_EQUIVALENCE_CASES))

    @cached_property
    def _wrong_programs(self) -> tuple[str, ...]:
        """The mutants that fail some of the problem's own tests."""
        return tuple(mutant for mutant in self._mutants if any(self._failed(mutant, self._equivalence_cases)))

    def _solved(self, state: State) -> bool:
        shown_pass = all(one.passed for one in state.visible[: self.problem.num_visible_deciding])
        return shown_pass and state.num_hidden_passed == len(self.problem.hidden)

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
