"""Observations: one short line for tiny models, or whole sentences; and the team's work for people.

The short line is `T` or `R`, the expression, `:`, the previous turn as `printed,answered;`, and for the reasoner the output of
this turn's program and `>`: `T12+7*3:` and `R12+7*3:40>`, and a turn later `R12+7*3:40,41;33>`.
"""

from components.environments.math.history import Progress, Round, Run
from components.environments.shared.pictures import apply_style

TOOL_AGENT = "tool_agent"
REASONER = "reasoner"

FAILED_MARK, NONE_MARK, OTHER_MARK = "!", "_", "?"
COMPACT_ALPHABET = f"0123456789+-*/%().,:;>TRprint{FAILED_MARK}{NONE_MARK}{OTHER_MARK}"

_COMPACT_WIDTH = 14
_SHOWN_TURNS = 2
_MAX_SHOWN_PROGRAM = 600
_CUT = "[...]"

_DUTIES = {
    TOOL_AGENT: (
        "You are the tool agent of a team of two that solves a mathematical problem. Write a Python program that computes "
        "the answer and prints it alone on its last line. The program is run for you, without a network and for a few "
        "seconds; the reasoner sees what it prints."
    ),
    REASONER: (
        "You are the reasoner of a team of two that solves a mathematical problem. The tool agent has written a program; you "
        "see what it printed, which may be wrong. Your answer is the team's answer."
    ),
}
_COMPACT_READING = {
    TOOL_AGENT: "You read T, an expression, a colon, and of the turn before, if any, what was printed and answered.",
    REASONER: (
        "You read R, an expression, a colon, of the turn before, if any, what was printed and answered, and then what the "
        f"program printed now: {FAILED_MARK} if it failed, {NONE_MARK} if there is none."
    ),
}
_PROSE_GRAMMAR = {
    TOOL_AGENT: "Put the program into one ```python block, for example:\n```python\nprint(1234567 * 7654321)\n```",
    REASONER: "Think, and end with the final answer alone in \\boxed{}, for example \\boxed{9449772114007}.",
}
_COMPACT_GRAMMAR = {
    TOOL_AGENT: "Answer with the program and nothing else. Example: print(1234567*7654321)",
    REASONER: "Answer with the value of the expression and nothing else. Example: 9449772114007",
}
EXAMPLE_ANSWER = "9449772114007"
"""The answer of the example, which is not the answer of any problem."""


def instructions(agent: str, *, compact: bool) -> str:
    """The agent's duty, the format of its observations, and the grammar of its answers."""
    if compact:
        return f"{_DUTIES[agent]}\n{_COMPACT_READING[agent]}\n{_COMPACT_GRAMMAR[agent]}"
    return f"{_DUTIES[agent]}\n{_PROSE_GRAMMAR[agent]}"


def compact_view(agent: str, expression: str, progress: Progress) -> str:
    """The short line."""
    rounds = progress.rounds
    former = f"{_compact_run(rounds[-1].run)},{_compact(rounds[-1].answer)};" if rounds else ""
    if agent == TOOL_AGENT:
        return f"T{expression}:{former}"
    return f"R{expression}:{former}{_compact_run(progress.run)}>"


def prose_view(agent: str, statement: str, progress: Progress) -> str:
    """The problem, the newest turns with program, output and answer, and for the reasoner this turn's program."""
    parts = [f"Problem:\n{statement}"]
    first = max(0, len(progress.rounds) - _SHOWN_TURNS)
    for number, played in enumerate(progress.rounds[first:], start=first + 1):
        parts.append(
            f"Turn {number}:\n{_describe_run(played.run)}\nThe reasoner's answer: {_ascii(played.answer or 'none')}"
        )
    if agent == REASONER:
        parts.append(f"Now:\n{_describe_run(progress.run)}")
    return "\n\n".join(parts)


def picture(statement: str, progress: Progress, *, solved: bool, color: bool) -> str:
    """The team's work for people."""
    lines = [apply_style(statement, "1") if color else statement]
    pending = [Round(run=progress.run, answer=None)] if progress.run is not None else []
    for number, played in enumerate((*progress.rounds, *pending), start=1):
        is_right = solved and number == len(progress.rounds)
        answer = f"answer  {played.answer or '-'}"
        if color and played.answer:
            answer = apply_style(answer, "1;32" if is_right else "33")
        lines += [f"-- turn {number}", _describe_run(played.run), f"{answer}{' (right)' if is_right else ''}"]
    return "\n".join(lines)


def show_output(stdout: str, max_characters: int) -> str:
    """The end of a program's output, in printable ASCII, with a mark in place of the beginning if it is cut."""
    stdout = stdout.rstrip()
    text = _ascii(stdout[-max_characters:])
    if len(stdout) <= max_characters and len(text) <= max_characters:
        return text
    return _CUT + text[-(max_characters - len(_CUT)) :]


def _ascii(text: str) -> str:
    """`text` with everything but printable ASCII and line feeds escaped, for any tokenizer."""
    return "".join(
        character if character == "\n" or " " <= character <= "~" else character.encode("unicode_escape").decode()
        for character in text.replace("\r\n", "\n").replace("\t", "    ")
    )


def _describe_run(run: Run | None) -> str:
    """A program and its result."""
    if run is None:
        return "There is no program."
    if not run.program:
        return f"There is no program: {show_output(run.failure, 200)}"
    program = _ascii(run.program.rstrip())
    if len(program) > _MAX_SHOWN_PROGRAM:
        program = f"{program[:_MAX_SHOWN_PROGRAM]}\n{_CUT}"
    told = f"The program:\n{program}\nprinted:\n{run.output or '(nothing)'}"
    return told if run.printed is not None else f"{told}\nIt gave no answer: {show_output(run.failure, 200)}"


def _compact_run(run: Run | None) -> str:
    if run is None:
        return NONE_MARK
    return FAILED_MARK if run.printed is None else _compact(run.printed)


def _compact(text: str | None) -> str:
    """`text` cut to the width of a field, with a mark for each character outside the alphabet of a line."""
    if text is None:
        return NONE_MARK
    return "".join(one if one in "0123456789+-*/%()." else OTHER_MARK for one in text[:_COMPACT_WIDTH])
