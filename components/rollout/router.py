"""Role -> policy -> engine: batches of requests for any roles, with one engine call per policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from components.config import PromptConfig, RunConfig
from components.environments.base import Tools
from components.environments.family import Family
from components.errors import ConfigurationError, StaleEngine
from components.generation.base import Completion, GenerationRequest, Generator, Metered, before_stop, encode_choices
from components.reporting.progress_share import subtask
from components.rewards.base import Rubric
from components.rollout.prompts import PromptFormat, encode_observation
from components.rollout.rules import SamplingRules, Start
from components.schema import ApiUsage, Episode, Observation, PolicyVersion
from components.text.choice_tokens import Choices
from components.text.think_tags import OPENING

REASONING_TOKENS = 1024
"""How many tokens more than a compact answer one that reasons first may have by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleBinding:
    """The policy of a role, how the role is asked, and how its answers are drawn and end.

    `max_thinking_tokens` None: thinking is part of the answer. `prompt` None: the environment's instructions. `temperature`
    None: that of the play.
    """

    policy: str
    prompt_format: PromptFormat
    max_new_tokens: int
    max_thinking_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    prompt: PromptConfig | None = None
    chat_template_arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def longest_answer(self) -> int:
        """Maximal tokens of thinking and answer."""
        return (self.max_thinking_tokens or 0) + self.max_new_tokens

    def apply_prompt(self, observation: Observation) -> Observation:
        """What the role sees: the observation, with instructions of its own."""
        if self.prompt is None:
            return observation
        return replace(observation, instructions=self.prompt.apply(observation.instructions))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRequest:
    """One node's prompt for its role, with one seed per candidate, and the answers among which these choose, if any."""

    role: str
    prompt_tokens: tuple[int, ...]
    seeds_K: tuple[int, ...]
    choices: Choices = ()


def bind_roles(config: RunConfig, *, max_action_characters: int) -> dict[str, RoleBinding]:
    """The seat of each role. The default answer limit is the longest well-formed action and its end token, and
    `REASONING_TOKENS` more if answers may reason first."""
    reasoning = REASONING_TOKENS if config.environment.answer_format == "free" else 0
    return {
        role: RoleBinding(
            policy=agent.policy,
            prompt_format=config.policies[agent.policy].prompt_format,
            max_new_tokens=agent.max_new_tokens or max_action_characters + 1 + reasoning,
            max_thinking_tokens=agent.max_thinking_tokens,
            stop=agent.stop,
            temperature=agent.temperature,
            prompt=agent.prompt,
            chat_template_arguments=config.policies[agent.policy].chat_template_arguments,
        )
        for role, agent in config.agents.items()
    }


class PlaysPrograms(Protocol):
    """What plays the episodes of programs, which ask the policies by themselves."""

    def play(
        self, starts: Sequence[Start], rules: SamplingRules, *, family: Family, rubric: Rubric, tools: Tools
    ) -> tuple[Episode, ...]:
        """One finished episode per start, in order."""
        ...


class Router:
    """Routes requests by role to the engines, which must hold the given policy versions."""

    def __init__(
        self,
        generators: Mapping[str, Generator],
        *,
        seats: Mapping[str, RoleBinding],
        versions: Mapping[str, PolicyVersion],
        programs: PlaysPrograms | None = None,
    ) -> None:
        """`programs` plays environments whose agents are programs."""
        for role, seat in seats.items():
            assert seat.policy in generators, f"{role} is played by {seat.policy}; engines: {sorted(generators)}"
            assert seat.policy in versions, f"{role} is played by {seat.policy}; versions: {sorted(versions)}"
        self._generators = generators
        self._seats = seats
        self._versions = versions
        self.programs = programs
        self._choices: dict[tuple[str, tuple[str, ...]], Choices] = {}

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
        tokenizer = self._generators[seat.policy].tokenizer
        return encode_observation(
            seat.apply_prompt(observation), tokenizer, seat.prompt_format, seat.chat_template_arguments
        )

    def answer(self, role: str, observation: Observation, *, temperature: float, seed: int) -> str:
        """One answer of `role`, as text. Raises ConfigurationError if nobody plays it."""
        self.policy_of(role)
        prompt_tokens = self.encode(role, observation)
        request = RoleRequest(role=role, prompt_tokens=prompt_tokens, seeds_K=(seed,))
        ((completion,),) = self.generate([request], temperature=temperature)
        return self.decode(role, completion.tokens, prompt_tokens)

    def encode_choices(self, role: str, choices: Sequence[str]) -> Choices:
        """The answers that `role` chooses among, as tokens with an end; none for a policy behind an API, which answers in text.

        Raises ConfigurationError for an answer that the role's tokenizer does not give back.
        """
        policy = self._seats[role].policy
        if isinstance(self._generators[policy], Metered):
            return ()
        key = (policy, tuple(choices))
        if key not in self._choices:
            tokenizer = self._generators[policy].tokenizer
            encoded = encode_choices(tokenizer, choices)
            for choice, tokens in zip(choices, encoded, strict=True):
                if (text := tokenizer.decode(tokens)) != choice:
                    raise ConfigurationError(
                        f"environment.answer_format choice: the tokenizer of policy {policy} reads {choice!r} back as "
                        f"{text!r}; let choices() name it otherwise"
                    )
            self._choices[key] = encoded
        return self._choices[key]

    def decode(self, role: str, tokens: Sequence[int], prompt_tokens: Sequence[int] = ()) -> str:
        """The text of an answer of `role`, up to a stop string. If its chat template has opened the thinking at the end of the
        prompt, the text begins with that tag: cut-off thinking is then no answer."""
        seat = self._seats[role]
        tokenizer = self._generators[seat.policy].tokenizer
        text = before_stop(tokenizer.decode(tokens), seat.stop)
        if seat.prompt_format == "chat" and tokenizer.opens_thinking(prompt_tokens):
            return OPENING + text
        return text

    def own_temperature(self, role: str, temperature: float) -> float | None:
        """The role's own temperature in play at `temperature`; None if it plays at that, as all roles do in greedy play."""
        return self._seats[role].temperature if temperature > 0 else None

    def generate(self, requests: Sequence[RoleRequest], *, temperature: float) -> list[tuple[Completion, ...]]:
        """K completions per request, in order, at the role's own temperature or `temperature`; 0 is greedy for all roles.

        Raises StaleEngine if an engine holds or returns another version.

        **Example** requests of tool, plan, tool with tool and plan played by two policies: two engine calls, of two prompts
        and of one.
        """
        positions: dict[str, list[int]] = {}
        for position, request in enumerate(requests):
            positions.setdefault(self.policy_of(request.role), []).append(position)
        answers: dict[int, tuple[Completion, ...]] = {}
        for policy, at in positions.items():
            asked = [self._make_request(requests[position], temperature) for position in at]
            with subtask(len(answers) / len(requests), (len(answers) + len(at)) / len(requests)):
                answers.update(zip(at, self._answer(policy, asked), strict=True))
        return [answers[position] for position in range(len(requests))]

    def take_usage(self) -> dict[str, ApiUsage]:
        """The API usage of each policy behind an API since the last call."""
        engines = {policy: engine for policy, engine in self._generators.items() if isinstance(engine, Metered)}
        return {policy: engine.take_usage() for policy, engine in engines.items()}

    def _make_request(self, request: RoleRequest, temperature: float) -> GenerationRequest:
        seat, own = self._seats[request.role], self.own_temperature(request.role, temperature)
        return GenerationRequest(
            prompt_tokens=request.prompt_tokens,
            seeds_K=request.seeds_K,
            max_new_tokens=max(map(len, request.choices)) if request.choices else seat.max_new_tokens,
            temperature=temperature if own is None else own,
            stop=() if request.choices else seat.stop,
            max_thinking_tokens=None if request.choices else seat.max_thinking_tokens,
            choices=request.choices,
        )

    def _answer(self, policy: str, asked: list[GenerationRequest]) -> list[tuple[Completion, ...]]:
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
