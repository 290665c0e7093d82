"""Exact match and token F1 over normalised text, the best over all gold answers.

Sources: the SQuAD evaluation script (Rajpurkar et al., arXiv:1606.05250) and, for yes and no, HotpotQA's (Yang et al.,
arXiv:1809.09600), which 2WikiMultihopQA and the retrieval libraries share.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = {ord(mark): None for mark in string.punctuation}
_CLOSED = frozenset({"yes", "no", "noanswer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`exact`: exact match with any gold answer. `f1`: the best token F1, in [0, 1]."""

    exact: bool
    f1: float


NOTHING = Verdict(exact=False, f1=0.0)


@lru_cache(maxsize=64)
def normalize(text: str) -> str:
    """`text` in lower case, without ASCII punctuation and English articles, with single spaces.

    **Example** `"The  Eiffel-Tower!"` is `"eiffeltower"`; `"A cat, the hat"` is `"cat hat"`.
    """
    bare = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def words_of(text: str) -> list[str]:
    """The words of the normalised text."""
    return normalize(text).split()


def exact_match(answer: str, gold: str) -> bool:
    """Whether both are equal once normalised."""
    return normalize(answer) == normalize(gold)


def token_f1(answer: str, gold: str) -> float:
    """The harmonic mean of precision and recall over the words of the normalised texts, counted with multiplicity.

    If one of the two is yes, no or noanswer, it is 1 only if they are equal; likewise if one has no words.

    **Example** "in Paris France" against "Paris": precision 1/3, recall 1, F1 0.5.
    """
    given, wanted = normalize(answer), normalize(gold)
    if given != wanted and _CLOSED & {given, wanted}:
        return 0.0
    given_words, wanted_words = given.split(), wanted.split()
    if not given_words or not wanted_words:
        return float(given_words == wanted_words)
    shared = sum((Counter(given_words) & Counter(wanted_words)).values())
    return 2 * shared / (len(given_words) + len(wanted_words))


def judge(answer: str, golds: Sequence[str], *, question: str) -> Verdict:
    """The best verdict over the gold answers. An answer without words or a copy of the question is worth nothing."""
    if not golds or not normalize(answer) or exact_match(answer, question):
        return NOTHING
    return Verdict(
        exact=any(exact_match(answer, gold) for gold in golds), f1=max(token_f1(answer, gold) for gold in golds)
    )


def mentions(text: str, name: str) -> bool:
    """Whether `text` contains the words of `name` in a row, both normalised; False for a name without words.

    **Example** "home of Ann Toval" mentions "Ann Toval" and does not mention "An".
    """
    wanted = normalize(name)
    return bool(wanted) and f" {wanted} " in f" {normalize(text)} "
