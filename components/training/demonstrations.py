"""Noisy expert play as training groups: one prompt with several demonstrated answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from components.config import WarmStartConfig
from components.environments.base import NO_TOOLS, Demonstrator, MultiAgentEnv, Tools, apply_or_unscorable
from components.errors import ConfigurationError
from components.frozen import Frozen
from components.generation.base import Tokenizer
from components.identity import GroupKey, seed_for
from components.schema import Observation, Problem, TrainGroup
from components.turn_order import BRANCHING, TurnOrder, agents_of, in_phases, phases

_NUM_PROBLEMS = 4096
"""The number of distinct problems, which scrambling multiplies."""
_SCRAMBLED_FRACTION = 0.5
"""Of the states; the others are a problem's start. So the clone also learns the middle of an episode."""
_MAX_DRAWS = 200
"""Episodes to try until a role gets to act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """A policy to be cloned: its weights, its roles, and its prompt format."""

    folder: Path
    roles: tuple[str, ...]
    tokenizer: Tokenizer
    encode: Callable[[Observation], tuple[int, ...]]
    """An observation as prompt tokens, in the same format as in rollouts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Teacher:
    """The noisy expert of an environment, in the roles of all agents. All its randomness follows from `seed`.

    `max_turns` limits its play in a team that branches.
    """

    family: Demonstrator
    turn_order: TurnOrder
    options: Frozen
    config: WarmStartConfig
    seed: int
    tools: Tools = NO_TOOLS
    max_turns: int = 1
    _problems: dict[int, Problem] = field(default_factory=dict)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that may act."""
        return agents_of(self.turn_order, self.family.roles)

    def lesson(self, student: Student, role: str, step: int) -> list[TrainGroup]:
        """The groups of one gradient step: `prompts_per_step` prompts with `demonstrations_per_prompt` answers each."""
        rng = Random(seed_for(self.seed, "warm_start", role, step))
        return [self._group(student, role, rng) for _ in range(self.config.prompts_per_step)]

    def _group(self, student: Student, role: str, rng: Random) -> TrainGroup:
        problem, env, solving_proposal = self._moment(role, rng)
        prompt = student.encode(env.observe(role))
        answers = [self._answer(env, role, solving_proposal, rng) for _ in range(self.config.demonstrations_per_prompt)]
        completions = tuple((*student.tokenizer.encode(answer), student.tokenizer.end_token) for answer in answers)
        return TrainGroup(
            group=GroupKey(problem_id=problem.problem_id, episode=0, turn=0, agent=role),
            prompt_tokens=prompt,
            completions_K_T=completions,
            sampler_logprobs_K_T=tuple((0.0,) * len(tokens) for tokens in completions),
            advantages_K=(1.0,) * len(completions),
        )

    def _moment(self, role: str, rng: Random) -> tuple[Problem, MultiAgentEnv, str | None]:
        """A problem, its environment when `role` is to act, and the last proposal if it would solve.

        Raises ConfigurationError for a role that never gets to act.
        """
        for _ in range(_MAX_DRAWS):
            problem = self._problem(rng.randrange(_NUM_PROBLEMS))
            env = self.family.build(problem, self.tools)
            if rng.random() < _SCRAMBLED_FRACTION:
                self.family.scramble(env, rng)
            is_reached, solving_proposal = self._play_up_to(env, role, rng)
            if is_reached:
                return problem, env, solving_proposal
        raise ConfigurationError(
            f"agents.{role}: it never acted in {_MAX_DRAWS} episodes of {self.family.name}'s expert, so there is nothing to "
            "clone; raise environment.max_turns, or start from a pretrained model (policies.<name>.base)"
        )

    def _play_up_to(self, env: MultiAgentEnv, role: str, rng: Random) -> tuple[bool, str | None]:
        """Let the noisy expert play until `role` is to act, at a random one of its times.

        Returns whether it ever is, and the last proposal if it would solve.
        """
        if self.turn_order == BRANCHING:
            return self._play_and_go_back(env, role, rng)
        order = in_phases(self.turn_order)
        times = [number for number, agents in enumerate(order) if role in agents]
        solving: str | None = None
        for agents in order[: times[0] if len(times) == 1 else rng.choice(times)]:
            solving = self._played(env, agents, rng)
        return not env.done, solving

    def _play_and_go_back(self, env: MultiAgentEnv, role: str, rng: Random) -> tuple[bool, str | None]:
        solving: str | None = None
        times = []
        for phase in phases(env, self.turn_order, self.max_turns):
            if role in phase.agents:
                times.append((env.snapshot(), solving))
            solving = self._played(env, phase.agents, rng)
        if not times:
            return False, None
        before, solving = rng.choice(times)
        env.restore(before)
        return True, solving

    def _played(self, env: MultiAgentEnv, agents: tuple[str, ...], rng: Random) -> str | None:
        """Let the agents of a phase act as the noisy expert would in the state before it; the last proposal if it solves."""
        solving: str | None = None
        for agent, proposal in [(agent, self._demonstration(env, agent, rng)) for agent in agents]:
            solving = (
                proposal if apply_or_unscorable(env, agent, proposal).solves and self.family.copies_proposals else None
            )
        return solving

    def _answer(self, env: MultiAgentEnv, role: str, solving_proposal: str | None, rng: Random) -> str:
        is_last = role in in_phases(self.turn_order or self.roles)[-1]
        if is_last and solving_proposal is not None and rng.random() < self.config.copy_probability:
            return solving_proposal
        return self._demonstration(env, role, rng)

    def _demonstration(self, env: MultiAgentEnv, role: str, rng: Random) -> str:
        return self.family.noisy_expert_action(env, role, noise=self.config.noise, rng=rng)

    def _problem(self, index: int) -> Problem:
        if index not in self._problems:
            seed = seed_for(self.seed, "warm_start", "problems")
            self._problems[index] = self.family.problem(self.options, split="train", index=index, seed=seed)
        return self._problems[index]
