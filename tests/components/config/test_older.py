"""Configurations as earlier versions stored them are those of today's presets."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.artifacts.records import with_digest
from components.config import RunConfig
from components.config.older import upgrade_values
from components.identity import config_key
from components.runs.lineages import Lineage, read_config
from flows.presets import preset_config, preset_values

STORED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("stored_configs.json").read_text())
TODAY = {"tiny by sequence": preset_config("tiny", ["algorithm.advantage=rloo", "loss.policy_loss=gspo"])}


@pytest.mark.parametrize("name", STORED)
def test_a_stored_configuration_is_read_as_the_same_one_of_today(name: str, tmp_path: Path) -> None:
    wanted, store = TODAY.get(name) or preset_config(name), LocalArtifactStore(tmp_path)
    store.create(config_key("r"), with_digest(STORED[name], indent=1))
    assert read_config(store, "r") == wanted
    restart = {"lineage": 1, "from_step": 0, "from_stage": "s", "repeats": ["s"], "started_at": "2026-11-04T00:00:00Z"}
    assert Lineage.model_validate({**restart, "config": STORED[name]}).config == wanted
    again = wanted.model_dump(mode="json")
    assert upgrade_values(again) == again
    assert RunConfig.model_validate(again) == wanted


UNSET = {"starts": None, "rom": None, "strategy": None, "curriculum": None, "questions_per_episode": None}
UPDATES = {"every": 1, "staleness_exponent": 0.5, "personal_share": 0.25, "best_share": 0.25, "proximal": 0.0}


@pytest.mark.parametrize(
    ("preset", "section", "changes", "method"),
    [
        (
            "population-tiny",
            "population",
            {"training_mode": "hierarchical", "leader": "player_1", "compliance_bonus": 0.5, "discount": 0.75}
            | {"weight_updates": UPDATES | {"strategy": "selective"}, "opponents": {"every": 3}},
            {"training_mode": {"type": "hierarchical", "leader": "player_1", "compliance_bonus": 0.5}}
            | {"weight_updates": {"type": "selective", "best_share": 0.25}, "opponents": {"every": 3}},
        ),
        (
            "hybrid-tiny",
            "hybrid",
            UNSET | {"game": "homebrew", "num_games": 3, "learner": {"network": "cnn", "width": 7, "state_gains": {}}},
            {"num_games": 3, "learner": {"network": {"type": "cnn", "width": 7}}},
        ),
        (
            "hybrid-tiny",
            "hybrid",
            UNSET | {"game": "crystal", "rom": "r.gbc", "learner": {"network": "mlp", "state_gains": {"x": 25.0}}},
            {"game": {"type": "crystal", "rom": "r.gbc"}, "learner": {"network": {"state_gains": {"x": 25.0}}}},
        ),
    ],
    ids=["population", "screens", "own copy"],
)
def test_each_field_comes_to_the_variant_that_reads_it(
    preset: str, section: str, changes: dict[str, Any], method: dict[str, Any]
) -> None:
    values: dict[str, Any] = {**preset_values()[preset], "method": {"type": section, **method}}
    if "discount" in changes:
        values["algorithm"] = {**values["algorithm"], "discount": changes["discount"]}
    stored = {**STORED[preset], section: changes}
    assert RunConfig.model_validate(upgrade_values(stored)).method == RunConfig.model_validate(values).method
    assert RunConfig.model_validate(upgrade_values(stored)).algorithm == RunConfig.model_validate(values).algorithm


def test_an_engine_keeps_what_it_reads() -> None:
    engine = STORED["tiny"]["generation"] | {"engine": "vllm", "device": "cuda"}
    read = RunConfig.model_validate(upgrade_values(STORED["tiny"] | {"generation": engine}))
    wanted = {"engine": "vllm", "device": "cuda"}
    assert read == preset_config("tiny", [f"generation={json.dumps(wanted)}"])
