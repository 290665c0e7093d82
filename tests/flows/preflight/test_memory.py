"""A run that cannot fit into memory does not start; the presets for one GPU fit into the one that they name."""

import json
from pathlib import Path

import pytest

from components.config import PolicyConfig
from components.errors import ConfigurationError
from components.models.loading import prepare_model_folder
from components.models.memory import GIB
from components.placement import fit
from components.placement.inventory import Device, Host
from components.placement.plan import plan
from components.runs.run import Run
from components.session.scenario import scenario_of
from components.session.session import Session
from flows.preflight import memory
from flows.preflight.checks import preflight
from flows.preflight.memory import check_memory, tokens_at_once
from flows.presets import preset_config, preset_values
from tests.components.generation.tiny_models import make_tagged_tokenizer
from tests.preset_substitutes import without_downloads

QWEN = {
    "model_type": "qwen2",
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
"""The config.json of Qwen2.5-1.5B-Instruct, as far as it gives sizes."""


@pytest.fixture
def base(tmp_path: Path) -> str:
    make_tagged_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    return f"policies.team.base={tmp_path}"


def with_memory(patch: pytest.MonkeyPatch, gib: float) -> None:
    """One host with one GPU, each with as much."""
    size = int(gib * GIB)
    host = Host(name="here", devices=(Device(name="0", num_bytes=size),), num_bytes=size)
    patch.setattr(memory, "plan_here", lambda config: plan(config, (host,)))


@pytest.mark.parametrize("preset", [name for name in preset_values() if name.endswith("-qwen")])
def test_a_preset_for_one_gpu_fits_into_the_one_that_it_names(
    preset: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_memory(monkeypatch, 24)
    check_memory(scenario_of(preset_config(preset, [base, *without_downloads(preset)])))
    with_memory(monkeypatch, 8)
    with pytest.raises(
        ConfigurationError, match=r"memory of device cuda: .* lower resources\.placement\.memory_fraction"
    ):
        check_memory(scenario_of(preset_config(preset, [base, *without_downloads(preset)])))


def test_the_largest_part_decides_the_advice(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 23.5)
    with pytest.raises(ConfigurationError, match=r"part is optimizer, 17\.3 GiB: train a policies\.<name>\.adapter"):
        check_memory(
            scenario_of(
                preset_config("math-qwen", [base, *without_downloads("math-qwen"), "policies.team.adapter=null"])
            )
        )
    with pytest.raises(ConfigurationError, match=r"part is engine, 21\.1 GiB: lower resources\.placement"):
        check_memory(
            scenario_of(
                preset_config(
                    "math-qwen", [base, *without_downloads("math-qwen"), "resources.placement.memory_fraction=0.9"]
                )
            )
        )


ABREAST = 'environment.turn_order=[["tool_agent", "plan_agent"]]'
CHAT = [
    "policies.team.base=elsewhere",
    "policies.team.prompt_format=chat",
    f"agents.tool_agent.prompt={{replace: {'x' * 40}}}",
]
FIRST = 5 * 6 + 2
"""T, five rows of five cells with their line feeds, a colon: what the first agent reads, one token each."""
SECOND = FIRST + 100
"""And the first one's answer."""
UNTOLD = FIRST + 15
"""The second one's, beside the first: ten moves, a bar, two coordinates and a mark are missing, and an arrow."""


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], 12 * (SECOND + 8 * 100)),
        (["environment.options.size=9"], 12 * (9 * 10 + 2 + 100 + 8 * 100)),
        (["rewards.team_credit=turn_end"], 12 * (SECOND + 8 * 100 + 8 * (SECOND + 100))),
        (["rewards.team_credit=episode_end"], 12 * (SECOND + 8 * 100 + 8 * 5 * (SECOND + 100))),
        ([ABREAST], 12 * 2 * (UNTOLD + 8 * 100)),
        ([ABREAST, "rewards.team_credit=episode_end"], 12 * (2 * (UNTOLD + 8 * 100) + 8 * 2 * 5 * (UNTOLD + 100))),
        (["rollout.mode=nested"], 12 * 8 * (SECOND + 100)),
        (["rollout.mode=independent", "algorithm.advantage=grpo"], 12 * 8 * (SECOND + 100)),
        # three characters a token, where the model's tokenizer is not here
        ([*CHAT, "agents.tool_agent.max_thinking_tokens=300"], 12 * ((40 + FIRST) // 3 + 400 + 8 * 400)),
        (["rollout.problems_per_block=5"], 5 * (SECOND + 8 * 100)),
    ],
)
def test_the_tokens_of_a_block_are_those_of_all_its_lines(overrides: list[str], expected: int) -> None:
    team = ["rollout.num_problems=12", "rollout.group_size=8", "environment.max_turns=3"]
    team += ["rollout.random_handoff_probability=0"]
    team += ["agents.tool_agent.max_new_tokens=100", "agents.plan_agent.max_new_tokens=90"]
    assert tokens_at_once(scenario_of(preset_config("plan-path", [*team, *overrides]))) == expected


def test_a_limit_that_the_environment_sets_counts_as_one_that_is_written() -> None:
    config = preset_config("plan-path", [])
    assert all(agent.max_new_tokens is None for agent in config.agents.values())
    longest = max(seat.max_new_tokens for seat in scenario_of(config).seats.values())
    written = preset_config("plan-path", [f"agents.{role}.max_new_tokens={longest}" for role in config.agents])
    assert tokens_at_once(scenario_of(config)) == tokens_at_once(scenario_of(written)) > 0


def test_a_run_that_does_not_fit_is_refused_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = scenario_of(preset_config("plan-path", []))
    folder = tmp_path / "model"
    alphabet = scenario.family.alphabet(scenario.options)
    prepare_model_folder(PolicyConfig(), alphabet=alphabet, seed=0, into=folder)
    local = ("store.kind=local", f"store.root={tmp_path / 'store'}", "tracking.kind=none")
    with Session(
        Run(run_id="large", config=preset_config("plan-path", [*local, f"policies.team.base={folder}"]))
    ) as large:
        preflight(large)
        with_memory(monkeypatch, 0.001)
        with pytest.raises(ConfigurationError, match=r"memory of device cpu: the run needs about .* GiB of 0\.0"):
            preflight(large)


def test_tiny_models_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 0)
    check_memory(scenario_of(preset_config("tiny", [])))


def test_the_presets_of_smollm_fit_into_sixteen_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 15.5)
    for preset in ("math-smollm", "code-smollm", "search-smollm"):
        check_memory(scenario_of(preset_config(preset, without_downloads(preset))))


def test_a_model_that_is_not_trained_needs_no_room_for_training(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 15.5)
    asked: list[str] = []
    monkeypatch.setattr(fit, "check_fits", lambda needed, available, *, where: asked.extend(needed))
    for trained in (True, False):
        asked.clear()
        overrides = [base, "policies.team.adapter=null", f"policies.team.trained={str(trained).lower()}"]
        check_memory(scenario_of(preset_config("plan-path-qwen", [*overrides, *without_downloads("plan-path-qwen")])))
        assert ("optimizer" in " ".join(asked)) == trained, asked
