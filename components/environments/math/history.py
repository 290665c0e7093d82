"""What a team has done on one problem so far, as small immutable values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A program and what it gave. `printed` is its answer, None when it gave none, and then `failure` says why.

    A malformed program has no text.
    """

    program: str
    output: str
    printed: str | None
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One turn: what the tool agent's program gave, None when it did not act, and the reasoner's answer, if any."""

    run: Run | None
    answer: str | None
