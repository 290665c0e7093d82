"""The lines of play through an episode of a program: the selected branch, and its forks. A fork is a run of the program whose
first calls are answered as those of the line that it leaves, and whose later ones are drawn anew."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from components.environments.play import Position, Referee
from components.gateway.calls import AgentCall
from components.identity import GroupKey, name_branch
from components.rewards.base import Rubric
from components.rollout.branch import REPLAYED, make_candidate
from components.rollout.rules import SamplingRules, Start
from components.schema import ROOT, ActionOutcome, Episode, FailedBranch, Node, ProgramEnd, ReachedEnd

Acted = tuple[ActionOutcome, Position]
"""What an answer did, and the position after it."""
_NOTHING = ActionOutcome(team={}, local={}, solves=False, done=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Where a line begins. On the selected branch `parent` is None and `label` empty; else they are those of its first node.

    `calls` are those before it, of which the last has the answer that the line goes on from, and `helpers` the keys of those
    beside the work. `widths` are the numbers of candidates of the line's first calls; later ones have `width`.
    """

    position: Position
    parent: tuple[int, int] | None = None
    label: str = ""
    calls: tuple[AgentCall, ...] = ()
    helpers: frozenset[str] = frozenset()
    widths: tuple[int, ...] = ()
    width: int = 1

    @property
    def num_before(self) -> int:
        """How many answers before it are of the agents' work."""
        return len(self.calls) - len(self.helpers)

    def find_own(self, calls: Iterable[AgentCall]) -> list[AgentCall]:
        """Those of `calls` that are not from before it, in the order in which they were sampled."""
        given = {call.key for call in self.calls}
        return sorted((call for call in calls if call.key not in given), key=lambda call: (call.number, call.key))

    def find_helpers(self, own: Sequence[AgentCall]) -> frozenset[str]:
        """The keys of those of the line's own calls that are beside the work."""
        return frozenset(find_helper_calls([*self.calls, *own]) & {call.key for call in own})


def find_helper_calls(calls: Sequence[AgentCall]) -> set[str]:
    """The keys of calls that are no part of an agent's work, as those for a title: they offer no tools while others of the
    session do, and nothing continues them."""
    continued = {call.extends for call in calls}
    if not any(call.offers_tools for call in calls):
        return set()
    return {call.key for call in calls if not call.offers_tools and not call.extends and call.key not in continued}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One of a line's own calls: what a fork before it begins with, and what each candidate does; none for one beside the
    work."""

    here: Fork
    call: AgentCall
    group: GroupKey
    acted_K: tuple[Acted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What judges all lines of an episode. `decode_answer` says what a role's answer says, of its tokens.

    A program decides who acts when, so a turn is as many answers as there are `roles`. The last of these answers for the team.
    """

    start: Start
    rules: SamplingRules
    referee: Referee
    rubric: Rubric
    decode_answer: Callable[[str, Sequence[int]], str]
    roles: tuple[str, ...]

    def walk(self, fork: Fork, own: Sequence[AgentCall]) -> Iterator[Judged]:
        """A line's own calls, in order."""
        here, helpers = fork, fork.find_helpers(own)
        for call in own:
            group = self._name_group(here, call.model)
            calls = (*here.calls, call)
            if call.key in helpers:
                yield Judged(here=here, call=call, group=group, acted_K=())
                here = replace(here, calls=calls, helpers=here.helpers | {call.key})
                continue
            texts_K = [self.decode_answer(call.model, answer.tokens) for answer in call.candidates]
            after = {
                text: self.referee.act_or_unscorable(here.position, call.model, text) for text in dict.fromkeys(texts_K)
            }
            acted_K = tuple(after[text] for text in texts_K)
            yield Judged(here=here, call=call, group=group, acted_K=acted_K)
            here = replace(here, calls=calls, position=acted_K[call.chosen][1], widths=here.widths[1:])

    def _name_group(self, here: Fork, agent: str) -> GroupKey:
        turn = here.num_before // len(self.roles)
        before = [call.model for call in here.calls if call.key not in here.helpers]
        return GroupKey(
            problem_id=self.start.problem.problem_id,
            episode=self.start.episode,
            turn=turn,
            agent=agent,
            repeat=before[turn * len(self.roles) :].count(agent),
            branch=here.label,
        )

    def select(self, group: GroupKey, outcomes_K: Sequence[ActionOutcome]) -> tuple[int, bool]:
        """The candidate that goes on, and whether it was drawn at random. One that cannot be scored does only if all cannot."""
        scorable = [k for k, outcome in enumerate(outcomes_K) if outcome.unscorable is None]
        if not scorable:
            return 0, False
        rewards = [self.rubric.reward(outcomes_K[k]) for k in scorable]
        picked, explored = self.rules.choose(group, rewards, is_last=group.agent == self.roles[-1])
        return scorable[picked], explored


@dataclass(frozen=True, slots=True)
class Line:
    """A run of the program from a fork on: the `Siblings` of its session."""

    judge: Judge
    fork: Fork

    def count(self, before: Sequence[AgentCall]) -> int:
        """See `Siblings.count`."""
        own = self.fork.find_own(before)
        number = len(own) - len(self.fork.find_helpers(own))
        return self.fork.widths[number] if number < len(self.fork.widths) else self.fork.width

    def choose(self, before: Sequence[AgentCall], call: AgentCall) -> int:
        """See `Siblings.choose`."""
        if len(call.candidates) == 1:
            return 0
        earlier = [replace(each, siblings=(), chosen=0) for each in self.fork.find_own(before)]
        *_, last = self.judge.walk(self.fork, [*earlier, call])
        return self.judge.select(last.group, [outcome for outcome, _ in last.acted_K])[0]


@dataclass(slots=True)
class ForkedEpisode:
    """An episode while its lines are played, one after another. The first is the selected branch."""

    judge: Judge
    waiting: list[Fork] = field(default_factory=list)
    """Where lines are to begin."""
    _nodes: list[Node] = field(default_factory=list)
    _cuts: list[FailedBranch] = field(default_factory=list)
    _ends: list[ReachedEnd] = field(default_factory=list)
    _path: Episode | None = None
    """The episode as its selected branch ended, without nodes."""

    def __post_init__(self) -> None:
        begun = self.judge.referee.start(self.judge.start.problem)
        self.waiting.append(Fork(position=begun, width=self.judge.rules.group_size))

    def add(self, fork: Fork, calls: Iterable[AgentCall], end: ProgramEnd) -> None:
        """Take in the calls of a line that has ended: its nodes, judged by the environment, and the forks that it leads to."""
        asked = {call.key: call for call in calls}
        own = fork.find_own(asked.values())
        steps = list(self.judge.walk(fork, own))
        last = next((step for step in reversed(steps) if step.acted_K), None)
        if any(call.key not in asked for call in fork.calls) or (fork.label in ("", REPLAYED) and last is None):
            self._fail(fork, end)
            return
        reached, newest, position = list[Fork](), fork.parent or ROOT, fork.position
        for step in steps:
            here = replace(step.here, parent=newest)
            if not step.acted_K:
                self._nodes.append(self._make_node(step, (_NOTHING,) * len(step.call.candidates), here, fork))
                continue
            reached.append(here)
            acted_K = self._finish(step, end) if step is last else step.acted_K
            node = self._make_node(step, [outcome for outcome, _ in acted_K], here, fork)
            self._nodes.append(node)
            newest, position = (len(self._nodes) - 1, node.chosen), acted_K[node.chosen][1]
            self.waiting += [
                _fork_below(here, step.call, k, parent=(newest[0], k), position=acted_K[k][1])
                for k, candidate in enumerate(node.candidates)
                if self.judge.rules.begins_line(node, k) and candidate.outcome.unscorable is None
                if not candidate.outcome.done and not (step is last and k == node.chosen)
            ]
        if fork.parent is None:
            self._end_path(reached, position, end)
            return
        if last is None:
            self._finish_parent(fork, end)
        self._ends.append(ReachedEnd(candidate=newest, end=end))

    def finish(self) -> Episode:
        """The episode, once no line is waiting."""
        assert self._path is not None, "the selected branch has not been played"
        return replace(
            self._path, nodes=tuple(self._nodes), cuts=tuple(self._cuts) or None, ends=tuple(self._ends) or None
        )

    def _finish(self, step: Judged, end: ProgramEnd) -> tuple[Acted, ...]:
        """What the candidates of a line's last call do, of which the chosen one leads to its end."""
        acted_K = list(step.acted_K)
        outcome, position = acted_K[step.call.chosen]
        acted_K[step.call.chosen] = self.judge.referee.finish(position, step.call.model, outcome, end)
        return tuple(acted_K)

    def _finish_parent(self, fork: Fork, end: ProgramEnd) -> None:
        """Let a fork's end without a further answer decide the one that it goes on from."""
        assert fork.parent is not None, "a fork without a parent"
        n, k = fork.parent
        node = self._nodes[n]
        candidates = list(node.candidates)
        outcome, _ = self.judge.referee.finish(fork.position, node.group.agent, candidates[k].outcome, end)
        candidates[k] = replace(candidates[k], outcome=outcome, reward=self.judge.rubric.reward(outcome))
        self._nodes[n] = replace(node, candidates=tuple(candidates))

    def _make_node(self, step: Judged, outcomes_K: Sequence[ActionOutcome], here: Fork, fork: Fork) -> Node:
        call, judge, is_work = step.call, self.judge, bool(step.acted_K)
        on_path = fork.parent is None
        return Node(
            group=step.group,
            policy=call.policy,
            prompt_tokens=call.prompt_tokens,
            candidates=tuple(
                make_candidate(
                    answer, judge.decode_answer(call.model, answer.tokens), outcome, judge.rubric.reward(outcome)
                )
                for answer, outcome in zip(call.candidates, outcomes_K, strict=True)
            ),
            chosen=call.chosen,
            chosen_randomly=is_work and judge.select(step.group, outcomes_K)[1],
            temperature=call.temperature,
            parent=None if on_path else here.parent,
            is_trained_on=is_work and judge.rules.trains_on(len(call.candidates), on_path=on_path),
            is_beside=not is_work,
            choices=call.choices,
        )

    def _end_path(self, reached: Sequence[Fork], position: Position, end: ProgramEnd) -> None:
        """Take the end of the selected branch. In mode nested one of its turns is played anew, drawn by seed: as many answers
        as `branching` has numbers, because a program decides who acts when."""
        start, rules = self.judge.start, self.judge.rules
        success = position.is_solved and position.is_done
        self._path = Episode(problem=start.problem, episode=start.episode, nodes=(), success=success, ended=end)
        if rules.branching:
            turns = reached[:: len(rules.branching)]
            drawn = turns[rules.expanded_turn(start, len(turns))]
            self.waiting.append(replace(drawn, label=REPLAYED, widths=rules.branching))

    def _fail(self, fork: Fork, end: ProgramEnd) -> None:
        start, how = self.judge.start, f"exit code {end.exit_code}; {end.output[-300:].strip()}"
        if fork.parent is None:
            why = f"the program asked no policy: {how}"
            self._path = Episode(
                problem=start.problem, episode=start.episode, nodes=(), success=False, error=why, ended=end
            )
            return
        why = f"run again, the program did not ask what it had asked before answer {fork.num_before}: {how}"
        self._cuts.append(FailedBranch(parent=fork.parent, error=why))


def _fork_below(here: Fork, call: AgentCall, k: int, *, parent: tuple[int, int], position: Position) -> Fork:
    """The line below candidate `k` of a call before which a fork would begin as `here`."""
    return Fork(
        position=position,
        parent=parent,
        label=name_branch(here.label, here.num_before, k),
        calls=(*here.calls, call.take(k)),
        helpers=here.helpers,
        widths=here.widths[1:],
    )
