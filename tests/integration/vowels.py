"""A reward of one's own that hardly any two answers share."""

from collections.abc import Sequence

from components.schema import Episode, Node


def vowels(episode: Episode, node: Node) -> Sequence[float]:
    """The share of vowels in each answer."""
    return [sum(letter in "aeiou" for letter in each.text) / max(len(each.text), 1) for each in node.candidates]
