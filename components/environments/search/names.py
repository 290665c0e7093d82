"""Invented names: pronounceable, unique, and unlike the words around them.

Names of several words take their place names from one stream, so no place is part of the names of two things.
"""

from collections.abc import Iterator
from itertools import islice
from random import Random

_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aiou"
_SYLLABLES = tuple(consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS)
_ENDS = ("dan", "lor", "mik", "nav", "rus", "tol", "vak", "zim")
_FIRM_WORDS = ("Works", "Mills", "Press", "Lines")
_WORK_WORDS = ("Garden", "Winter", "Harbor", "Letters", "Mirror")
_NUM_PARTS = 60
"""Number of given names, and of surnames."""


def short_names(rng: Random) -> Iterator[str]:
    """All names of four letters in random order, for example `"Kozu"`."""
    return _shuffle([(first + second).capitalize() for first in _SYLLABLES for second in _SYLLABLES], rng)


def place_names(rng: Random) -> Iterator[str]:
    """All names of one word and three syllables in random order, for example `"Zakomik"`."""
    pairs = [(first + second).capitalize() for first in _SYLLABLES for second in _SYLLABLES]
    return _shuffle([pair + end for pair in pairs for end in _ENDS], rng)


def person_names(places: Iterator[str], rng: Random) -> Iterator[str]:
    """Given name and surname in random order. Several people share each part, but no two share both."""
    given = [f"{name}{'nlr'[index % 3]}" for index, name in enumerate(islice(short_names(rng), _NUM_PARTS))]
    surnames = list(islice(places, _NUM_PARTS))
    yield from _shuffle([f"{first} {last}" for first in given for last in surnames], rng)


def firm_names(places: Iterator[str], rng: Random) -> Iterator[str]:
    """A place and a kind of firm, for example `"Dirosim Works"`."""
    return (f"{name} {rng.choice(_FIRM_WORDS)}" for name in places)


def work_names(places: Iterator[str], rng: Random) -> Iterator[str]:
    """A title of three words, for example `"Winter in Ralotol"`."""
    return (f"{rng.choice(_WORK_WORDS)} in {name}" for name in places)


def _shuffle(names: list[str], rng: Random) -> Iterator[str]:
    rng.shuffle(names)
    yield from names
