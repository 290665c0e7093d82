"""One episode while it is played: the lines of play through it."""

from collections.abc import Iterator

from components.environments.play import Position, Referee
from components.errors import ConfigurationError, TransientError
from components.rollout.branch import Branch, BranchPoint
from components.rollout.rules import SamplingRules, Start
from components.schema import Episode, Node


class Tree:
    """The lines of an episode, driven by `play`. The first is the selected branch."""

    def __init__(self, start: Start, referee: Referee, rules: SamplingRules) -> None:
        self._start, self._referee, self._rules = start, referee, rules
        self._nodes: list[Node] = []
        self._build_error: str | None = None
        begun = self._find_start()
        self._lines = [] if begun is None else [self._line(BranchPoint(position=begun))]

    def lines(self) -> Iterator[Branch]:
        """All lines, with those that begin at the newest nodes, and those that begin while the others are asked to go on."""
        self._begin()
        number = 0
        while number < len(self._lines):
            yield self._lines[number]
            number += 1
            if number == len(self._lines):
                self._begin()

    def finish(self) -> Episode:
        """The episode with the nodes played so far. A failed one is no success."""
        cuts = tuple(cut for line in self._lines if (cut := line.cut) is not None)
        error = self._lines[0].error if self._lines else self._build_error
        return Episode(
            problem=self._start.problem,
            episode=self._start.episode,
            nodes=tuple(self._nodes),
            success=bool(self._lines) and self._lines[0].success and error is None,
            error=error,
            cuts=cuts or None,
        )

    def _begin(self) -> None:
        """Begin the lines at the forks of the others."""
        begun = [fork for line in self._lines for fork in line.forks]
        for line in self._lines:
            line.forks = []
        self._lines += map(self._line, begun)

    def _line(self, fork: BranchPoint) -> Branch:
        return Branch(self._referee, self._start, self._rules, self._nodes, fork)

    def _find_start(self) -> Position | None:
        try:
            return self._referee.start(self._start.problem)
        except (ConfigurationError, TransientError):
            raise
        except Exception as error:  # the border of an episode, as that of its lines
            self._build_error = f"build: {type(error).__name__}: {error}"
            return None
