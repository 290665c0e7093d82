"""Invented names: pronounceable, unique, and unlike the words around them.

Names of several words are made of places taken from one stream, so that no place stands in the name of something else.
"""

from collections.abc import Iterator
from itertools import islice
from random import Random

_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aiou"
_SHORT_SYLLABLES = tuple(consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS)
_ENDS = ("dan", "lor", "mik", "nav", "rus", "tol", "vak", "zim")
_FIRM_WORDS = ("Works", "Mills", "Press", "Lines")
_WORK_WORDS = ("Garden", "Winter", "Harbor", "Letters", "Mirror")
_NUM_PARTS = 60
"""Given names, and surnames."""


def short_names(rng: Random) -> Iterator[str]:
    """All names of four letters in a random order.

    **Example** `"Kozu"`.
    """
    names = [(first + second).capitalize() for first in _SHORT_SYLLABLES for second in _SHORT_SYLLABLES]
    rng.shuffle(names)
    yield from names


def place_names(rng: Random) -> Iterator[str]:
    """All names of one word and three syllables in a random order.

    **Example** `"Zakomik"`.
    """
    names = [
        (first + second + end).capitalize()
        for first in _SHORT_SYLLABLES
        for second in _SHORT_SYLLABLES
        for end in _ENDS
    ]
    rng.shuffle(names)
    yield from names


def person_names(places: Iterator[str], rng: Random) -> Iterator[str]:
    """Given name and surname in a random order; each part is shared by several people, never both."""
    given = [f"{name}{'nlr'[index % 3]}" for index, name in enumerate(islice(short_names(rng), _NUM_PARTS))]
    surnames = list(islice(places, _NUM_PARTS))
    pairs = [f"{first} {last}" for first in given for last in surnames]
    rng.shuffle(pairs)
    yield from pairs


def firm_names(places: Iterator[str], rng: Random) -> Iterator[str]:
    """A word of its own and a kind of firm.

    **Example** `"Dirosim Works"`.
    """
    return (f"{name} {rng.choice(_FIRM_WORDS)}" for name in places)


def work_names(places: Iterator[str], rng: Random) -> Iterator[str]:
    """A title of three words.

    **Example** `"Winter in Ralotol"`.
    """
    return (f"{rng.choice(_WORK_WORDS)} in {name}" for name in places)
