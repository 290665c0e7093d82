"""BM25 over a local corpus.

Source: Robertson et al., "Okapi at TREC-3" (1994), in the variant of Lucene
(Kamphuis et al., ECIR 2020) with k1 1.5 and b 0.75.
"""

import logging
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from components.environments.search.corpus import corpus_digest
from components.environments.search.questions import Text
from components.identity import fingerprint
from components.schema import Passage, Query

_WORD = re.compile(r"\w{1,64}")
"""Longer words are split, so that agents' text cannot fill the cache of stems."""
_MAX_STEMS = 1 << 16
_MAX_QUERY_WORDS = 128
"""Only the first known words of a query count: each costs a pass over all passages that contain it."""
_METHOD = "lucene"
_K1, _B = 1.5, 0.75
_TITLE_WEIGHT = 2
"""Titles count this often, so that the passage about an entity ranks above those that mention it."""


class Bm25Retriever:
    """A `Retriever` over passages in memory. Finds only those that share a word with the query; ties keep their order."""

    def __init__(self, passages: Iterable[Text]) -> None:
        import bm25s  # type: ignore[import-untyped, unused-ignore]
        import Stemmer  # type: ignore[import-not-found, unused-ignore]
        from bm25s.stopwords import STOPWORDS_EN  # type: ignore[import-untyped, unused-ignore]

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG, which would fill a run's log
        self._passages = tuple(dict.fromkeys(passages))
        self._stopwords = frozenset(STOPWORDS_EN)
        self._stem = lru_cache(maxsize=_MAX_STEMS)(Stemmer.Stemmer("english").stemWord)
        self._vocabulary: dict[str, int] = {}
        documents = [self._number(passage) for passage in self._passages]
        self._index = bm25s.BM25(method=_METHOD, k1=_K1, b=_B)
        self._index.index((documents, dict(self._vocabulary)), show_progress=False)
        settings = [_METHOD, _K1, _B, _TITLE_WEIGHT, _WORD.pattern, _MAX_QUERY_WORDS]
        versions = [str(bm25s.__version__), str(Stemmer.version())]
        self.digest = fingerprint(["bm25", corpus_digest(self._passages), *settings, versions])

    def search(self, query: Query) -> tuple[Passage, ...]:
        known = [self._vocabulary[word] for word in self._words(query.text) if word in self._vocabulary]
        known = known[:_MAX_QUERY_WORDS]
        if not known or query.num_passages < 1:
            return ()
        scores = self._index.get_scores_from_ids(known)
        return tuple(
            Passage(title=self._passages[place][0], text=self._passages[place][1], score=float(scores[place]))
            for place in best_places(scores, query.num_passages)
        )

    def _number(self, passage: Text) -> list[int]:
        """The words of a passage as numbers, new ones added to the vocabulary."""
        title, text = passage
        words = self._words(title) * _TITLE_WEIGHT + self._words(text)
        return [self._vocabulary.setdefault(word, len(self._vocabulary)) for word in words]

    def _words(self, text: str) -> list[str]:
        """The words of a text in lower case, stemmed, without stop words."""
        return [self._stem(word) for word in _WORD.findall(text.lower()) if word not in self._stopwords]


def best_places(scores: Any, count: int) -> list[int]:
    """The indices of the `count` largest scores above 0, largest first, ties in order.

    **Example** scores (0, 2, 1, 2), count 2: indices 1 and 3.
    """
    places = np.flatnonzero(scores > 0)
    if len(places) > count:
        least = np.partition(scores[places], -count)[-count]
        places = places[scores[places] >= least]
    order = np.lexsort((places, -scores[places]))
    return [int(place) for place in places[order[:count]]]
