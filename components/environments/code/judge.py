"""Runs the programs of one problem on its tests, and judges what they print."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from components.environments.base import ToolCall, Tools
from components.environments.code.grading import accepts, checking
from components.environments.code.mutants import mutants
from components.environments.code.novelty import repeats
from components.environments.code.problem import Case, CodeProblem
from components.environments.code.programs import Verdict, agrees, execution, has_timed_out, output_of, verdict
from components.errors import ExecutionFailed
from components.schema import ExecutionResult, Limits

_REFERENCE_LIMITS = Limits(wall_seconds=5.0, cpu_seconds=1.0)
"""Limits of the reference and its mutants, some of which never end."""
_NUM_EQUIVALENCE_CASES = 3
"""A mutant that passes this many of the problem's tests counts as correct."""
_LONGEST_EQUIVALENCE_CASE = 20_000
"""In characters: mutants are not run on longer tests."""
_HIDDEN_AT_ONCE = 16
"""Hidden tests run in blocks of this many, in parallel; the first block is told before."""
_MAX_TIMEOUTS = 2
"""After a block that brings a program's hidden tests to this many timeouts, the rest count as failed without being run: all of
them would cost minutes per program."""


class Judge:
    """Judges programs and tests of one problem in one episode. What it finds about the reference's mutants is remembered."""

    def __init__(self, problem: CodeProblem) -> None:
        assert problem.hidden, f"no hidden test, so nothing decides: {problem.statement!r}"
        self.problem = problem
        self._wrong_programs: tuple[str, ...] | None = None

    def program_calls(self, program: str, cases: Sequence[Case]) -> Iterator[ToolCall]:
        """The runs that judging a program begins with; `cases` are the tester's tests."""
        for case in (*self.problem.visible, *cases, *self.problem.hidden[:_HIDDEN_AT_ONCE]):
            yield execution(self.problem, program, case)

    def tests_calls(self, cases: Sequence[Case], program: str | None) -> Iterator[ToolCall]:
        """The runs that judging the tester's tests needs; `program` is the newest."""
        problem = self.problem
        if program is not None:
            yield from (execution(problem, program, case) for case in cases)
        new = self._new(cases)
        if problem.reference is None or not new:
            return
        for case in new:
            if case.given.rstrip() not in self._known:
                yield execution(problem, problem.reference, case, limits=_REFERENCE_LIMITS)
        for mutant in self._mutants:
            for case in (*self._equivalence_cases, *new):
                yield execution(problem, mutant, case, limits=_REFERENCE_LIMITS)

    def verdicts(
        self, program: str, cases: Sequence[Case], tools: Tools, *, limits: Limits | None = None
    ) -> tuple[Verdict, ...]:
        """The verdict of each test on a program."""
        return self._judge(cases, self._results(program, cases, tools, limits=limits), tools)

    def num_hidden_passed(self, program: str, tools: Tools) -> int:
        """How many of the hidden tests a program passes."""
        num_passed = num_timeouts = 0
        hidden = self.problem.hidden
        for first in range(0, len(hidden), _HIDDEN_AT_ONCE):
            block = hidden[first : first + _HIDDEN_AT_ONCE]
            if first > 0:
                tools.prepare([execution(self.problem, program, case) for case in block])
            results = self._results(program, block, tools)
            num_passed += sum(one.passed for one in self._judge(block, results, tools))
            num_timeouts += sum(map(has_timed_out, results))
            if num_timeouts >= _MAX_TIMEOUTS:
                break
        return num_passed

    def worth(self, cases: Sequence[Case], tools: Tools) -> dict[str, float]:
        """The tester's components: the share of `cases` that are right and new (`valid`), and of the wrong programs that they
        find (`killed`).

        Without a reference only inputs of the problem's own tests tell which outputs are right; without such an input nothing
        is known, and the component is absent.
        """
        new = self._new(cases)
        if self.problem.reference is None:
            known = [self._is_valid(case, tools) for case in new if case.given.rstrip() in self._known]
            return {"valid": sum(known) / len(cases)} if known else {}
        valid = [self._is_valid(case, tools) for case in new]
        found = {mutant: self._find_failed(mutant, new, tools) for mutant in self._mutants} if new else {}
        killed = [
            any(fails and right for fails, right in zip(found[mutant], valid, strict=True))
            for mutant in (self._wrong(tools) if new else ())
        ]
        return {"valid": sum(valid) / len(cases), "killed": sum(killed) / max(1, len(killed))}

    def _is_valid(self, case: Case, tools: Tools) -> bool:
        """Whether the output that the tester expects is right: the dataset's for a known input, else the reference's."""
        right: str | None = self._known.get(case.given.rstrip())
        if right is None:
            assert self.problem.reference is not None, "without a reference only known inputs are judged"
            (result,) = self._results(self.problem.reference, [case], tools, limits=_REFERENCE_LIMITS)
            right = output_of(result, self.problem.kind)
        if right is None:
            return False
        if self.problem.checker:
            return self._find_accepted([(case.given, right, case.expected)], tools)[0]
        return agrees(right, case.expected, self.problem.kind, self.problem.grader)

    def _find_failed(self, program: str, cases: Iterable[Case], tools: Tools) -> list[bool]:
        """Which of `cases` the reference or a mutant fails. All are run, so that exactly the calls told before are recorded."""
        return [not one.passed for one in self.verdicts(program, tuple(cases), tools, limits=_REFERENCE_LIMITS)]

    def _results(
        self, program: str, cases: Iterable[Case], tools: Tools, *, limits: Limits | None = None
    ) -> tuple[ExecutionResult, ...]:
        runs = (execution(self.problem, program, case, limits=limits) for case in cases)
        return tuple(map(tools.run, runs))

    def _judge(self, cases: Sequence[Case], results: Sequence[ExecutionResult], tools: Tools) -> tuple[Verdict, ...]:
        kind, grader, accepted = self.problem.kind, self.problem.grader, dict[Case, bool]()
        if self.problem.checker:
            outputs = [(case, output_of(result, kind)) for case, result in zip(cases, results, strict=True)]
            printed = [(case, output) for case, output in outputs if output is not None]
            triples = [(case.given, case.expected, output) for case, output in printed]
            accepted = dict(zip((case for case, _ in printed), self._find_accepted(triples, tools), strict=True))
        return tuple(
            verdict(result, case, kind, grader, accepted=accepted.get(case))
            for case, result in zip(cases, results, strict=True)
        )

    def _find_accepted(self, triples: Sequence[tuple[str, str, str]], tools: Tools) -> list[bool]:
        """Which of (input, expected, output) the checker accepts. Its runs depend on outputs, so they are not told before.

        Raises ExecutionFailed if it refuses the expected output of one of the problem's own tests: then it judges nothing.
        """
        problem = self.problem
        checks = [checking(problem, given=given, expected=wanted, output=text) for given, wanted, text in triples]
        tools.prepare(checks)
        accepted = [accepts(tools.run(check)) for check in checks]
        for (given, wanted, _), good in zip(triples, accepted, strict=True):
            if not good and self._known.get(given.rstrip()) == wanted:
                itself = checking(problem, given=given, expected=wanted, output=wanted)
                if not accepts(tools.run(itself)):
                    raise ExecutionFailed(f"the checker of {problem.statement[:60]!r} refuses an expected output")
        return accepted

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

    def _wrong(self, tools: Tools) -> tuple[str, ...]:
        """The mutants that fail some of the problem's own tests."""
        if self._wrong_programs is None:
            cases = self._equivalence_cases
            self._wrong_programs = tuple(
                mutant for mutant in self._mutants if any(self._find_failed(mutant, cases, tools))
            )
        return self._wrong_programs
