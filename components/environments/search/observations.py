"""The observation of an agent: the question, the sub-questions so far, the newest passages, and whose turn it is.

Q home of boss of Kozu?
#1 home of Nali
+ Kozu: boss Nali, town Timo
R>
"""

import unicodedata
from collections.abc import Iterator
from functools import cache

from components.environments.search.grammar import resolve_references, single_line
from components.environments.search.sizes import Sizes
from components.environments.search.state import SearchState, SubQuestion
from components.environments.shared.text import shorten
from components.errors import MalformedAction

SEARCHER = "searcher"
REASONER = "reasoner"
ROLES = (SEARCHER, REASONER)
_ENDS = {SEARCHER: "S", REASONER: "R"}

_LAYOUT = (
    "You see the question after Q; sub-questions, numbered #1, #2 and so on, each with = and its answer once it is known; "
    "the newest passages after +, as title: text; and in the last line S for the searcher or R for the reasoner, with ! "
    "when your previous answer was malformed.\n"
    "Lines that begin with none of the marks below are taken for your thoughts. In what you write, #1 stands for the "
    "answer of sub-question 1 once it is known."
)
_DUTIES = {
    SEARCHER: (
        "You are the searcher of a team that answers questions from a collection of passages. You search it; the reasoner "
        "reads what you find, then asks on or gives the final answer.\n{layout}\n"
        "Write at most {lines}, each with at most {characters} characters behind its mark:\n"
        "? words      search for these words (or: Search Query: words)\n"
        "#1 = words   note the answer of an open sub-question that the passages tell\n"
        "Search for what is still missing: first from the question itself, later for the open sub-questions. "
        "Example: '? capital of Freedonia'."
    ),
    REASONER: (
        "You are the reasoner of a team that answers questions from a collection of passages. The searcher finds passages; "
        "you break the question into sub-questions for it, and answer once the passages tell the answer.\n{layout}\n"
        "Either ask, with at most {lines}, or give the final answer in one; at most {characters} characters behind a mark:\n"
        "? words   ask a sub-question (or: ### words)\n"
        "= words   the final answer, as short as possible (or: Answer: words); it ends the episode\n"
        "A sub-question names what the passages have just told. Example: '? river through the capital of Freedonia'."
    ),
}


@cache
def instructions(agent: str, sizes: Sizes) -> str:
    """Role and answer grammar of `agent`. The examples are about a place that is in no passage."""
    lines = "one line" if sizes.num_lines == 1 else f"{sizes.num_lines} lines"
    return _DUTIES[agent].format(layout=_LAYOUT, lines=lines, characters=sizes.line_characters)


def state_text(question: str, state: SearchState, agent: str, sizes: Sizes) -> str:
    """The state as `agent` sees it, every part within `sizes`."""
    lines = [f"Q {shorten(_format_line(question, sizes), sizes.question_characters)}"]
    lines += [f"#{number} {_sub_question(each, state, sizes)}" for number, each in enumerate(state.sub_questions, 1)]
    lines += _passages(state, sizes)
    lines.append(f"{_ENDS[agent]}{'!' if agent in state.refused else ''}>")
    return "\n".join(lines)


def fold_to_ascii(text: str) -> str:
    """`text` in printable ASCII: accents dropped, white space as spaces, anything else as a question mark.

    **Example** `"Beyoncé – 東京"` is `"Beyonce ? ??"`.
    """
    if text.isascii() and text.isprintable():
        return text
    plain = (mark for mark in unicodedata.normalize("NFKD", text) if not unicodedata.combining(mark))
    return "".join(" " if mark.isspace() else mark if " " <= mark <= "~" else "?" for mark in plain)


def _passages(state: SearchState, sizes: Sizes) -> Iterator[str]:
    """The newest passages that fit, one per line."""
    left = sizes.evidence_characters
    for title, text in state.evidence:
        line = shorten(
            f"+ {_format_line(title, sizes)}: {_format_line(text, sizes)}", min(sizes.passage_characters, left - 1)
        )
        if len(line) + 1 > left or left < 11:
            return
        left -= len(line) + 1
        yield line


def _sub_question(asked: SubQuestion, state: SearchState, sizes: Sizes) -> str:
    text = shorten(_format_line(_spell_out(asked.text, state), sizes), sizes.line_characters)
    return (
        text
        if asked.answer is None
        else f"{text} = {shorten(_format_line(asked.answer, sizes), sizes.line_characters)}"
    )


def _spell_out(text: str, state: SearchState) -> str:
    """`text` with references replaced by answers; unchanged while one of them is open."""
    try:
        return resolve_references(text, state.answers)
    except MalformedAction:
        return text


def _format_line(text: str, sizes: Sizes) -> str:
    """`text` on one line, without characters that UTF-8 cannot encode."""
    line = single_line(text)
    return fold_to_ascii(line) if sizes.ascii_only else line.encode("utf-8", "replace").decode("utf-8")
