"""Limits of what an environment shows and of what an answer may contain."""

from collections.abc import Mapping

from components.frozen import Settings


class Sizes(Settings):
    """Limits of one environment. `ascii_only` folds what is shown to printable ASCII."""

    num_passages: int
    """Passages per query."""
    num_lines: int
    """Marked lines per answer."""
    line_characters: int
    """Characters of text after a mark."""
    num_sub_questions: int
    """Sub-questions per episode."""
    question_characters: int
    passage_characters: int
    evidence_characters: int
    """Of all passages shown, marks included."""
    num_free_words: int
    """Unneeded words that a sub-question may take from the passages before it counts as a list of guesses."""
    ascii_only: bool

    @property
    def action_characters(self) -> int:
        """The longest well-formed answer in short form, without thoughts."""
        return self.num_lines * (len("#99=\n") + self.line_characters) - 1


SIZES_BY_LEVEL: Mapping[int, Sizes] = {
    0: Sizes(
        num_passages=2,
        num_lines=1,
        line_characters=20,
        num_sub_questions=3,
        question_characters=40,
        passage_characters=40,
        evidence_characters=90,
        num_free_words=0,
        ascii_only=True,
    ),
    1: Sizes(
        num_passages=3,
        num_lines=3,
        line_characters=120,
        num_sub_questions=6,
        question_characters=240,
        passage_characters=320,
        evidence_characters=1600,
        num_free_words=2,
        ascii_only=True,
    ),
    2: Sizes(
        num_passages=3,
        num_lines=4,
        line_characters=160,
        num_sub_questions=8,
        question_characters=600,
        passage_characters=700,
        evidence_characters=5000,
        num_free_words=4,
        ascii_only=False,
    ),
}
"""Level -> sizes: 0 for a character-level model, 1 for a small language model, 2 for a large one and real passages."""
