"""The work of a team on one problem, as small immutable values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A program, empty if malformed, and its result. `printed` is its answer; if that is None, `failure` says why."""

    program: str
    output: str
    printed: str | None
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One turn: the run of the tool agent's program, None if it did not act, and the reasoner's answer, if any."""

    run: Run | None
    answer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The turns so far, and this turn's run. `agreed`: the newest answer equals the output of its turn's program."""

    rounds: tuple[Round, ...] = ()
    run: Run | None = None
    agreed: bool = False

    @property
    def answer(self) -> str | None:
        """The newest well-formed answer of the reasoner."""
        return self.rounds[-1].answer if self.rounds else None
