"""The problem's own checker: a program that says whether an output is right, where several are."""

from components.environments.code.problem import CodeProblem
from components.schema import Execution, ExecutionResult, Limits

CHECKER_LIMITS = Limits(wall_seconds=10.0, cpu_seconds=4.0)


def checking(problem: CodeProblem, *, given: str, expected: str, output: str) -> Execution:
    """The run of the checker on one output.

    The working directory has the files `input`, `expected` and `output`. The checker accepts by ending normally, and refuses
    by any other end: `sys.exit(1)`, a failed assert, an output that it cannot read, or a limit.

    **Example** `a, b = map(int, open("output").read().split()); assert a + b == int(open("input").read())`.
    """
    return Execution(
        program=problem.checker,
        files={"input": given, "expected": expected, "output": output},
        limits=CHECKER_LIMITS,
    )


def accepts(result: ExecutionResult) -> bool:
    """Whether a checker's run accepted the output."""
    return result.status == "ok"
