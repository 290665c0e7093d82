"""Configurations as earlier versions stored them, in the form of today: what is stored stays readable."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from components.config.algorithm import Algorithm, AlgorithmConfig, CustomAdvantage
from components.config.loss import CustomLoss, Loss, LossConfig
from components.config.method import unread_sections
from components.config.run import RunConfig
from components.config.variants import list_variants


def upgrade_values(values: Any) -> Any:
    """A stored configuration's plain values, with `method` in place of the sections `population` and `hybrid`, and without the
    fields that its variants do not have, or that say where workers were. Anything else stays as it is.

    **Example** {"population": {"training_mode": "mixed", ...}} becomes {"method": {"type": "population", "training_mode":
    {"type": "mixed", ...}, ...}}.
    """
    if not isinstance(values, Mapping):
        return values
    values = _without_places(values)
    if "method" in values or not {"population", "hybrid"} & values.keys():
        return values
    found = {name: value for name, value in values.items() if name not in ("population", "hybrid")}
    algorithm = dict(found.get("algorithm", {}))
    if population := values.get("population"):
        found["method"] = _population(population)
        algorithm |= {name: population[name] for name in ("discount", "baseline_decay") if name in population}
    if hybrid := values.get("hybrid"):
        found["method"] = _hybrid(hybrid)
    if algorithm:
        variant: type[AlgorithmConfig] = list_variants(Algorithm).get(
            algorithm.get("advantage", "at_grpo"), CustomAdvantage
        )
        found["algorithm"] = _of_variant(algorithm, variant)
    if loss := found.get("loss"):
        kind: type[LossConfig] = list_variants(Loss).get(loss.get("policy_loss", "clip"), CustomLoss)
        found["loss"] = _of_variant(loss, kind)
    found = {name: value for name, value in found.items() if name not in unread_sections(found)}
    if generation := found.get("generation"):
        unread = "max_batch_tokens" if generation.get("engine") == "vllm" else "vllm"
        found["generation"] = {name: value for name, value in generation.items() if name != unread}
    return found


def _without_places(values: Mapping[str, Any]) -> dict[str, Any]:
    """Where workers were affects no result: `resources.placement` of the next session says it."""
    found = dict(values)
    for path, name in (
        ("training", "hostfile"),
        ("generation.vllm", "num_replicas"),
        ("generation.vllm", "gpu_memory_fraction"),
    ):
        section, inside = path.partition(".")[::2]
        if not isinstance(outer := found.get(section), Mapping):
            continue
        if not inside:
            found[section] = {key: value for key, value in outer.items() if key != name}
        elif isinstance(inner := outer.get(inside), Mapping):
            found[section] = {**outer, inside: {key: value for key, value in inner.items() if key != name}}
    return found


def _population(section: Mapping[str, Any]) -> dict[str, Any]:
    of_mode = {
        "cooperative": ("cooperation_strength", "team_size"),
        "competitive": ("competition_intensity",),
        "mixed": ("cooperation_strength", "competition_intensity", "team_size"),
        "hierarchical": ("leader", "leader_term", "compliance_bonus"),
    }
    of_strategy = {
        "asynchronous": ("every", "staleness_exponent"),
        "synchronized": ("every",),
        "federated": ("every", "personal_share", "return_temperature", "proximal"),
        "selective": ("best_share", "exploration", "max_rounds_waiting"),
    }
    mode, updates = section.get("training_mode", "mixed"), section.get("weight_updates", {})
    strategy = updates.get("strategy", "asynchronous")
    return {
        "type": "population",
        "training_mode": {"type": mode} | _pick_given(section, of_mode[mode]),
        "weight_updates": {"type": strategy} | _pick_given(updates, of_strategy[strategy]),
        **_pick_given(section, ("rotates_seats", "opponents")),
    }


def _hybrid(section: Mapping[str, Any]) -> dict[str, Any]:
    mode, game = section.get("mode", "rl_only"), section.get("game", "homebrew")
    learner = dict(section.get("learner", {}))
    network = learner.pop("network", "mlp")
    of_network = {name: learner.pop(name) for name in ("width", "state_gains") if name in learner}
    if network == "cnn":
        of_network.pop("state_gains", None)
    of_mode = ("strategy", "curriculum", "questions_per_episode") if mode == "adaptive" else ()
    of_game = {"twin": ("starts",), "crystal": ("rom",)}.get(game, ())
    return {
        "type": "hybrid",
        "mode": {"type": mode} | _pick_given(section, of_mode),
        "game": {"type": game} | _pick_given(section, of_game),
        "learner": {**learner, "network": {"type": network, **of_network}},
        **_pick_given(section, ("num_games", "subgoals", "keeps_decisions", "weights")),
    }


def _pick_given(section: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: section[name] for name in names if name in section}


def _of_variant(section: Mapping[str, Any], variant: type[AlgorithmConfig] | type[LossConfig]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name in variant.model_fields}


StoredConfig = Annotated[RunConfig, BeforeValidator(upgrade_values)]
"""A configuration as it is read from a store."""
