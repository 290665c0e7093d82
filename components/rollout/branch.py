"""One episode while it is played: its environment, its finished turns, and the border where its failure becomes data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from components.environments.base import EnvironmentFamily, MultiAgentEnv, Snapshot
from components.errors import ConfigurationError, TransientError
from components.generation.base import Completion
from components.identity import GroupKey
from components.rewards.base import Rubric
from components.rollout.router import Router
from components.rollout.rules import Rules, Start
from components.schema import ActionOutcome, Candidate, Episode, Turn

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One agent about to act in one episode: the group's key and the prompt that all its candidates share."""

    group: GroupKey
    prompt_tokens: tuple[int, ...]


class Branch:
    """The selected branch of one episode. `play` drives it; nothing else sees it unfinished."""

    def __init__(self, start: Start, family: EnvironmentFamily) -> None:
        self.live = True
        """Whether the next agent may act: nothing failed, and the selected state is not done."""
        self._start = start
        self._success = False
        self._error: str | None = None
        self._turns: list[Turn] = []
        self._env: MultiAgentEnv | None = self._attempt("build", lambda: family.build(start.problem))
        self._attempt("build", self._look)

    def node(self, turn: int, agent: str, router: Router) -> Node | None:
        """What is asked of `agent` in the selected state, or None when the episode failed here."""
        prompt_tokens = self._attempt(
            f"turn {turn}, {agent} observes", lambda: router.encode(agent, self._environment.observe(agent))
        )
        if prompt_tokens is None:
            return None
        problem_id, episode = self._start.problem.problem_id, self._start.episode
        group = GroupKey(problem_id=problem_id, episode=episode, turn=turn, agent=agent)
        return Node(group=group, prompt_tokens=prompt_tokens)

    def act(
        self, node: Node, completions_K: Sequence[Completion], *, router: Router, rubric: Rubric, rules: Rules
    ) -> None:
        """Step a snapshot with every candidate, score all, keep all, and continue from the chosen one."""
        group = node.group
        doing = f"turn {group.turn}, {group.agent} acts"
        stepped = self._attempt(doing, lambda: self._stepped(group.agent, completions_K, router))
        if stepped is None:
            return
        texts_K, after = stepped
        rewards = {text: rubric.reward(outcome) for text, (outcome, _) in after.items()}
        chosen, explored = rules.choose(group, [rewards[text] for text in texts_K])
        if self._attempt(doing, lambda: self._continue_from(after[texts_K[chosen]][1])) is None:
            return
        self._turns.append(
            Turn(
                group=group,
                policy=router.policy_of(group.agent),
                prompt_tokens=node.prompt_tokens,
                candidates=tuple(
                    _candidate(completion, text, after[text][0], rewards[text])
                    for completion, text in zip(completions_K, texts_K, strict=True)
                ),
                chosen=chosen,
                explored=explored,
            )
        )

    def finished(self) -> Episode:
        """The episode as far as it came. A failed one is no success."""
        return Episode(
            problem=self._start.problem,
            episode=self._start.episode,
            turns=tuple(self._turns),
            success=self._success and self._error is None,
            error=self._error,
        )

    @property
    def _environment(self) -> MultiAgentEnv:
        assert self._env is not None, f"{self._start.problem.problem_id} was not built: {self._error}"
        return self._env

    def _stepped(
        self, agent: str, completions_K: Sequence[Completion], router: Router
    ) -> tuple[list[str], dict[str, tuple[ActionOutcome, Snapshot]]]:
        """The candidates' texts, and for each different text its outcome and the state after it.

        Environments are deterministic, so equal texts are stepped once.
        """
        env = self._environment
        texts_K = [router.decode(agent, completion.tokens) for completion in completions_K]
        before = env.snapshot()
        after: dict[str, tuple[ActionOutcome, Snapshot]] = {}
        for text in texts_K:
            if text not in after:
                env.restore(before)
                after[text] = env.apply(agent, text), env.snapshot()
        return texts_K, after

    def _continue_from(self, snapshot: Snapshot) -> bool:
        self._environment.restore(snapshot)
        return self._look()

    def _look(self) -> bool:
        self.live, self._success = not self._environment.done, self._environment.success
        return True

    def _attempt(self, doing: str, work: Callable[[], T]) -> T | None:
        """The border of an episode: what its environment or a decoder raises ends this episode and no other.

        A wrong configuration and a service that may come back concern the whole stage, and pass.
        """
        if self._error is not None:
            return None
        try:
            return work()
        except (ConfigurationError, TransientError):
            raise
        except Exception as error:
            self.live = False
            self._error = f"{doing}: {type(error).__name__}: {error}"
            return None


def _candidate(completion: Completion, text: str, outcome: ActionOutcome, reward: float) -> Candidate:
    return Candidate(
        tokens=completion.tokens,
        sampler_logprobs=completion.logprobs,
        finish_reason=completion.finish_reason,
        text=text,
        outcome=outcome,
        reward=reward,
    )
