"""An episode rendered for people: question, sub-questions, passages, and the answer with its verdict."""

import textwrap
from collections.abc import Iterator

from components.environments.search.grading import normalize
from components.environments.search.observations import fold_to_ascii
from components.environments.search.questions import Question
from components.environments.search.state import SearchState
from components.environments.shared.pictures import apply_style

_WIDTH = 100
_NUM_SHOWN = 6
_BOLD, _DIM, _GOOD, _BAD, _NAME = "1", "2", "32", "31", "36"


def picture(question: Question, state: SearchState, *, color: bool) -> str:
    """The state in plain ASCII or with ANSI colours, the newest passages first."""
    return "\n".join(
        apply_style(line, style) if color else line for text, style in _lines(question, state) for line in _wrap(text)
    )


def _lines(question: Question, state: SearchState) -> Iterator[tuple[str, str]]:
    yield question.text, _BOLD
    for number, each in enumerate(state.sub_questions, 1):
        yield f"#{number} {each.text}" + (" (open)" if each.answer is None else f" = {each.answer}"), _NAME
    for title, text in state.evidence[:_NUM_SHOWN]:
        needed = any(hop.is_in(title, text) for hop in question.hops)
        yield f"{'*' if needed else '-'} {title}: {text}", _GOOD if needed else _DIM
    if state.answer is not None:
        verdict = "right" if state.verdict.exact else f"wrong, F1 {state.verdict.f1:.2f}"
        yield f"answer: {state.answer} ({verdict})", _GOOD if state.verdict.exact else _BAD
        if normalize(state.answer) != normalize(question.answers[0]):
            yield f"gold: {' | '.join(question.answers)}", _DIM


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(fold_to_ascii(text), _WIDTH, subsequent_indent="  ") or [""]
