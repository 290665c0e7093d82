"""The state of a team, rendered for people."""

from collections.abc import Iterator

from components.environments.code.observations import State, case_lines
from components.environments.code.problem import CodeProblem
from components.environments.code.text import printable
from components.environments.shared.pictures import apply_style

_HEADING, _PASSED, _FAILED = "1;36", "32", "31"


def picture(problem: CodeProblem, state: State, *, color: bool) -> str:
    """Statement, program, tests with their verdicts, and the number of hidden tests passed, in ASCII or with ANSI colours."""
    lines = _style_lines(problem, state)
    return "\n".join(apply_style(text, style) if color and style else text for text, style in lines)


def _style_lines(problem: CodeProblem, state: State) -> Iterator[tuple[str, str]]:
    yield "problem", _HEADING
    yield from ((line, "") for line in problem.statement.splitlines())
    if state.program is not None:
        yield "program", _HEADING
        yield from ((line, "") for line in printable(state.program.rstrip("\n")).splitlines())
    for heading, cases, verdicts in (
        ("given tests", problem.visible, state.visible),
        ("the tester's tests", state.cases, state.generated),
    ):
        if cases:
            yield heading, _HEADING
            for line in case_lines(problem, cases, verdicts):
                yield line, {"+ ": _PASSED, "- ": _FAILED}.get(line[:2], "") if verdicts else ""
    yield "hidden tests", _HEADING
    num_hidden = len(problem.hidden)
    if state.program is None:
        yield f"{num_hidden}, none run yet", ""
    else:
        solved = state.num_hidden_passed == num_hidden
        yield f"{state.num_hidden_passed} of {num_hidden} pass", _PASSED if solved else _FAILED
