"""The model card of an exported policy: what it is, how to load it, how good its team was, and what it was asked."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from components.plain_text import markdown_cell, printable, printable_document

Kind = Literal["model", "adapter", "merged"]
"""Weights of its own; a PEFT adapter beside its base; an adapter merged into its base."""
_LONGEST_SHOWN = 6000
_LONGEST_LITERAL = 2000
_VLLM_LORA_RANK = 16
"""vLLM's default maximum."""
_HUB_NAMES = {"smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct"}
_PLAIN_NAME = re.compile(r"[\w.:/@+-]{1,200}", re.ASCII)
_HUB_NAME = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}")
_DEFAULT_NEW_TOKENS = 64
_FORMATS = {
    "compact": "what an agent sees, as plain text, without a chat template",
    "chat": "a system message (who the agent is and how it has to answer) and a user message (what it sees), under the "
    "tokenizer's own chat template",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedNode:
    """A prompt of training, with special tokens spelled out, and an answer that was given. `is_exact` says that the exported
    tokenizer encodes the text to exactly the tokens of the prompt."""

    prompt: str
    answer: str
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFacts:
    """What a card tells. `max_new_tokens` by role: None where the environment decides and could not be asked.

    `base_folder` lies beside the policy's own folder; None where the weights are whole. `evaluations` have the keys `step,
    sampling, success_rate, interval, n`.
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
    """What answers were computed in; servers choose another one by default."""
    max_new_tokens: Mapping[str, int | None]
    evaluations: Sequence[Mapping[str, Any]]
    nodes: Mapping[str, RecordedNode]
    merge_difference: float | None = None


def card(facts: CardFacts) -> str:
    """The text of README.md. What a run recorded stands in it letter by letter."""
    updates = f"{facts.step} update{'' if facts.step == 1 else 's'}"
    sections = [
        f"# {_code(facts.policy)}: {_code(facts.run_id)} after {updates}",
        _introduction(facts),
        "## Load",
        _loading(facts),
        "## Success of the team",
        _success(facts),
        "## Prompts and sampling",
        _sampling(facts),
        *[_shown_node(role, turn) for role, turn in facts.nodes.items()],
    ]
    return f"---\n{_head(facts)}---\n\n" + "\n\n".join(sections) + "\n"


def vllm_command(facts: CardFacts, *, folder: Path | None = None) -> str:
    """The shell command that serves the policy; None as `folder` means the current one."""

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
            "step": facts.step,
            "preset": facts.preset,
            "policy": facts.policy,
            "roles": sorted(facts.max_new_tokens),
            "environment": facts.environment,
            "base": facts.base,
            "weights": facts.kind,
            "weights_digest": facts.weights_digest,
            "prompt_format": facts.prompt_format,
            "temperature": facts.temperature,
            "dtype": facts.dtype,
            "max_new_tokens": dict(sorted(facts.max_new_tokens.items())),
            "evaluations": [
                {
                    "step": row["step"],
                    "sampling": row["sampling"],
                    "success_rate": row["success_rate"],
                    "interval": list(row["interval"]),
                    "n": row["n"],
                }
                for row in facts.evaluations
            ],
        },
    }
    # On one line each: a line of their own could end the head.
    return yaml.safe_dump(printable_document(head), sort_keys=False, allow_unicode=True, width=120)


def _introduction(facts: CardFacts) -> str:
    weights = {
        "model": "These are whole weights",
        "adapter": f"This is a LoRA adapter; its base lies beside it in `{facts.base_folder}`",
        "merged": "These are whole weights: a LoRA adapter merged into its base",
    }[facts.kind]
    proof = "" if facts.merge_difference is None else _merge_proof(facts.merge_difference)
    learning = (
        f"trained by {_code(facts.advantage)} with loss {_code(facts.policy_loss)}"
        if facts.is_trained
        else "not trained"
    )
    return (
        f"One policy of a team of language-model agents in the environment {_code(facts.environment)}: it plays "
        f"{', '.join(_code(role) for role in sorted(facts.max_new_tokens))}. It began as {_code(facts.base)} and was "
        f"{learning} (preset {_code(facts.preset)}). {weights}{proof}. Digest of the weights in the checkpoint: "
        f"`{facts.weights_digest}`."
    )


def _merge_proof(difference: float) -> str:
    return f", whose log-probabilities differ from the trainer's by at most {difference:.1g} on the checkpoint's probe"


def _loading(facts: CardFacts) -> str:
    whole = f'AutoModelForCausalLM.from_pretrained("{{}}", dtype="{facts.dtype}")'
    if facts.base_folder is None:
        imports, model = "", whole.format(facts.policy)
    else:
        imports = "from peft import PeftModel\n"
        model = f'PeftModel.from_pretrained({whole.format(facts.base_folder)}, "{facts.policy}")'
    code = (
        f"{imports}from transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        f"model = {model}\n"
        f'tokenizer = AutoTokenizer.from_pretrained("{facts.policy}")\n'
    )
    return (
        "From the folder that holds this one:\n\n"
        f"{_fenced(code + _asking(facts), 'python')}\n\n"
        f"{_fenced(vllm_command(facts), 'sh')}"
    )


def _asking(facts: CardFacts) -> str:
    """Lines that ask the model what it was asked in training; none where no prompt is known that is short enough."""
    short = {role: turn for role, turn in facts.nodes.items() if turn.is_exact and len(turn.prompt) <= _LONGEST_LITERAL}
    if not short:
        return ""
    role, turn = next(iter(short.items()))
    limit = facts.max_new_tokens[role] or _DEFAULT_NEW_TOKENS
    return (
        f"\nprompt = {turn.prompt!r}\n"
        'tokens = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")\n'
        f'answer = model.generate(**tokens, max_new_tokens={limit})[0, tokens["input_ids"].shape[1] :]\n'
        "print(tokenizer.decode(answer, skip_special_tokens=True))\n"
    )


def _success(facts: CardFacts) -> str:
    if not facts.evaluations:
        return "No evaluation is recorded."
    rows = [
        f"| {row['step']} | {_code(str(row['sampling']))} | {row['success_rate']:.3f} | "
        f"{row['interval'][0]:.3f} to {row['interval'][1]:.3f} | {row['n']} |"
        for row in facts.evaluations
    ]
    table = "\n".join(["| updates | sampling | success | 95% interval | n |", "|---:|---|---:|---|---:|", *rows])
    last = max(int(row["step"]) for row in facts.evaluations)
    note = "" if last == facts.step else f" The last evaluation before these weights was after {last}."
    return (
        "Held-out problems of the environment, one answer a turn, as recorded by the run: before training, and last. All "
        f"policies of the team have played together.{note}\n\n{table}"
    )


def _sampling(facts: CardFacts) -> str:
    limits = ", ".join(
        f"{_code(role)} {'the longest answer that the environment reads' if limit is None else limit}"
        for role, limit in sorted(facts.max_new_tokens.items())
    )
    return (
        f"Prompts are {_FORMATS[facts.prompt_format]}; no token is added before or behind (`add_special_tokens=False`). "
        f"Answers were computed in {facts.dtype} and drawn at temperature {facts.temperature:g} from the whole "
        f"distribution, as in `generation_config.json`, and were at most so many tokens long: {limits}."
        + ("" if facts.nodes else " No prompt of this run is recorded.")
    )


def _shown_node(role: str, turn: RecordedNode) -> str:
    return (
        f"What {_code(role)} was asked in training:\n\n{_fenced(_bounded(turn.prompt))}\n\n"
        f"and what it answered:\n\n{_fenced(_bounded(turn.answer))}"
    )


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}… ({len(text)} characters)"


def _fenced(text: str, language: str = "") -> str:
    """A code block that nothing in `text` can end."""
    shown = printable(text).rstrip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return f"{fence}{language}\n{shown}\n{fence}"


def _code(text: str) -> str:
    """A name in the type of code, or letter by letter where it is none."""
    return f"`{text}`" if _PLAIN_NAME.fullmatch(text) else markdown_cell(text)
