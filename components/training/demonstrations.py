"""Noisy expert play as training groups: one prompt, several demonstrated answers, nothing that a policy sampled."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from components.artifacts.refs import Frozen
from components.config import WarmStartConfig
from components.environments.base import NO_TOOLS, EnvironmentFamily, MultiAgentEnv, Tools, applied
from components.generation.base import Tokenizer
from components.identity import GroupKey, seed_for
from components.schema import Observation, Problem, TrainGroup

_NUM_PROBLEMS = 4096
"""Distinct problems that are demonstrated; scrambled states multiply them."""
_SCRAMBLED_FRACTION = 0.5
"""States drawn anew instead of the problem's own start, so that the clone also knows the middle of an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """One policy to be cloned: where its weights lie, the roles it plays, and how it reads."""

    folder: Path
    roles: tuple[str, ...]
    tokenizer: Tokenizer
    encode: Callable[[Observation], tuple[int, ...]]
    """An observation as prompt tokens, just as the rollout spells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Teacher:
    """The noisy expert of one environment, in the place of the `roles` that play. All its randomness follows from `seed`."""

    family: EnvironmentFamily
    roles: tuple[str, ...]
    options: Frozen
    config: WarmStartConfig
    seed: int
    tools: Tools = NO_TOOLS
    _problems: dict[int, Problem] = field(default_factory=dict)

    def lesson(self, student: Student, role: str, step: int) -> list[TrainGroup]:
        """The groups of one gradient step: `prompts_per_step` prompts with `demonstrations_per_prompt` answers each."""
        rng = Random(seed_for(self.seed, "warm_start", role, step))
        return [self._group(student, role, rng) for _ in range(self.config.prompts_per_step)]

    def _group(self, student: Student, role: str, rng: Random) -> TrainGroup:
        problem = self._problem(rng.randrange(_NUM_PROBLEMS))
        env = self.family.build(problem, self.tools)
        if rng.random() < _SCRAMBLED_FRACTION:
            self.family.scramble(env, rng)
        solving_proposal = self._play_earlier_agents(env, role, rng)
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

    def _play_earlier_agents(self, env: MultiAgentEnv, role: str, rng: Random) -> str | None:
        """Let the noisy expert play up to `role`; the newest proposal, if it would solve."""
        solving: str | None = None
        for earlier in self.roles[: self.roles.index(role)]:
            proposal = self._demonstration(env, earlier, rng)
            solving = proposal if applied(env, earlier, proposal).solves and self.family.copies_proposals else None
        return solving

    def _answer(self, env: MultiAgentEnv, role: str, solving_proposal: str | None, rng: Random) -> str:
        is_last = role == self.roles[-1]
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
