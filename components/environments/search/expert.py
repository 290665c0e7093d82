"""The lines of play that follows the gold chain, and of random play."""

from collections.abc import Iterator
from random import Random

from components.environments.search.grading import mentions, normalize
from components.environments.search.grammar import single_line
from components.environments.search.inquiry import Inquiry
from components.environments.search.observations import fold_to_ascii
from components.environments.search.questions import Hop


def searcher_line_texts(inquiry: Inquiry) -> list[str]:
    """The expert searcher's lines: notes of sub-questions that the passages answer, then queries for the missing passages,
    or for the last one again if none is missing."""
    notes = list(_notes(inquiry))[: inquiry.sizes.num_lines - 1]
    return [*notes, *_queries(inquiry, inquiry.sizes.num_lines - len(notes))]


def reasoner_line_text(inquiry: Inquiry, *, patient: bool) -> str:
    """The expert reasoner's line: the answer once every passage was found, else a sub-question for the next one.

    A passage that was asked for and not found is missing from the corpus: the expert then answers, unless it is `patient`,
    because the searcher may have searched badly.
    """
    missing = [number for number in range(len(inquiry.question.hops)) if number not in inquiry.state.found]
    for number in missing:
        hop = inquiry.question.hops[number]
        wanted = hop.names and not hop.is_asked_by(inquiry.question.text)
        if inquiry.can_ask and (patient or (wanted and number not in inquiry.state.asked)):
            return f"?{_spell(inquiry, hop.question or hop.title)}"
    return f"={_spell(inquiry, inquiry.question.answers[0])}"


def random_name(inquiry: Inquiry, rng: Random) -> str:
    """A title or word of a passage, or a word of the question if there is no passage."""
    shown = inquiry.state.evidence[: inquiry.sizes.num_passages]
    if not shown:
        return random_word(inquiry, rng)
    title, text = rng.choice(shown)
    return _spell(inquiry, rng.choice([title, rng.choice(text.split() or [title])]))


def random_word(inquiry: Inquiry, rng: Random) -> str:
    """A word of the question."""
    return _spell(inquiry, rng.choice(inquiry.question.text.split()))


def _notes(inquiry: Inquiry) -> Iterator[str]:
    answers = {normalize(hop.question): hop for hop in inquiry.question.hops if hop.question and hop.answer}
    for number, asked in enumerate(inquiry.state.sub_questions, 1):
        hop = answers.get(normalize(asked.text))
        if asked.answer is None and hop is not None and inquiry.question.hops.index(hop) in inquiry.state.found:
            yield f"#{number}={_spell(inquiry, hop.answer)}"


def _queries(inquiry: Inquiry, count: int) -> list[str]:
    """Up to `count` queries for missing hops, preferably those named by the question, a sub-question or a passage."""
    hops = inquiry.question.hops
    if not hops:
        return [f"?{_spell(inquiry, inquiry.question.text)}"]
    missing = [hop for number, hop in enumerate(hops) if number not in inquiry.state.found]
    reachable = [hop for hop in missing if _is_named(inquiry, hop)]
    chosen = (reachable or missing or [hops[-1]])[:count]
    return list(dict.fromkeys(f"?{_spell(inquiry, hop.question or hop.title)}" for hop in chosen))


def _is_named(inquiry: Inquiry, hop: Hop) -> bool:
    read = (
        inquiry.question.text,
        *(asked.text for asked in inquiry.state.sub_questions),
        *(f"{title} {text}" for title, text in inquiry.state.evidence),
    )
    return not hop.names or any(mentions(text, name) for text in read for name in hop.names)


def _spell(inquiry: Inquiry, text: str) -> str:
    """`text` on one line of allowed length, in ASCII if the environment shows only that."""
    line = single_line(text)
    fitting = (fold_to_ascii(line) if inquiry.sizes.ascii_only else line)[: inquiry.sizes.line_characters].strip()
    return fitting if normalize(fitting) else "x"
