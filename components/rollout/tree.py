"""One episode while it is played: its environment and the lines of play through it."""

from collections.abc import Iterator

from components.environments.base import EnvironmentFamily, MultiAgentEnv, Tools
from components.errors import ConfigurationError, TransientError
from components.rollout.branch import Branch, BranchPoint
from components.rollout.rules import Rules, Start
from components.schema import Episode, Node


class Tree:
    """The lines of an episode, driven by `play`. The first is the selected branch."""

    def __init__(self, start: Start, family: EnvironmentFamily, tools: Tools, rules: Rules) -> None:
        self._start, self._rules = start, rules
        self._nodes: list[Node] = []
        self._build_error: str | None = None
        self._env = self._built(family, tools)
        self._lines = [] if self._env is None else [self._line(self._env, BranchPoint(state=self._env.snapshot()))]

    def lines(self) -> Iterator[Branch]:
        """All lines, with those that begin at the newest nodes, and those that begin while the others are asked to go on."""
        self._begin()
        number = 0
        while number < len(self._lines):
            yield self._lines[number]
            number += 1
            if number == len(self._lines):
                self._begin()

    def finished(self) -> Episode:
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
        if self._env is not None:
            self._lines += [self._line(self._env, fork) for fork in begun]

    def _line(self, env: MultiAgentEnv, fork: BranchPoint) -> Branch:
        return Branch(env, self._start, self._rules, self._nodes, fork)

    def _built(self, family: EnvironmentFamily, tools: Tools) -> MultiAgentEnv | None:
        try:
            env = family.build(self._start.problem, tools)
            env.measures_value = self._rules.measures_value
        except (ConfigurationError, TransientError):
            raise
        except Exception as error:  # the border of an episode, as that of its lines
            self._build_error = f"build: {type(error).__name__}: {error}"
            return None
        return env
