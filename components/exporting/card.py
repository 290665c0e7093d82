"""The model card of an exported policy: its origin, how to load it, its team's success, and examples of its prompts."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from components.config import AgentConfig
from components.text.escaping import markdown_cell, printable, printable_document

Kind = Literal["model", "adapter", "merged"]
"""A full model; a PEFT adapter beside its base; an adapter merged into its base."""
_LONGEST_SHOWN = 6000
_LONGEST_LITERAL = 2000
_VLLM_LORA_RANK = 16
"""vLLM's default maximum."""
_HUB_NAMES = {"smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct"}
_PLAIN_NAME = re.compile(r"[\w.:/@+-]{1,200}", re.ASCII)
_HUB_NAME = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}")
_DEFAULT_NEW_TOKENS = 64
_HEAD_FACTS = ("step", "preset", "policy", "environment", "base", "weights_digest", "prompt_format", "temperature")
_EVALUATION_KEYS = ("step", "sampling", "success_rate", "interval", "n")
_FORMATS = {
    "compact": "what an agent sees, as plain text, without a chat template",
    "chat": "a system message (who the agent is and how it has to answer) and a user message (what it sees), under the "
    "tokenizer's own chat template",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedNode:
    """A prompt of training, including special tokens, and its answer. `is_exact`: the exported tokenizer encodes the text to
    exactly the prompt's tokens."""

    prompt: str
    answer: str
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFacts:
    """The content of a card. `max_new_tokens` by role: None if the environment decides and could not be asked.

    `base_folder` is a sibling of the policy's folder; None for full weights. `evaluations` have `_EVALUATION_KEYS`.
    """

    policy: str
    kind: Kind
    run_id: str
    step: int
    preset: str
    environment: str
    advantage: str
    policy_loss: str
    is_trained: bool
    base: str
    base_folder: str | None
    rank: int | None
    weights_digest: str
    prompt_format: Literal["compact", "chat"]
    temperature: float
    dtype: str
    """The type answers were computed in; servers default to another."""
    max_new_tokens: Mapping[str, int | None]
    evaluations: Sequence[Mapping[str, Any]]
    nodes: Mapping[str, RecordedNode]
    merge_difference: float | None = None
    agents: Mapping[str, AgentConfig] = field(default_factory=dict)
    """By role: the settings of its agent in the configuration."""
    chat_template_arguments: Mapping[str, Any] = field(default_factory=dict)

    def own(self, setting: str) -> dict[str, Any]:
        """Role -> its agent's `setting`, for the roles that set it."""
        values = {role: getattr(agent, setting) for role, agent in sorted(self.agents.items())}
        return {role: value for role, value in values.items() if value}


def card(facts: CardFacts) -> str:
    """The text of README.md. Recorded texts and names appear literally, never as markup."""
    texts = Environment(
        loader=PackageLoader(__package__, "."),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        autoescape=False,  # Markdown; what was recorded goes through `code` and `fenced`
    )
    texts.filters.update(code=_code, fenced=_fence, bounded=_bound, literal=repr)
    return texts.get_template("card.md.jinja").render(
        facts=facts,
        head=_head(facts),
        asked=_make_example_request(facts),
        command=vllm_command(facts),
        prompt_format=_FORMATS[facts.prompt_format],
    )


def vllm_command(facts: CardFacts, *, folder: Path | None = None) -> str:
    """The shell command that serves the policy from `folder`; None is the current folder."""

    def path(name: str) -> str:
        return name if folder is None else shlex.quote(str(folder / name))

    if facts.base_folder is None:
        return f"vllm serve {path(facts.policy)} --dtype {facts.dtype}"
    rank = facts.rank or 0
    option = f" --max-lora-rank {1 << (rank - 1).bit_length()}" if rank > _VLLM_LORA_RANK else ""
    return (
        f"vllm serve {path(facts.base_folder)} --dtype {facts.dtype} --enable-lora{option} "
        f"--lora-modules {facts.policy}={path(facts.policy)}"
    )


def _head(facts: CardFacts) -> str:
    base = _HUB_NAMES.get(facts.base, facts.base)
    relation = "adapter" if facts.kind == "adapter" else "finetune"
    head = {
        "library_name": "peft" if facts.kind == "adapter" else "transformers",
        "pipeline_tag": "text-generation",
        **({"base_model": base, "base_model_relation": relation} if _HUB_NAME.fullmatch(base) else {}),
        "tags": ["troupe", "reinforcement-learning", "multi-agent", facts.advantage],
        "troupe": {
            "run": facts.run_id,
            "weights": facts.kind,
            **{name: getattr(facts, name) for name in _HEAD_FACTS},
            "dtype": facts.dtype,
            "roles": sorted(facts.max_new_tokens),
            "max_new_tokens": dict(sorted(facts.max_new_tokens.items())),
            **_own_settings(facts),
            "evaluations": [
                {**{key: row[key] for key in _EVALUATION_KEYS}, "interval": list(row["interval"])}
                for row in facts.evaluations
            ],
        },
    }
    # Escaped to one line each: a recorded line could end the head.
    return yaml.safe_dump(printable_document(head), sort_keys=False, allow_unicode=True, width=120)


def _own_settings(facts: CardFacts) -> dict[str, Any]:
    """The settings that a run leaves out, where this one has them."""
    names = {"temperature": "temperatures", "max_thinking_tokens": "max_thinking_tokens", "stop": "stop"}
    settings = {shown: facts.own(name) for name, shown in names.items()}
    settings["prompts"] = {role: prompt.model_dump(exclude_none=True) for role, prompt in facts.own("prompt").items()}
    settings["chat_template_arguments"] = dict(facts.chat_template_arguments)
    return {name: value for name, value in settings.items() if value}


def _make_example_request(facts: CardFacts) -> dict[str, Any] | None:
    """A prompt of training, its token limit and stop strings, for the code that shows how to ask; None if no exact prompt is
    short enough."""
    for role, node in facts.nodes.items():
        if node.is_exact and len(node.prompt) <= _LONGEST_LITERAL:
            thinking = facts.own("max_thinking_tokens").get(role, 0)
            return {
                "prompt": node.prompt,
                "max_new_tokens": thinking + (facts.max_new_tokens[role] or _DEFAULT_NEW_TOKENS),
                "stop": list(facts.own("stop").get(role, ())),
            }
    return None


def _bound(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}… ({len(text)} characters)"


def _fence(text: str, language: str = "") -> str:
    """A code block that nothing in `text` can close."""
    shown = printable(text).rstrip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return f"{fence}{language}\n{shown}\n{fence}"


def _code(text: str) -> str:
    """`text` as inline code if it is a plain name, else as escaped text."""
    return f"`{text}`" if _PLAIN_NAME.fullmatch(text) else markdown_cell(text)
