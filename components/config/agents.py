"""The section `agents`: the roles, each with its policy and its limits."""

from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from components.config.policies import PolicyConfig
from components.config.prompts import PromptConfig
from components.frozen import Settings

_LONGEST_STOP = 128


def _check_stop(text: str) -> str:
    """`text` itself. Raises ValueError if no answer can contain it."""
    if not text:
        raise ValueError("is empty, and would end every answer before it begins; remove it")
    if len(text) > _LONGEST_STOP:
        raise ValueError(f"has {len(text)} characters; use at most {_LONGEST_STOP}")
    if "\ufffd" in text or not _is_unicode(text):
        raise ValueError("holds U+FFFD or half of a surrogate pair, which no decoded answer does; remove it")
    return text


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


class AgentConfig(Settings):
    policy: str
    """The policy that plays this role."""
    prompt: PromptConfig | None = None
    """Instructions of your own, for a policy of prompt_format chat; None shows the environment's."""
    temperature: float | None = Field(None, ge=0.01, le=100.0)
    """At which this role's answers are drawn and trained, also in evaluations that sample; None uses rollout.temperature, and 1
    in evaluations. Greedy evaluations ignore it."""
    max_new_tokens: int | None = Field(None, ge=1)
    """Maximal tokens of an answer; None allows the environment's longest well-formed answer and its end, and 1024 more under
    environment.answer_format free. In teams of chat models 256 unless given, but for models behind an API."""
    max_thinking_tokens: int | None = Field(None, ge=1)
    """Maximal tokens of thinking before the answer, from <think> up to </think>, beside `max_new_tokens` for what follows. An
    answer that still thinks at this limit ends there, truncated; one that does not begin with <think> has `max_new_tokens`
    alone. None: thinking counts as part of the answer."""
    stop: tuple[Annotated[str, AfterValidator(_check_stop)], ...] = Field((), max_length=16)
    """Strings that end an answer, wherever they occur in it, in thinking too. The environment reads the text before the string;
    all sampled tokens are trained on, up to the one that completes it."""

    @field_validator("stop", mode="before")
    @classmethod
    def _is_a_list(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("write it as a list, as [STRING]")
        return value

    def misfit(self, policy: PolicyConfig) -> str | None:
        """What of this agent its policy cannot do: field, value, reason and remedy. None if it can do all."""
        if policy.prompt_format != "chat":
            for name in ("prompt", "max_thinking_tokens"):
                if (value := getattr(self, name)) is not None:
                    shown = "" if name == "prompt" else f" {value}"
                    return (
                        f"{name}{shown}: policy {self.policy} has prompt_format {policy.prompt_format}, which shows no "
                        f"instructions; set policies.{self.policy}.prompt_format to chat, or leave {name} out"
                    )
        if policy.api is None:
            return None
        if self.max_thinking_tokens is not None:
            return (
                f"max_thinking_tokens {self.max_thinking_tokens}: the model of policy {self.policy} is behind an api, which "
                "counts thinking its own way; leave it out, and let max_new_tokens hold both"
            )
        if self.temperature is not None and policy.api.fixed_temperature:
            return (
                f"temperature {self.temperature}: policies.{self.policy}.api.fixed_temperature says that its model takes none; "
                "leave one of them out"
            )
        blank = [text for text in self.stop if not text.strip()]
        if blank and policy.api.provider == "anthropic":
            return f"stop {blank[0]!r}: the anthropic api takes no blank stop strings; leave it out"
        return None
