"""One episode while it is played: its environment, its finished nodes, and the border where its failure becomes data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from components.environments.base import EnvironmentFamily, MultiAgentEnv, Snapshot, ToolCall, Tools, applied
from components.errors import ConfigurationError, NothingScorable, TransientError
from components.generation.base import Completion
from components.identity import GroupKey
from components.rewards.base import Rubric
from components.rollout.router import Router
from components.rollout.rules import Rules, Start
from components.schema import ActionOutcome, Candidate, Episode, Node
from components.turn_order import Phase, phases

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenNode:
    """A node before sampling: the group's key and the candidates' shared prompt.

    `lane` is its index among agents side by side; `is_last`: no agent acts after them in the turn.
    """

    group: GroupKey
    prompt_tokens: tuple[int, ...]
    lane: int
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A node with its sampled candidates and their texts."""

    node: OpenNode
    completions_K: tuple[Completion, ...]
    texts_K: tuple[str, ...]


class Branch:
    """The selected branch of one episode, driven by `play`."""

    def __init__(self, start: Start, family: EnvironmentFamily, tools: Tools, rules: Rules) -> None:
        self._start = start
        self._rules = rules
        self._live = True
        self._success = False
        self._error: str | None = None
        self._nodes: list[Node] = []
        self._met: Snapshot = None
        """The state before the newest answers."""
        self._env: MultiAgentEnv | None = self._attempt("build", lambda: family.build(start.problem, tools))
        self._attempt("build", self._look)
        self._phases = phases(self._environment, rules.turn_order, rules.max_turns) if self._env is not None else None

    def next_phase(self) -> Phase | None:
        """The agents who act next, or None if the episode has ended or fails here."""
        coming = self._phases
        if not self._live or coming is None:
            return None
        phase = self._attempt(f"after {len(self._nodes)} answers, the next agent", lambda: next(coming, None))
        self._live = phase is not None
        return phase

    def nodes(self, phase: Phase, router: Router) -> tuple[OpenNode, ...]:
        """The open nodes of a phase's agents in the selected state; none if the episode fails here."""
        nodes = []
        groups = phase.groups(self._start.problem.problem_id, self._start.episode)
        for lane, group in enumerate(groups):
            prompt_tokens = self._attempt(
                f"turn {group.turn}, {group.agent} observes", partial(self._prompt, group.agent, router)
            )
            if prompt_tokens is None:
                return ()
            nodes.append(OpenNode(group=group, prompt_tokens=prompt_tokens, lane=lane, is_last=phase.is_last))
        return tuple(nodes)

    def _prompt(self, agent: str, router: Router) -> tuple[int, ...]:
        return router.encode(agent, self._environment.observe(agent))

    def read(self, node: OpenNode, completions_K: Sequence[Completion], router: Router) -> Answer | None:
        """The candidates of `node` as text, or None if the episode fails here."""
        agent = node.group.agent
        texts_K = self._attempt(
            _doing(node), lambda: tuple(router.decode(agent, completion.tokens) for completion in completions_K)
        )
        if texts_K is None:
            return None
        return Answer(node=node, completions_K=tuple(completions_K), texts_K=texts_K)

    def calls(self, answer: Answer) -> tuple[ToolCall, ...]:
        """The tool calls of stepping the candidates."""
        if self._error is not None:
            return ()
        agent, env = answer.node.group.agent, self._environment
        texts = dict.fromkeys(answer.texts_K)
        asked = self._attempt(_doing(answer.node), lambda: [call for text in texts for call in env.calls(agent, text)])
        return tuple(asked or ())

    def act(self, answer: Answer, *, router: Router, rubric: Rubric) -> None:
        """Step a snapshot with every candidate, score and keep all, and continue from the chosen one.

        An unscorable candidate is never chosen; a node of unscorable candidates fails its episode. If an agent side by side
        has just ended the episode, the candidates are scored in the state before its answer and change nothing.
        """
        group, doing = answer.node.group, _doing(answer.node)
        after = self._attempt(doing, lambda: self._stepped(group.agent, answer.texts_K))
        if after is None:
            return
        rewards = {text: rubric.reward(outcome) for text, (outcome, _) in after.items()}
        scorable = [k for k, text in enumerate(answer.texts_K) if after[text][0].unscorable is None]
        picked, explored = self._rules.choose(
            group, [rewards[answer.texts_K[k]] for k in scorable], is_last=answer.node.is_last
        )
        chosen = scorable[picked]
        if self._attempt(doing, lambda: self._continue_from(after[answer.texts_K[chosen]][1])) is None:
            return
        self._nodes.append(
            Node(
                group=group,
                policy=router.policy_of(group.agent),
                prompt_tokens=answer.node.prompt_tokens,
                candidates=tuple(
                    _candidate(completion, text, after[text][0], rewards[text])
                    for completion, text in zip(answer.completions_K, answer.texts_K, strict=True)
                ),
                chosen=chosen,
                explored=explored,
                lane=answer.node.lane,
                temperature=router.own_temperature(group.agent, self._rules.temperature),
            )
        )

    def finished(self) -> Episode:
        """The episode with the nodes played so far. A failed one is no success."""
        return Episode(
            problem=self._start.problem,
            episode=self._start.episode,
            nodes=tuple(self._nodes),
            success=self._success and self._error is None,
            error=self._error,
        )

    @property
    def _environment(self) -> MultiAgentEnv:
        assert self._env is not None, f"{self._start.problem.problem_id} was not built: {self._error}"
        return self._env

    def _stepped(self, agent: str, texts_K: Sequence[str]) -> dict[str, tuple[ActionOutcome, Snapshot]]:
        """The outcome of each different text and the state after it. Raises NothingScorable if no text can be scored."""
        env = self._environment
        before = env.snapshot()
        after: dict[str, tuple[ActionOutcome, Snapshot]] = {}
        for text in dict.fromkeys(texts_K):
            env.restore(before)
            after[text] = applied(env, agent, text), env.snapshot()
        self._met = before
        reasons = [outcome.unscorable for outcome, _ in after.values()]
        if None not in reasons:
            raise NothingScorable(f"no candidate could be scored: {reasons[0]}")
        return after

    def _continue_from(self, after: Snapshot) -> bool:
        """Move to the state after the chosen answer, or stay in the state before an answer that ends the episode."""
        env = self._environment
        if self._live:
            env.restore(after)
            self._look()
        if not self._live:
            env.restore(self._met)
        return True

    def _look(self) -> bool:
        self._live, self._success = not self._environment.done, self._environment.success
        return True

    def _attempt(self, doing: str, work: Callable[[], T]) -> T | None:
        """The border of an episode: an exception of its environment or a decoder fails only this episode.

        Configuration errors and transient errors concern the whole stage and pass.
        """
        if self._error is not None:
            return None
        try:
            return work()
        except (ConfigurationError, TransientError):
            raise
        except Exception as error:
            self._live = False
            self._error = f"{doing}: {type(error).__name__}: {error}"
            return None


def _doing(node: OpenNode) -> str:
    return f"turn {node.group.turn}, {node.group.agent} acts"


def _candidate(completion: Completion, text: str, outcome: ActionOutcome, reward: float) -> Candidate:
    return Candidate(
        tokens=completion.tokens,
        sampler_logprobs=completion.logprobs,
        finish_reason=completion.finish_reason,
        text=text,
        outcome=outcome,
        reward=reward,
    )
