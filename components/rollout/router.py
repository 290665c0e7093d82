"""Role -> policy -> engine: requests of any roles in, completions in the same order out, one engine call a policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from components.config import RunConfig
from components.errors import ConfigurationError, StaleEngine
from components.generation.base import Completion, GenerationRequest, Generator, Metered
from components.rollout.prompts import PromptFormat, encode_observation
from components.schema import ApiUsage, Observation, PolicyVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Who plays a role, and how it is asked."""

    policy: str
    prompt_format: PromptFormat
    max_new_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRequest:
    """One node's prompt, for the role that acts there, with one seed a candidate."""

    role: str
    prompt_tokens: tuple[int, ...]
    seeds_K: tuple[int, ...]


def seats_of(config: RunConfig, *, max_action_characters: int) -> dict[str, Seat]:
    """The seat of each role. A role without its own limit may answer with the longest well-formed action and its end."""
    return {
        role: Seat(
            policy=agent.policy,
            prompt_format=config.policies[agent.policy].prompt_format,
            max_new_tokens=agent.max_new_tokens or max_action_characters + 1,
        )
        for role, agent in config.agents.items()
    }


class Router:
    """Knows who plays which role and which version of each policy is meant; holds no weights."""

    def __init__(
        self,
        generators: Mapping[str, Generator],
        *,
        seats: Mapping[str, Seat],
        versions: Mapping[str, PolicyVersion],
    ) -> None:
        for role, seat in seats.items():
            assert seat.policy in generators, f"{role} is played by {seat.policy}; engines: {sorted(generators)}"
            assert seat.policy in versions, f"{role} is played by {seat.policy}; versions: {sorted(versions)}"
        self._generators = generators
        self._seats = seats
        self._versions = versions

    @property
    def versions(self) -> Mapping[str, PolicyVersion]:
        """The version that each policy plays with."""
        return self._versions

    def policy_of(self, role: str) -> str:
        """The policy that plays `role`. Raises ConfigurationError when nobody does."""
        if role not in self._seats:
            raise ConfigurationError(
                f"agents.{role}: the environment has this role and no agent plays it; name its policy"
            )
        return self._seats[role].policy

    def encode(self, role: str, observation: Observation) -> tuple[int, ...]:
        """The prompt of `role` for what it sees."""
        seat = self._seats[role]
        return encode_observation(observation, self._generators[seat.policy].tokenizer, seat.prompt_format)

    def decode(self, role: str, tokens: Sequence[int]) -> str:
        """The text of an answer of `role`."""
        return self._generators[self._seats[role].policy].tokenizer.decode(tokens)

    def generate(self, requests: Sequence[RoleRequest], *, temperature: float) -> list[tuple[Completion, ...]]:
        """K completions for each request, in order. Raises StaleEngine when an engine holds or returns another version.

        **Example** requests of tool, plan, tool with tool and plan played by two policies: two engine calls, of two prompts
        and of one.
        """
        positions: dict[str, list[int]] = {}
        for position, request in enumerate(requests):
            positions.setdefault(self.policy_of(request.role), []).append(position)
        answers: dict[int, tuple[Completion, ...]] = {}
        for policy, at in positions.items():
            asked = [self._engine_request(requests[position], temperature) for position in at]
            answers.update(zip(at, self._answered(policy, asked), strict=True))
        return [answers[position] for position in range(len(requests))]

    def take_usage(self) -> dict[str, ApiUsage]:
        """By policy, what its API was used for since the last call of this; nothing of policies that are not behind one."""
        engines = {policy: engine for policy, engine in self._generators.items() if isinstance(engine, Metered)}
        return {policy: engine.take_usage() for policy, engine in engines.items()}

    def _engine_request(self, request: RoleRequest, temperature: float) -> GenerationRequest:
        return GenerationRequest(
            prompt_tokens=request.prompt_tokens,
            seeds_K=request.seeds_K,
            max_new_tokens=self._seats[request.role].max_new_tokens,
            temperature=temperature,
        )

    def _answered(self, policy: str, asked: list[GenerationRequest]) -> list[tuple[Completion, ...]]:
        version = self._versions[policy]
        answers = self._generators[policy].generate(asked, version)
        for request, completions in zip(asked, answers, strict=True):
            assert len(completions) == len(request.seeds_K), (
                f"{policy} gave {len(completions)} completions for {len(request.seeds_K)} seeds"
            )
            for completion in completions:
                if completion.version != version:
                    raise StaleEngine(f"{policy} answered from {completion.version}, asked for {version}")
        return answers
