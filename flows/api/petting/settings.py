"""The keys of a configuration as users edit it, and the fields of a `RunConfig` that each one sets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.errors import ConfigurationError
from components.suggestions import suggest


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key: the fields that it sets, where `*` is every policy or agent. The last one that is set tells its value."""

    places: tuple[str, ...]
    meaning: str

    def read(self, values: Mapping[str, Any]) -> Any:
        """The value in a whole configuration; by the name of a policy or agent where these differ."""
        found = None
        for place in self.places:
            of_names = {name: _value_at(values, path) for name, path in paths_of(place, values)}
            given = list(of_names.values())
            if any(value is not None for value in given):
                found = given[0] if all(value == given[0] for value in given) else of_names
        return found

    def write(self, key: str, value: Any, into: dict[str, Any]) -> None:
        """Set the value in plain values: the same for all, or by name. Raises ConfigurationError for an unknown name."""
        is_by_name = isinstance(value, Mapping) and any("*" in place for place in self.places)
        for place in self.places:
            if is_by_name and "*" not in place:
                continue
            paths = dict(paths_of(place, into))
            for name, each in (value if is_by_name else dict.fromkeys(paths, value)).items():
                if name not in paths:
                    raise ConfigurationError(
                        f"config[{key!r}]: {name!r} is none of them; {suggest(name, _names(paths))}"
                    )
                *parents, leaf = paths[name]
                section = into
                for parent in parents:
                    inner = section.get(parent)
                    section[parent] = inner if isinstance(inner, dict) else {}
                    section = section[parent]
                section[leaf] = each


def paths_of(place: str, values: Mapping[str, Any]) -> Iterator[tuple[str | None, tuple[str, ...]]]:
    """The name of each policy or agent for which `*` stands, with the path; None where the place has no `*`.

    **Example** `agents.*.max_new_tokens` in a team of tester and coder: ("tester", ("agents", "tester", "max_new_tokens")), ...
    """
    section, star, rest = place.partition(".*.")
    if not star:
        yield None, tuple(place.split("."))
        return
    for name in values[section]:
        yield name, (section, name, *rest.split("."))


def _value_at(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = values
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _names(paths: Mapping[str | None, object]) -> list[str]:
    return [name for name in paths if name is not None]


def _to(*places: str, meaning: str) -> Setting:
    return Setting(places=places, meaning=meaning)


SETTINGS: Mapping[str, Setting] = {
    "num_iterations": _to("num_steps", meaning="Training iterations."),
    "seed": _to("seed", meaning="The only source of randomness."),
    "env_options": _to(
        "environment.options", meaning="The environment's own options, all of them: size, level, dataset."
    ),
    "max_turns": _to("environment.max_turns", meaning="Turns after which an episode ends."),
    "batch_size": _to("rollout.num_problems", meaning="Problems of an iteration."),
    "train_sample_num": _to("rollout.group_size", meaning="Candidates compared at a node: K of AT-GRPO."),
    "rollout_mode": _to("rollout.mode", meaning="tree, nested, independent or single."),
    "advantage": _to("algorithm.advantage", meaning="at_grpo, or grpo and others for whole episodes."),
    "norm_adv_by_std": _to("algorithm.normalize_std", meaning="Divide advantages by a standard deviation."),
    "alpha": _to("rewards.team_weight", meaning="The weight of the team's reward beside the agent's own."),
    "temperature": _to("rollout.temperature", meaning="At which answers are drawn in training."),
    "max_response_length": _to("agents.*.max_new_tokens", meaning="Tokens of an answer; by role where roles differ."),
    "learning_rate": _to(
        "training.learning_rate", "policies.*.learning_rate", meaning="Of Adam; by policy where they differ."
    ),
    "lr_scheduler": _to("training.lr_schedule", meaning="constant, linear or cosine."),
    "lr_warmup_steps": _to("training.num_warmup_updates", meaning="Updates over which the learning rate rises."),
    "weight_decay": _to("training.weight_decay", meaning="Of AdamW."),
    "grad_clip": _to("training.max_grad_norm", meaning="The largest norm of a gradient."),
    "ppo_epochs": _to("training.num_epochs", meaning="Passes over the answers of an iteration."),
    "num_mini_batches": _to("training.num_minibatches", meaning="Updates of a pass."),
    "clip_ratio_low": _to("loss.clip_low", meaning="The importance ratio is clipped below 1 less this."),
    "clip_ratio_high": _to("loss.clip_high", meaning="And above 1 plus this."),
    "entropy_coeff": _to("loss.entropy_coefficient", meaning="The weight of the entropy."),
    "kl_loss_coef": _to("loss.kl_coefficient", meaning="The weight of the KL divergence to the start."),
    "lora_rank": _to("policies.*.adapter.rank", meaning="The rank of a LoRA adapter; None trains all weights."),
    "lora_alpha": _to("policies.*.adapter.alpha", meaning="An adapter's update is scaled by lora_alpha / lora_rank."),
    "val_freq": _to("evaluation.every", meaning="Iterations between evaluations; 0: before the first, after the last."),
    "val_episodes": _to("evaluation.num_problems", meaning="Problems of an evaluation."),
    "engine": _to("generation.engine", meaning="transformers, in this process, or vllm."),
    "device": _to("generation.device", "training.device", meaning="cpu or cuda."),
    "dtype": _to("generation.dtype", "training.dtype", meaning="float32 or bfloat16."),
}
"""Key -> what it sets. Documented in docs/petting.md."""
