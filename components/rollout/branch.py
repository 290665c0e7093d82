"""One line of play through the tree of an episode: the selected branch, or one that starts below a candidate off it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Protocol, TypeVar

from components.environments.base import ToolCall
from components.environments.play import Position, Referee
from components.errors import ConfigurationError, NothingScorable, TransientError
from components.generation.base import Completion
from components.identity import GroupKey, name_branch
from components.rewards.base import Rubric
from components.rollout.router import Router
from components.rollout.rules import SamplingRules, Start
from components.schema import ROOT, ActionOutcome, Candidate, FailedBranch, FinishReason, Node
from components.text.choice_tokens import Choices
from components.turn_order import Phase, place_of

T = TypeVar("T")


class Sampled(Protocol):
    """What was sampled of an answer."""

    @property
    def tokens(self) -> tuple[int, ...]: ...
    @property
    def logprobs(self) -> tuple[float, ...]: ...
    @property
    def finish_reason(self) -> FinishReason: ...


REPLAYED = "again"
"""The branch of a turn that is played anew, in the keys of its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingNode:
    """A node before sampling: the group's key and the candidates' shared prompt.

    `parallel_index` is its index among agents side by side, `phase` theirs and its own. `place` counts the actions before it in
    the turn. `choices` are the answers among which the candidates choose, as tokens; none: any text.
    """

    group: GroupKey
    prompt_tokens: tuple[int, ...]
    num_candidates: int
    phase: Phase
    parallel_index: int
    place: int
    choices: Choices = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledNode:
    """A node with its sampled candidates and their texts."""

    node: PendingNode
    completions_K: tuple[Completion, ...]
    texts_K: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchPoint:
    """Where a line begins. On the selected branch `parent` is None and `label` empty; else they are those of its first node.

    `num_before` counts the answers before it, `pending` are agents side by side that act in it first, and `after` is the phase
    that it follows. `expanded_turn` is the one whose candidates all go on. `last_turn` None: it goes on to the end of the
    episode.
    """

    position: Position
    parent: tuple[int, int] | None = None
    label: str = ""
    num_before: int = 0
    pending: tuple[PendingNode, ...] = ()
    after: Phase | None = None
    expanded_turn: int | None = None
    last_turn: int | None = None


class Branch:
    """A line of play with its own position, before the same referee as the other lines of its episode.

    `nodes` are the nodes of the whole episode, to which it adds its own. `forks` are the beginnings of further lines, which its
    driver takes. Its failure, `error`, concerns no other line.
    """

    def __init__(
        self, referee: Referee, start: Start, rules: SamplingRules, nodes: list[Node], fork: BranchPoint
    ) -> None:
        self._referee, self._start, self._rules, self._nodes = referee, start, rules, nodes
        self._position, self._parent, self._label = fork.position, fork.parent, fork.label
        self._num_before, self._pending, self._last_turn = fork.num_before, fork.pending, fork.last_turn
        self._after, self._expanded_turn = fork.after, fork.expanded_turn
        self._turns_reached: list[BranchPoint] = []
        self.forks: list[BranchPoint] = []
        self.error: str | None = None
        self._live = not fork.position.is_done

    @property
    def success(self) -> bool:
        """Whether its newest position is solved."""
        return self._position.is_solved

    @property
    def cut(self) -> FailedBranch | None:
        """The failure of a line off the selected branch."""
        if self.error is None or self._parent is None:
            return None
        return FailedBranch(parent=self._parent, error=self.error)

    def open(self, router: Router) -> tuple[PendingNode, ...]:
        """The next agents' open nodes in the line's state; none if the line has ended or fails here.

        Agents side by side act together, except in an expanded turn: there each acts below each candidate of the one before.
        In mode nested the end of the selected branch is the beginning of a line that plays one of its turns anew.
        """
        if self._live and not self._pending:
            phase = self._attempt(f"after {self._num_before} answers, the next agent", self._next_phase)
            self._live = phase is not None
            if phase is not None:
                self._record_turn_start(phase)
                self._pending, self._after = self._open(phase, router), phase
        if not self._live:
            self._resample_turn()
            return ()
        num_asked = 1 if self._pending and self._fans_out(self._pending[0].phase) else len(self._pending)
        asked, self._pending = self._pending[:num_asked], self._pending[num_asked:]
        return asked

    def read(self, node: PendingNode, completions_K: Sequence[Completion], router: Router) -> SampledNode | None:
        """The candidates of `node` as text, or None if the line fails here."""
        agent = node.group.agent
        texts_K = self._attempt(
            _doing(node),
            lambda: tuple(router.decode(agent, completion.tokens, node.prompt_tokens) for completion in completions_K),
        )
        if texts_K is None:
            return None
        return SampledNode(node=node, completions_K=tuple(completions_K), texts_K=texts_K)

    def calls(self, answer: SampledNode) -> tuple[ToolCall, ...]:
        """The tool calls of stepping the candidates."""
        agent, texts = answer.node.group.agent, dict.fromkeys(answer.texts_K)
        calls = self._attempt(
            _doing(answer.node),
            lambda: [call for text in texts for call in self._referee.calls(self._position, agent, text)],
        )
        return tuple(calls or ())

    def moves(self, answers: Sequence[SampledNode | None]) -> list[list[SampledNode]]:
        """The answers of agents side by side, in the parts in which they act: one by one, or all at once; none if the line
        failed."""
        if self.error is not None:
            return []
        known = [answer for answer in answers if answer is not None]
        together = bool(known) and self._referee.acts_together(known[0].node.phase)
        return [known] if together else [[answer] for answer in known]

    def act(
        self, answers: Sequence[SampledNode], *, waiting: Sequence[PendingNode], router: Router, rubric: Rubric
    ) -> None:
        """Let the agents of one of the `moves` act; `waiting` are those side by side that act after them."""
        if self._referee.acts_together(answers[0].node.phase):
            self._act_together(answers, router=router, rubric=rubric)
        else:
            (answer,) = answers
            self._act_alone(answer, waiting=waiting, router=router, rubric=rubric)

    def _act_together(self, answers: Sequence[SampledNode], *, router: Router, rubric: Rubric) -> None:
        """Let candidate k of each agent act with candidate k of the others, score and keep all, and continue from the k with
        the best mean reward. One whose tools failed is never chosen; if all did, the line fails."""
        agents, first = [answer.node.group.agent for answer in answers], answers[0].node
        texts_K = list(zip(*(answer.texts_K for answer in answers), strict=True))
        after = self._attempt(
            _doing(first),
            lambda: {
                texts: self._referee.act_together(self._position, dict(zip(agents, texts, strict=True)))
                for texts in dict.fromkeys(texts_K)
            },
        )
        if after is None:
            return
        outcomes_K = [after[texts][0] for texts in texts_K]
        scorable = [k for k, outcomes in enumerate(outcomes_K) if outcomes[agents[0]].unscorable is None]
        if not scorable:
            self._fail(
                _doing(first), NothingScorable(f"no candidate could be scored: {outcomes_K[0][agents[0]].unscorable}")
            )
            return
        means = [fmean(rubric.reward(outcomes_K[k][agent]) for agent in agents) for k in scorable]
        picked, explored = self._rules.choose(first.group, means, is_last=first.phase.is_last)
        chosen = scorable[picked]
        assert self._parent is None, "continuations of joint steps are refused before a run starts"
        self._position = after[texts_K[chosen]][1]
        self._live = not self._position.is_done
        for answer, agent in zip(answers, agents, strict=True):
            candidates = tuple(
                make_candidate(completion, text, outcomes[agent], rubric.reward(outcomes[agent]))
                for completion, text, outcomes in zip(answer.completions_K, answer.texts_K, outcomes_K, strict=True)
            )
            self._nodes.append(self._node(answer.node, candidates, chosen, router=router, chosen_randomly=explored))
        self._num_before += len(answers)

    def _act_alone(
        self, answer: SampledNode, *, waiting: Sequence[PendingNode], router: Router, rubric: Rubric
    ) -> None:
        """Let every candidate act in the line's position, score and keep all, and continue from the chosen one.

        `waiting` are the agents side by side that act after this one. An unscorable candidate is never chosen; a node of
        unscorable candidates fails its line.
        """
        opened, doing = answer.node, _doing(answer.node)
        after = self._attempt(doing, lambda: self._step(opened.group.agent, answer.texts_K))
        if after is None:
            return
        rewards = {text: rubric.reward(outcome) for text, (outcome, _) in after.items()}
        scorable = [k for k, text in enumerate(answer.texts_K) if after[text][0].unscorable is None]
        picked, explored = self._rules.choose(
            opened.group, [rewards[answer.texts_K[k]] for k in scorable], is_last=opened.phase.is_last
        )
        chosen, was_live = scorable[picked], self._live
        self._position = after[answer.texts_K[chosen]][1]
        self._live = not self._position.is_done
        candidates = tuple(
            make_candidate(completion, text, after[text][0], rewards[text])
            for completion, text in zip(answer.completions_K, answer.texts_K, strict=True)
        )
        node = self._node(opened, candidates, chosen, router=router, chosen_randomly=explored)
        self._nodes.append(node)
        if was_live:
            going_on = [k for k in scorable if not candidates[k].outcome.done and self._rules.begins_line(node, k)]
            self.forks += [self._fork(k, after[answer.texts_K[k]][1], opened.phase, waiting) for k in going_on]
        self._num_before += 1
        self._parent = None if self._parent is None else (len(self._nodes) - 1, chosen)

    def _node(
        self,
        opened: PendingNode,
        candidates: tuple[Candidate, ...],
        chosen: int,
        *,
        router: Router,
        chosen_randomly: bool,
    ) -> Node:
        on_path, agent = self._parent is None, opened.group.agent
        return Node(
            group=opened.group,
            policy=router.policy_of(agent),
            prompt_tokens=opened.prompt_tokens,
            candidates=candidates,
            chosen=chosen,
            chosen_randomly=chosen_randomly,
            parallel_index=opened.parallel_index,
            temperature=router.own_temperature(agent, self._rules.temperature),
            parent=self._parent,
            is_trained_on=self._rules.trains_on(len(candidates), on_path=on_path),
            choices=opened.choices,
        )

    def _fork(self, candidate: int, position: Position, phase: Phase, waiting: Sequence[PendingNode]) -> BranchPoint:
        """The line below a candidate of the newest node."""
        label = name_branch(self._label, self._num_before, candidate)
        return BranchPoint(
            position=position,
            parent=(len(self._nodes) - 1, candidate),
            label=label,
            num_before=self._num_before + 1,
            pending=tuple(
                replace(
                    node,
                    group=replace(node.group, branch=label),
                    num_candidates=self._num_candidates(phase, node.place, on_path=False),
                )
                for node in (*waiting, *self._pending)
            ),
            after=phase,
            expanded_turn=self._expanded_turn,
            last_turn=phase.turn if self._rules.team_credit == "turn_end" else None,
        )

    def _record_turn_start(self, phase: Phase) -> None:
        """Remember the beginning of a turn on the selected branch, where it may be played anew."""
        reached = len(self._turns_reached)
        if not self._rules.branching or self._parent is not None or phase.turn < reached:
            return
        assert phase.turn == reached, f"turn {phase.turn} after {reached} turns"
        newest = len(self._nodes) - 1
        fork = BranchPoint(
            position=self._position,
            parent=(newest, self._nodes[newest].chosen) if self._nodes else ROOT,
            label=REPLAYED,
            num_before=self._num_before,
            after=self._after,
            expanded_turn=phase.turn,
        )
        self._turns_reached.append(fork)

    def _resample_turn(self) -> None:
        if self._turns_reached and self.error is None:
            drawn = self._rules.expanded_turn(self._start, len(self._turns_reached))
            self.forks.append(self._turns_reached[drawn])
        self._turns_reached = []

    def _next_phase(self) -> Phase | None:
        rules = self._rules
        phase = self._referee.next_phase(self._position, rules.turn_order, after=self._after, max_turns=rules.max_turns)
        return None if phase is None or (self._last_turn is not None and phase.turn > self._last_turn) else phase

    def _open(self, phase: Phase, router: Router) -> tuple[PendingNode, ...]:
        nodes = []
        first = place_of(self._rules.turn_order, phase) if self._rules.turn_order else 0
        for parallel_index, group in enumerate(phase.groups(self._start.problem.problem_id, self._start.episode)):
            asked = self._attempt(
                f"turn {group.turn}, {group.agent} observes", partial(self._prompt, group.agent, router)
            )
            if asked is None:
                return ()
            prompt_tokens, choices = asked
            node = PendingNode(
                group=replace(group, branch=self._label),
                prompt_tokens=prompt_tokens,
                num_candidates=self._num_candidates(phase, first + parallel_index, on_path=self._parent is None),
                phase=phase,
                parallel_index=parallel_index,
                place=first + parallel_index,
                choices=choices,
            )
            nodes.append(node)
        return tuple(nodes)

    def _prompt(self, agent: str, router: Router) -> tuple[tuple[int, ...], Choices]:
        """What `agent` is asked, as tokens, and the answers that it chooses among."""
        choices = self._referee.choices(self._position, agent)
        observation = self._referee.observe(self._position, agent)
        return router.encode(agent, observation), () if choices is None else router.encode_choices(agent, choices)

    def _num_candidates(self, phase: Phase, place: int, *, on_path: bool) -> int:
        rules = self._rules
        if rules.branching:
            return rules.branching[place] if self._fans_out(phase) else 1
        return rules.group_size if on_path else 1

    def _fans_out(self, phase: Phase) -> bool:
        return phase.turn == self._expanded_turn

    def _step(self, agent: str, texts_K: Sequence[str]) -> dict[str, tuple[ActionOutcome, Position]]:
        """The outcome of each different text and the position after it. Raises NothingScorable if no text can be scored."""
        after = {text: self._referee.act_or_unscorable(self._position, agent, text) for text in dict.fromkeys(texts_K)}
        reasons = [outcome.unscorable for outcome, _ in after.values()]
        if None not in reasons:
            raise NothingScorable(f"no candidate could be scored: {reasons[0]}")
        return after

    def _attempt(self, doing: str, work: Callable[[], T]) -> T | None:
        """The border of a line: an exception of its environment or a decoder fails only this line.

        Configuration errors and transient errors concern the whole stage and pass.
        """
        if self.error is not None:
            return None
        try:
            return work()
        except (ConfigurationError, TransientError):
            raise
        except Exception as error:
            self._fail(doing, error)
            return None

    def _fail(self, doing: str, error: Exception) -> None:
        self._live = False
        self.error = f"{doing}: {type(error).__name__}: {error}"


def _doing(node: PendingNode) -> str:
    return f"turn {node.group.turn}, {node.group.agent} acts"


def make_candidate(answer: Sampled, text: str, outcome: ActionOutcome, reward: float) -> Candidate:
    """An answer as a candidate of a node."""
    return Candidate(
        tokens=answer.tokens,
        sampler_logprobs=answer.logprobs,
        finish_reason=answer.finish_reason,
        text=text,
        outcome=outcome,
        reward=reward,
    )
