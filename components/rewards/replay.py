"""One recorded episode played again, node by node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from components.environments.base import NO_TOOLS, ToolCall, Tools
from components.environments.family import Family
from components.environments.play import Position
from components.identity import GroupKey
from components.rewards.base import Rubric
from components.schema import ROOT, ActionOutcome, Episode, Node
from components.turn_order import Phase, TurnOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A place in the tree, below a candidate or at the start: the position there, and what led to it.

    `phase` and `parallel_index` are those of the newest answer. After a divergent answer of a tool the position may differ from
    the recorded one.
    """

    position: Position
    phase: Phase | None = None
    parallel_index: int = 0
    has_diverged: bool = False

    @property
    def is_last_in_phase(self) -> bool:
        return self.phase is None or self.parallel_index == len(self.phase.agents) - 1


class Replay:
    """The outcomes of `episode`, recomputed: `outcomes_N_K`, None for a candidate that cannot be scored.

    `turn_order` None accepts any agents.
    """

    def __init__(
        self,
        episode: Episode,
        family: Family,
        tools: Tools,
        rubric: Rubric,
        turn_order: TurnOrder | None,
    ) -> None:
        self.episode = episode
        self.outcomes_N_K: list[tuple[ActionOutcome | None, ...]] = []
        self._tools, self._rubric = tools, rubric
        self._turn_order = turn_order if episode.ended is None else None  # a program decides who acts
        self._replayed_N_K: list[list[ActionOutcome]] = []
        self._ends = episode.program_ends
        self._known_K: dict[int, list[tuple[ActionOutcome, Position]]] = {}
        self._wanted = {node.parent for node in episode.nodes}
        self._path = [n for n, node in enumerate(episode.nodes) if node.parent is None]
        self._places: dict[tuple[int, int], _Place] = {}
        measures_value = any(
            candidate.outcome.value_gain is not None for node in episode.nodes for candidate in node.candidates
        )
        self._referee = family.referee(tools, measures_value=measures_value)
        if episode.nodes:
            self._newest = self._places[ROOT] = _Place(position=self._referee.start(episode.problem))

    def calls(self, n: int) -> list[ToolCall]:
        """The tool calls of replaying node `n`; of a joint step they are those of its first node."""
        if beside := self._joint.get(n):
            return [call for m in beside for call in self._calls(m)]
        return [] if n in self._known_K else self._calls(n)

    def _calls(self, n: int) -> list[ToolCall]:
        node = self.episode.nodes[n]
        position, agent = self._place(node).position, node.group.agent
        texts = dict.fromkeys(candidate.text for candidate in node.candidates)
        return [call for text in texts for call in self._referee.calls(position, agent, text)]

    def step(self, n: int) -> None:
        """Recompute the outcomes of node `n`, the next one. Raises AssertionError, as `score_shard`."""
        node = self.episode.nodes[n]
        place = self._place(node)
        phase = self._check_phase(n, place)
        acted_K = self._act(n, place.position)
        outcomes_K = [outcome for outcome, _ in acted_K]
        self.outcomes_N_K.append(tuple(self._scorable(node, k, outcome) for k, outcome in enumerate(outcomes_K)))
        self._replayed_N_K.append(outcomes_K)
        for k, candidate in enumerate(node.candidates):
            goes_on = node.parent is None and k == node.chosen
            if not goes_on and (n, k) not in self._wanted:
                continue
            reached = _Place(
                position=acted_K[k][1],
                phase=phase,
                parallel_index=node.parallel_index,
                has_diverged=place.has_diverged or not _repeats(outcomes_K[k], candidate.outcome),
            )
            self._places[n, k] = reached
            if goes_on and not node.is_beside:
                self._newest = reached

    def _act(self, n: int, position: Position) -> list[tuple[ActionOutcome, Position]]:
        """The outcome of each candidate of a node, and the position after it."""
        node = self.episode.nodes[n]
        if beside := self._joint.get(n):
            self._act_together(beside, position)
        if n in self._known_K:
            return self._known_K[n]
        if node.is_beside:
            return [(candidate.outcome, position) for candidate in node.candidates]
        agent, texts_K = node.group.agent, [candidate.text for candidate in node.candidates]
        after = {text: self._referee.act_or_unscorable(position, agent, text) for text in dict.fromkeys(texts_K)}
        acted = [after[text] for text in texts_K]
        for k, (outcome, there) in enumerate(acted):
            if (end := self._ends.get((n, k))) is not None:
                acted[k] = self._referee.finish(there, agent, outcome, end)
        return acted

    def _act_together(self, beside: Sequence[int], position: Position) -> None:
        """Play the joint step of these nodes: candidate k of each with candidate k of the others."""
        nodes = [self.episode.nodes[m] for m in beside]
        agents = [node.group.agent for node in nodes]
        texts_K = list(zip(*([candidate.text for candidate in node.candidates] for node in nodes), strict=True))
        after = {
            texts: self._referee.act_together(position, dict(zip(agents, texts, strict=True)))
            for texts in dict.fromkeys(texts_K)
        }
        for m, agent in zip(beside, agents, strict=True):
            self._known_K[m] = [(after[texts][0][agent], after[texts][1]) for texts in texts_K]

    @cached_property
    def _joint(self) -> dict[int, list[int]]:
        """The nodes of each joint step, by the first of them."""
        beside: dict[int, list[int]] = {}
        for n in self._path:
            if self.episode.nodes[n].parallel_index == 0:
                first = n
            beside.setdefault(first, []).append(n)
        agents_of = {n: [self.episode.nodes[m].group.agent for m in every] for n, every in beside.items()}
        return {n: every for n, every in beside.items() if self._referee.rules.acts_together(agents_of[n])}

    @cached_property
    def replayed(self) -> Episode:
        """The episode as it was replayed."""
        nodes = [
            replace(
                node,
                candidates=tuple(
                    replace(candidate, outcome=outcome, reward=self._rubric.reward(outcome))
                    for candidate, outcome in zip(node.candidates, outcomes_K, strict=True)
                ),
            )
            for node, outcomes_K in zip(self.episode.nodes, self._replayed_N_K, strict=True)
        ]
        success = bool(nodes) and self._newest.position.is_solved and self.episode.error is None
        return replace(self.episode, nodes=tuple(nodes), success=success)

    def _place(self, node: Node) -> _Place:
        """Where the next node acts: below its parent, or at the end of the selected branch."""
        if node.parent is None:
            return self._newest
        assert node.parent in self._places, (
            f"{node.group} was recorded below {node.parent}, which is no earlier candidate"
        )
        return self._places[node.parent]

    def _check_phase(self, n: int, place: _Place) -> Phase | None:
        """The phase of node `n`. Asserts that it is the one of the turn order; after a divergence any is accepted."""
        if self._turn_order is None or place.has_diverged:
            return None
        node, phase = self.episode.nodes[n], place.phase
        if node.parallel_index == 0:
            phase = self._referee.next_phase(place.position, self._turn_order, after=phase)
        due = () if phase is None else phase.groups(self.episode.problem.problem_id, self.episode.episode)
        if node.parent is not None:
            # A line off the selected branch may begin between agents side by side: each is checked alone.
            acted: tuple[GroupKey, ...] = (node.group,)
            is_next = node.parallel_index == (0 if place.is_last_in_phase else place.parallel_index + 1)
            follows = is_next and node.parallel_index < len(due)
            follows = follows and replace(node.group, branch="") == due[node.parallel_index]
        elif node.parallel_index == 0:
            # On the selected branch agents side by side follow one another, so the first answers for all. Some may be missing
            # where the episode failed, and where one of them ended it.
            beside = self._beside(n, len(due))
            acted = tuple(each.group for each in beside)
            has_ended = any(each.candidates[each.chosen].outcome.done for each in beside)
            is_whole = len(acted) == len(due) > 0 or self.episode.error is not None or has_ended
            follows = len(acted) > 0 and is_whole and acted == due[: len(acted)]
        else:
            return phase
        assert follows, f"{node.group} was recorded where {list(map(str, due))} are next, not {list(map(str, acted))}"
        return phase

    def _beside(self, n: int, count: int) -> list[Node]:
        """Node `n` of the selected branch and those after it, `count` in all."""
        first = self._path.index(n)
        return [self.episode.nodes[n] for n in self._path[first : first + count]]

    def _scorable(self, node: Node, k: int, replayed: ActionOutcome) -> ActionOutcome | None:
        recorded = node.candidates[k].outcome
        if replayed.unscorable is not None:
            return None
        if recorded.unscorable is None and not _repeats(replayed, recorded):
            assert self._tools is not NO_TOOLS, (
                f"{node.group} candidate {k}: replay gives {replayed}, recorded is {recorded}"
            )
            return None
        return replayed


def _repeats(replayed: ActionOutcome, recorded: ActionOutcome) -> bool:
    """Whether the replay agrees with the record in all components that the record has."""
    if replayed == recorded:
        return True
    as_recorded = replace(
        replayed,
        team=_pick_named(recorded.team, replayed.team),
        local=_pick_named(recorded.local, replayed.local),
        team_from_start=recorded.team_from_start and _pick_named(recorded.team_from_start, replayed.team_of_episode),
        value_gain=None if recorded.value_gain is None else replayed.value_gain,
    )
    return as_recorded == recorded


def _pick_named(recorded: Mapping[str, float], replayed: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in replayed.items() if name in recorded}
