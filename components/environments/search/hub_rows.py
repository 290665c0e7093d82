"""Dataset rows as questions, in the column layouts of their usual copies.

| layout | columns |
|---|---|
| HotpotQA, 2WikiMultihopQA | question, answer, supporting_facts {title, sent_id}, context {title, sentences} |
| MuSiQue | question, answer, answer_aliases, answerable, paragraphs, question_decomposition |
| FlashRAG (nq and others) | question, golden_answers, metadata {supporting_facts, context {title, content}} |
| Bamboogle | Question, Answer |
| NQ-open | question, answer as a list |

The authors' own files, where context and supporting_facts are lists of pairs, are read as well.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components.environments.search.grading import normalize
from components.environments.search.grammar import single_line
from components.environments.search.questions import Hop, Question, Text
from components.environments.shared.splits import tell_of_contradictions
from components.errors import ConfigurationError

_REFERENCE = re.compile(r"#(\d+)")
_BODIES = ("sentences", "content", "text")
Row = Mapping[str, Any]
QuestionsAndPassages = tuple[tuple[Question, ...], tuple[Text, ...]]


def read_rows(rows: Iterable[Row], *, field: str) -> QuestionsAndPassages:
    """The questions in `rows` in order, and all their passages.

    Raises ConfigurationError naming `field` for a row in none of the layouts above.
    """
    questions: list[Question] = []
    passages: dict[Text, None] = {}
    for number, row in enumerate(rows):
        try:
            question, brought = question_of(row)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ConfigurationError(
                f"{field}: row {number} with the columns {sorted(row)} has none of the known layouts ({error!r}); expected "
                "question and answer or golden_answers, and for passages context and supporting_facts, or paragraphs"
            ) from error
        passages.update(dict.fromkeys(brought))
        if question is not None:
            questions.append(question)
    _tell_of_contradictions(field, questions)
    return tuple(questions), tuple(passages)


def _tell_of_contradictions(field: str, questions: Sequence[Question]) -> None:
    """Log a warning if two rows ask the same and share no answer."""
    first, told = dict[str, Question](), list[tuple[str, str]]()
    for question in questions:
        earlier = first.setdefault(question.content, question)
        if not {*map(normalize, earlier.answers)} & {*map(normalize, question.answers)}:
            told += [(question.content, " / ".join(each.answers)) for each in (earlier, question)]
    tell_of_contradictions(field, told)


def question_of(row: Row) -> tuple[Question | None, tuple[Text, ...]]:
    """The question of one row (None without a usable answer), and the passages that came with it."""
    merged = {**(row.get("metadata") or {}), **row}
    text = single_line(_text(merged["question"] if "question" in merged else merged["Question"]))
    answers = _answers(merged)
    passages, hops = _musique(merged) if "paragraphs" in merged else _hotpot(merged, text)
    if not answers or not normalize(text) or merged.get("answerable") is False:
        return None, passages
    return Question(text=text, answers=answers, hops=hops), passages


def _answers(row: Row) -> tuple[str, ...]:
    """The different gold answers, without those that normalise to nothing."""
    name = next((name for name in ("golden_answers", "answer") if name in row), "Answer")
    listed = [row[name]] if isinstance(row[name], str | None) else list(row[name])
    if name == "answer":
        listed += row.get("answer_aliases") or ()
    texts = [_text(each) for each in listed if each is not None]
    return tuple(dict.fromkeys(single_line(text) for text in texts if normalize(text)))


def _hotpot(row: Row, question: str) -> tuple[tuple[Text, ...], tuple[Hop, ...]]:
    """One hop per supporting title; first those that the question names, because the search begins there."""
    passages = tuple((title, _join(body)) for title, body in _pairs(row.get("context"), _BODIES))
    titles = dict.fromkeys(title for title, _ in _pairs(row.get("supporting_facts"), ("sent_id",)))
    hops = [Hop(title=title, names=(title,)) for title in titles]
    return passages, tuple(sorted(hops, key=lambda hop: not hop.is_asked_by(question)))


def _pairs(value: Any, seconds: Sequence[str]) -> list[tuple[str, Any]]:
    """Title and second column, from a mapping of columns, a list of rows, or a list of pairs."""
    if not value:
        return []
    if isinstance(value, Mapping):
        return list(zip(map(_text, value["title"]), _first_of(value, seconds), strict=True))
    return [
        (_text(entry["title"]), _first_of(entry, seconds))
        if isinstance(entry, Mapping)
        else (_text(entry[0]), entry[1])
        for entry in value
    ]


def _first_of(columns: Mapping[str, Any], names: Sequence[str]) -> Any:
    present = [name for name in names if name in columns]
    if not present:
        raise KeyError(" or ".join(names))
    return columns[present[0]]


def _musique(row: Row) -> tuple[tuple[Text, ...], tuple[Hop, ...]]:
    """One hop per step of the decomposition, with references replaced by the earlier steps' answers.

    A sub-question asks for a step by naming an earlier answer that it refers to, or its passage's title if it refers to none.
    """
    paragraphs = {entry["idx"]: (_text(entry["title"]), _text(entry["paragraph_text"])) for entry in row["paragraphs"]}
    steps = row.get("question_decomposition") or ()
    answers = [_text(step["answer"]) for step in steps]
    hops = []
    for step, answer in zip(steps, answers, strict=True):
        if step["paragraph_support_idx"] is None:
            continue
        title = paragraphs[step["paragraph_support_idx"]][0]
        referred = [answers[int(number) - 1] for number in _REFERENCE.findall(step["question"])]
        spelled = _REFERENCE.sub(lambda match: answers[int(match[1]) - 1], step["question"])
        hops.append(
            Hop(
                title=title,
                snippet=answer,
                names=tuple(referred) or (title,),
                question=single_line(spelled.replace(">>", " ")),
                answer=answer,
            )
        )
    return tuple(paragraphs.values()), tuple(hops)


def _join(body: Any) -> str:
    return body if isinstance(body, str) else " ".join(_text(sentence).strip() for sentence in body)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
