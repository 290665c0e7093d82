"""Role -> policy -> engine: batches of requests for any roles, with one engine call per policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from components.config import RunConfig
from components.errors import ConfigurationError, StaleEngine
from components.generation.base import Completion, GenerationRequest, Generator, Metered
from components.rollout.prompts import PromptFormat, encode_observation
from components.schema import ApiUsage, Observation, PolicyVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The policy of a role, its prompt format and answer limit."""

    policy: str
    prompt_format: PromptFormat
    max_new_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRequest:
    """One node's prompt for its role, with one seed per candidate."""

    role: str
    prompt_tokens: tuple[int, ...]
    seeds_K: tuple[int, ...]


def seats_of(config: RunConfig, *, max_action_characters: int) -> dict[str, Seat]:
    """The seat of each role. The default answer limit is the longest well-formed action and its end token."""
    return {
        role: Seat(
            policy=agent.policy,
            prompt_format=config.policies[agent.policy].prompt_format,
            max_new_tokens=agent.max_new_tokens or max_action_characters + 1,
        )
        for role, agent in config.agents.items()
    }


class Router:
    """Routes requests by role to the engines, which must hold the given policy versions."""

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
        """The version of each policy."""
        return self._versions

    def policy_of(self, role: str) -> str:
        """The policy that plays `role`. Raises ConfigurationError if there is none."""
        if role not in self._seats:
            raise ConfigurationError(
                f"agents.{role}: the environment has this role, but no agent plays it; set its policy"
            )
        return self._seats[role].policy

    def encode(self, role: str, observation: Observation) -> tuple[int, ...]:
        """The prompt of `role` for an observation."""
        seat = self._seats[role]
        return encode_observation(observation, self._generators[seat.policy].tokenizer, seat.prompt_format)

    def decode(self, role: str, tokens: Sequence[int]) -> str:
        """The text of an answer of `role`."""
        return self._generators[self._seats[role].policy].tokenizer.decode(tokens)

    def generate(self, requests: Sequence[RoleRequest], *, temperature: float) -> list[tuple[Completion, ...]]:
        """K completions per request, in order. Raises StaleEngine if an engine holds or returns another version.

        **Example** requests of tool, plan, tool with tool and plan played by two policies: two engine calls, of two prompts
        and of one.
        """
        positions: dict[str, list[int]] = {}
        for position, request in enumerate(requests):
            positions.setdefault(self.policy_of(request.role), []).append(position)
        answers: dict[int, tuple[Completion, ...]] = {}
        for policy, at in positions.items():
            asked = [
                GenerationRequest(
                    prompt_tokens=requests[position].prompt_tokens,
                    seeds_K=requests[position].seeds_K,
                    max_new_tokens=self._seats[requests[position].role].max_new_tokens,
                    temperature=temperature,
                )
                for position in at
            ]
            answers.update(zip(at, self._answered(policy, asked), strict=True))
        return [answers[position] for position in range(len(requests))]

    def take_usage(self) -> dict[str, ApiUsage]:
        """The API usage of each policy behind an API since the last call."""
        engines = {policy: engine for policy, engine in self._generators.items() if isinstance(engine, Metered)}
        return {policy: engine.take_usage() for policy, engine in engines.items()}

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
