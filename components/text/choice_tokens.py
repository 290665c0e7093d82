"""Answers by choice, token by token: which tokens continue one of the given answers.

An answer is drawn token by token among those that continue a choice, each time from the model's distribution over these alone.
So the probability of a choice is the product of its tokens' conditional ones, sampler and trainer compute the same, and a token
that is the only one has probability 1 and no gradient.
"""

from functools import lru_cache

Choices = tuple[tuple[int, ...], ...]
"""Different answers as tokens, each with the end token that tells it from one that it begins."""


def following_tokens(choices: Choices, place: int) -> tuple[int, ...]:
    """The tokens at `place` of the choices that are as long, ascending.

    **Example** choices (5, 2) and (5, 7, 2): (5,) at place 0, (2, 7) at place 1.
    """
    return tuple(sorted({choice[place] for choice in choices if place < len(choice)}))


def with_token(choices: Choices, place: int, token: int) -> Choices:
    """Those of the choices that have `token` at `place`. **Example** 7 at place 1 of the above leaves (5, 7, 2)."""
    return tuple(choice for choice in choices if place < len(choice) and choice[place] == token)


@lru_cache(maxsize=4096)
def list_allowed_tokens(choices: Choices, answer: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The tokens among which each token of `answer` was drawn. The answer begins one of the choices.

    **Example** (5, 7, 2) of the above: ((5,), (2, 7), (2,)).
    """
    allowed = []
    for place, token in enumerate(answer):
        allowed.append(following_tokens(choices, place))
        choices = with_token(choices, place, token)
        assert choices, f"token {token} at place {place} of {answer} continues none of the choices"
    return tuple(allowed)
