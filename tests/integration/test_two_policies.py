"""Two policies are one commit: a run killed between their updates goes on with both of one step."""

from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings, await_no_workers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SHAPE = "tiny: {hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64}"
AGENTS = "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}"
LEVELS = {
    "L2": f"policies={{tool: {{adapter: {{rank: 4}}, {SHAPE}}}, plan: {{adapter: {{rank: 8}}, {SHAPE}}}}}",
    "L3": f"policies={{tool: {{{SHAPE}}}, plan: {{{SHAPE}, learning_rate: 1.0e-3}}}}",
}
KILLS = {
    "L2": (("tool", "committed"), ("plan", "computed"), ("plan", "committed")),
    "L3": (("tool", "committed"),),
}


def make_order(root: Path, run_id: str, level: str, *more: str, **stop: Any) -> dict[str, Any]:
    root.mkdir(exist_ok=True)
    overrides = (LEVELS[level], AGENTS, "num_steps=2", "evaluation={num_problems: 8, problems_per_block: 8}", *more)
    return order(root, run_id, overrides=overrides, **stop)


@pytest.mark.parametrize("level", ["L2", pytest.param("L3", marks=pytest.mark.long)])
def test_killed_between_two_policies_updates(level: str, trainings: Trainings, tmp_path: Path) -> None:
    whole = trainings.run(make_order(tmp_path / "whole", "whole", level))
    assert whole.code == 0, trainings.log()
    expected = outcome(LocalArtifactStore(tmp_path / "whole" / "store"), "whole")
    assert [len(set(step["checkpoint_digest"].values())) for step in expected["steps"]] == [2, 2]
    for policy, moment in KILLS[level]:
        stop = {"part": f"/steps/000001/update_policy-v*/{policy}/", "moment": moment}
        ended = trainings.run(make_order(tmp_path / "cut", "cut", level, stop=stop))
        assert (ended.code, ended.stopped) == (-9, True), trainings.log()
        await_no_workers("cut")
        store = LocalArtifactStore(tmp_path / "cut" / "store")
        assert [step["step"] for step in outcome(store, "cut")["steps"]] == [0], "half a step counts as none"
    together = "resources.max_updates_at_once=2"
    assert trainings.run(make_order(tmp_path / "cut", "cut", level, together)).code == 0, trainings.log()
    assert outcome(LocalArtifactStore(tmp_path / "cut" / "store"), "cut") == expected


@pytest.mark.long
def test_a_policy_that_is_not_trained_stays_as_it_is(trainings: Trainings, tmp_path: Path) -> None:
    fixed = LEVELS["L3"].replace("learning_rate: 1.0e-3", "trained: false")
    overrides = (fixed, AGENTS, "num_steps=2", "evaluation={num_problems: 8, problems_per_block: 8}")
    assert trainings.run(order(tmp_path, "half", overrides=overrides)).code == 0, trainings.log()
    steps = outcome(LocalArtifactStore(tmp_path / "store"), "half")["steps"]
    assert len({step["checkpoint_digest"]["plan"] for step in steps}) == 1
    assert len({step["checkpoint_digest"]["tool"] for step in steps}) == 2
