"""Noisy expert play as training groups: one prompt with several demonstrated answers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random

from components.config import WarmStartConfig
from components.environments.base import NO_TOOLS, Tools
from components.environments.family import Family
from components.environments.play import Position, Referee
from components.errors import ConfigurationError
from components.frozen import Frozen
from components.generation.base import Tokenizer
from components.identity import GroupKey, seed_for
from components.schema import Observation, Problem, TrainGroup
from components.turn_order import BRANCHING, Phase, TurnOrder, agents_of, in_phases, phase_after

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


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """The noisy expert of an environment, in the roles of all agents. All its randomness follows from `seed`.

    `max_turns` limits its play in a team that branches.
    """

    family: Family
    """An environment with an expert."""
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

    @cached_property
    def _referee(self) -> Referee:
        return self.family.referee(self.tools)

    def _group(self, student: Student, role: str, rng: Random) -> TrainGroup:
        problem, position, solving_proposal = self._moment(role, rng)
        prompt = student.encode(self._referee.observe(position, role))
        answers = [
            self._answer(position, role, solving_proposal, rng) for _ in range(self.config.demonstrations_per_prompt)
        ]
        completions = tuple((*student.tokenizer.encode(answer), student.tokenizer.end_token) for answer in answers)
        return TrainGroup(
            group=GroupKey(problem_id=problem.problem_id, episode=0, turn=0, agent=role),
            prompt_tokens=prompt,
            completions_K_T=completions,
            sampler_logprobs_K_T=tuple((0.0,) * len(tokens) for tokens in completions),
            advantages_K=(1.0,) * len(completions),
        )

    def _moment(self, role: str, rng: Random) -> tuple[Problem, Position, str | None]:
        """A problem, the position when `role` is to act, and the last proposal if it would solve.

        Raises ConfigurationError for a role that never gets to act.
        """
        for _ in range(_MAX_DRAWS):
            problem = self._problem(rng.randrange(_NUM_PROBLEMS))
            start = self._referee.start(problem)
            if rng.random() < _SCRAMBLED_FRACTION:
                start = self.family.scramble(start, rng, self.tools)
            times = self._times(start, role, rng)
            if times is not None:
                return problem, *times
        raise ConfigurationError(
            f"agents.{role}: it never acted in {_MAX_DRAWS} episodes of {self.family.name}'s expert, so there is nothing to "
            "clone; raise environment.max_turns, or start from a pretrained model (policies.<name>.base)"
        )

    def _times(self, start: Position, role: str, rng: Random) -> tuple[Position, str | None] | None:
        """The position when `role` is to act, at a random one of its times in the noisy expert's play, and the last proposal if
        it would solve; None if it never is."""
        if self.turn_order == BRANCHING:
            reached = list(self._whole_play(start, role, rng))
            return rng.choice(reached) if reached else None
        order = in_phases(self.turn_order)
        times = [number for number, agents in enumerate(order) if role in agents]
        last = times[0] if len(times) == 1 else rng.choice(times)
        position, phase, solving = start, None, None
        for _ in range(last):
            phase = phase_after(self.turn_order, phase)
            assert phase is not None, f"{self.turn_order} has no next phase"
            position, solving = self._play_phase(position, phase, rng)
        return None if position.is_done else (position, solving)

    def _whole_play(self, position: Position, role: str, rng: Random) -> Iterator[tuple[Position, str | None]]:
        """Each position of an episode in which `role` is to act, with the last proposal if it would solve."""
        phase, solving = None, None
        while True:
            phase = self._referee.next_phase(position, self.turn_order, after=phase, max_turns=self.max_turns)
            if phase is None:
                return
            if role in phase.agents:
                yield position, solving
            position, solving = self._play_phase(position, phase, rng)

    def _play_phase(self, position: Position, phase: Phase, rng: Random) -> tuple[Position, str | None]:
        """The position after the agents of a phase acted as the noisy expert would; the last proposal if it solves."""
        proposals = [self._demonstration(position, agent, rng) for agent in phase.agents]
        outcomes, after = self._referee.advance(position, phase, proposals)
        solves = len(outcomes) == len(proposals) and outcomes[-1].solves and self.family.copies_proposals
        return after, proposals[-1] if solves else None

    def _answer(self, position: Position, role: str, solving_proposal: str | None, rng: Random) -> str:
        is_last = role in in_phases(self.turn_order or self.roles)[-1]
        if is_last and solving_proposal is not None and rng.random() < self.config.copy_probability:
            return solving_proposal
        return self._demonstration(position, role, rng)

    def _demonstration(self, position: Position, role: str, rng: Random) -> str:
        return self.family.noisy_expert_action(position, role, noise=self.config.noise, rng=rng)

    def _problem(self, index: int) -> Problem:
        if index not in self._problems:
            seed = seed_for(self.seed, "warm_start", "problems")
            self._problems[index] = self.family.problem(self.options, split="train", index=index, seed=seed)
        return self._problems[index]
