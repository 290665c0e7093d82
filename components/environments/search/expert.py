"""The lines of play that follows the gold chain, and of random play."""

from collections.abc import Iterator
from random import Random

from components.environments.search.environment import SearchEnv
from components.environments.search.grading import mentions, normalized
from components.environments.search.grammar import single_line
from components.environments.search.observations import folded
from components.environments.search.questions import Hop


def searcher_line_texts(env: SearchEnv) -> list[str]:
    """The expert searcher's lines: notes of sub-questions that the passages answer, then queries for the missing passages,
    or for the last one again if none is missing."""
    notes = list(_notes(env))[: env.sizes.num_lines - 1]
    return [*notes, *_queries(env, env.sizes.num_lines - len(notes))]


def reasoner_line_text(env: SearchEnv, *, patient: bool) -> str:
    """The expert reasoner's line: the answer once every passage was found, else a sub-question for the next one.

    A passage that was asked for and not found is missing from the corpus: the expert then answers, unless it is `patient`,
    because the searcher may have searched badly.
    """
    missing = [number for number in range(len(env.question.hops)) if number not in env.state.found]
    can_ask = len(env.state.sub_questions) < env.sizes.num_sub_questions
    for number in missing:
        hop = env.question.hops[number]
        wanted = hop.names and not hop.is_asked_by(env.question.text)
        if can_ask and (patient or (wanted and number not in env.state.asked)):
            return f"?{_spelled(env, hop.question or hop.title)}"
    return f"={_spelled(env, env.question.answers[0])}"


def random_name(env: SearchEnv, rng: Random) -> str:
    """A title or word of a passage, or a word of the question if there is no passage."""
    shown = env.state.evidence[: env.sizes.num_passages]
    if not shown:
        return random_word(env, rng)
    title, text = rng.choice(shown)
    return _spelled(env, rng.choice([title, rng.choice(text.split() or [title])]))


def random_word(env: SearchEnv, rng: Random) -> str:
    """A word of the question."""
    return _spelled(env, rng.choice(env.question.text.split()))


def _notes(env: SearchEnv) -> Iterator[str]:
    answers = {normalized(hop.question): hop for hop in env.question.hops if hop.question and hop.answer}
    for number, asked in enumerate(env.state.sub_questions, 1):
        hop = answers.get(normalized(asked.text))
        if asked.answer is None and hop is not None and env.question.hops.index(hop) in env.state.found:
            yield f"#{number}={_spelled(env, hop.answer)}"


def _queries(env: SearchEnv, count: int) -> list[str]:
    """Up to `count` queries for missing hops, preferably those named by the question, a sub-question or a passage."""
    hops = env.question.hops
    if not hops:
        return [f"?{_spelled(env, env.question.text)}"]
    missing = [hop for number, hop in enumerate(hops) if number not in env.state.found]
    reachable = [hop for hop in missing if _is_named(env, hop)]
    chosen = (reachable or missing or [hops[-1]])[:count]
    return list(dict.fromkeys(f"?{_spelled(env, hop.question or hop.title)}" for hop in chosen))


def _is_named(env: SearchEnv, hop: Hop) -> bool:
    read = (
        env.question.text,
        *(asked.text for asked in env.state.sub_questions),
        *(f"{title} {text}" for title, text in env.state.evidence),
    )
    return not hop.names or any(mentions(text, name) for text in read for name in hop.names)


def _spelled(env: SearchEnv, text: str) -> str:
    """`text` on one line of allowed length, in ASCII if the environment shows only that."""
    line = single_line(text)
    fitting = (folded(line) if env.sizes.ascii_only else line)[: env.sizes.line_characters].strip()
    return fitting if normalized(fitting) else "x"
