"""The observations of both agents: instructions, and the problem, tests, program and verdicts as compact text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from components.environments.code.grammar import format_case
from components.environments.code.problem import Case, CodeProblem
from components.environments.code.programs import Verdict
from components.environments.code.text import printable
from components.environments.shared.text import shorten

TESTER = "tester"
CODER = "coder"
ROLES = (TESTER, CODER)

_TASK = {
    "stdin": "The problem asks for a Python program that reads standard input and prints its answer.",
    "function": "The problem asks for a Python function. Its tests call it with the arguments before '=>'.",
}
_READING = (
    "Below the problem stand the given tests, the tester's tests and the newest program, each part if there is one. '+' "
    "before a test says that the newest program passes it, '-' that it fails, with what it gave instead. \\n is a new line."
)
_TESTER_DUTY = (
    "You are the tester of a team of two. You write tests that find mistakes in the coder's program: small inputs that the "
    "given tests do not cover, each with the right output, which you work out from the problem. At most {max_cases} tests, "
    "one a line, as INPUT => OUTPUT; write an input of several lines with \\n. Your answer replaces your earlier tests, so "
    "repeat those that are right and mend those that are wrong.\n{task} {reading}\n"
    "Example of the form, for another problem: {example}"
)
_CODER_DUTY = (
    "You are the coder of a team of two. You write one complete Python program that solves the problem; other tests than those "
    "shown decide whether it does. The tester's tests may be wrong: where one disagrees with the problem, follow the problem. "
    "Answer with the whole program in one ```python block, or with nothing but the program; it replaces the earlier one.\n"
    "{task} {reading}\nExample of the form, for another problem:\n{example}"
)
_TEST_EXAMPLE = {"stdin": "ann\\n3 => ann ann ann", "function": '"ann", 3 => "ann ann ann"'}
_PROGRAM_EXAMPLE = {
    "stdin": "```python\nname = input()\nprint('good morning', name)\n```",
    "function": "```python\ndef good_morning(name):\n    return 'good morning ' + name\n```",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a team. Verdicts are of the newest program, in the order of the tests."""

    program: str | None = None
    cases: tuple[Case, ...] = ()
    """The tester's newest tests."""
    visible: tuple[Verdict, ...] = ()
    generated: tuple[Verdict, ...] = ()
    num_hidden_passed: int = 0
    refusals: tuple[str, ...] = field(default=("",) * len(ROLES))
    """By role: why its newest answer was malformed, or empty."""


def state_text(problem: CodeProblem, state: State, agent: str) -> str:
    """What `agent` sees of `state`: no hidden test, nor how many of them pass."""
    return "\n".join([*_state_lines(problem, state, agent), ">"])


def instructions(problem: CodeProblem, agent: str) -> str:
    """The agent's duty, and the grammar of its answers."""
    duty, example = (_TESTER_DUTY, _TEST_EXAMPLE) if agent == TESTER else (_CODER_DUTY, _PROGRAM_EXAMPLE)
    return duty.format(
        max_cases=problem.bounds.max_cases, task=_TASK[problem.kind], reading=_READING, example=example[problem.kind]
    )


def _state_lines(problem: CodeProblem, state: State, agent: str) -> Iterator[str]:
    yield f"{agent}: {problem.statement}"
    if problem.visible:
        yield "given:"
        yield from case_lines(problem, problem.visible, state.visible)
    if state.cases:
        yield "tests:"
        yield from case_lines(problem, state.cases, state.generated)
    if state.program is not None:
        yield "program:"
        yield printable(state.program.rstrip("\n"))
    refusal = state.refusals[ROLES.index(agent)]
    if refusal:
        yield f"refused: {shorten(refusal, problem.bounds.max_case_characters)}"


def case_lines(problem: CodeProblem, cases: Sequence[Case], verdicts: Sequence[Verdict]) -> Iterator[str]:
    """One line per test: its verdict, input, expected output, and the program's output if it is wrong."""
    limit = problem.bounds.max_case_characters
    for number, case in enumerate(cases):
        text = shorten(format_case(case, problem.kind), limit)
        if number >= len(verdicts):
            yield text
        elif verdicts[number].passed:
            yield f"+ {text}"
        else:
            yield f"- {text}; got {shorten(verdicts[number].got, limit)}"
