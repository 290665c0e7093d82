"""One step of every preset and of every way of sampling and training, on a very small model."""

import json
from pathlib import Path

import pytest

from components.config import HybridMethod
from components.config.hybrid import Crystal
from components.session.scenario import scenario_of
from flows.preflight.problem_counts import check_problem_counts
from flows.presets import preset_config, preset_values
from tests.integration.trainings import Trainings
from tests.preset_substitutes import without_downloads

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SHAPE = "{hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64, max_position_embeddings: 4096}"
SMALL = (
    "num_steps=1",
    "warm_start={min_success: 0.0, max_success: 1.0, max_steps: 2, check_every: 2, num_check_problems: 4}",
    "rollout.num_problems=4",
    "rollout.group_size=4",
    "rollout.problems_per_block=4",
    "evaluation={num_problems: 4, problems_per_block: 4}",
)
UNMIXED = ("rollout.random_handoff_probability=0",)
WAYS = {
    "an agent alone": ("rollout.mode=single", "algorithm.advantage=grpo", *UNMIXED),
    "an agent alone in a tree": (
        "environment.turn_order=[plan_agent]",
        "agents={plan_agent: {policy: team, max_new_tokens: 32}}",
        *UNMIXED,
    ),
    "a nested turn": ("rollout.mode=nested", "rewards.team_credit=node", *UNMIXED),
    "KL to the start on two ranks under ZeRO 2": (
        "loss.kl_coefficient=0.1",
        "loss.importance_cap=2.0",
        "training.zero_stage=2",
        "training.num_ranks=2",
    ),
    "credit at the end of the turn under ZeRO 3 with all that saves memory": (
        "rewards.team_credit=turn_end",
        "rollout.max_resamples=1",
        "training={zero_stage: 3, num_ranks: 2, offload: all, gradient_checkpointing: true}",
    ),
    "plain GRPO on a team with a policy per role": (
        "rollout.mode=independent",
        "algorithm.advantage=grpo",
        *UNMIXED,
        "policies={tool: {tiny: {hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64}},"
        " plan: {tiny: {hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64}, trained: false}}",
        "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}",
    ),
}


def small_team(preset: str) -> list[str]:
    """Overrides that make every policy of a preset a very small one on this machine's CPU, and every answer a short one."""
    values = {"base": "tiny", "prompt_format": "compact", "tiny": SHAPE}
    config = preset_config(preset, [])
    policies = [f"policies.{name}.{field}={value}" for name in config.policies for field, value in values.items()]
    here = ("generation.engine=transformers", "generation.device=cpu", "training.device=cpu")
    agents = {"max_new_tokens": 32, "prompt": "null"}  # a compact prompt has no instructions
    return [
        *policies,
        *here,
        *(f"agents.{role}.{field}={value}" for role in config.agents for field, value in agents.items()),
    ]


SMALL_HYBRID = (
    "num_steps=1",
    "method.num_games=4",
    "method.learner.steps=8",
    "environment.max_turns=40",
    "evaluation={num_problems: 4, problems_per_block: 4}",
)
OUR_CARTRIDGE = "method.game={type: homebrew}"
"""In place of a user's own copy of a game."""


def trained(trainings: Trainings, root: Path, preset: str, *overrides: str) -> dict[str, object]:
    """The summary of one step."""
    summary = root / "summary.json"
    local = ("store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none")
    config = preset_config(preset, [])
    small = (
        [*SMALL, *small_team(preset), *without_downloads(preset)] if config.method.writes_answers else [*SMALL_HYBRID]
    )
    if config.method.type == "population":
        small.append("warm_start={max_steps: 0}")  # games without an expert start from random weights
    if isinstance(config.method, HybridMethod) and isinstance(config.method.game, Crystal):
        small.append(OUR_CARTRIDGE)
    if config.resources.runner == "ray":
        small.append("rollout.num_shards=2")  # each task there takes seconds
    small += overrides
    order = {"preset": preset, "run_id": "one-step", "overrides": [*local, *small], "summary": str(summary)}
    assert trainings.run(order).code == 0, trainings.log()
    return dict(json.loads(summary.read_text()))


IN_EVERY_RUN = ("search-tiny", "stateful-shop")
"""Presets whose tools no whole run elsewhere has: the page of `flows.api.petting` trains on programs."""


@pytest.mark.parametrize(
    "preset",
    [pytest.param(each, marks=() if each in IN_EVERY_RUN else pytest.mark.long) for each in sorted(preset_values())],
)
def test_each_preset_runs_a_step(preset: str, trainings: Trainings, tmp_path: Path) -> None:
    config = preset_config(preset, without_downloads(preset))
    if config.method.writes_answers:
        check_problem_counts(scenario_of(config))  # the step below asks for fewer
    assert len(trained(trainings, tmp_path, preset)["evaluations"]) == 4  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "way", [pytest.param(each, marks=() if "per role" in each else pytest.mark.long) for each in sorted(WAYS)]
)
def test_each_way_of_training_runs_a_step(way: str, trainings: Trainings, tmp_path: Path) -> None:
    digests = trained(trainings, tmp_path, "tiny", *WAYS[way])["checkpoint_digest"]
    assert len(set(digests.values())) == (2 if "a policy per role" in way else 1)  # type: ignore[attr-defined]
