"""A run that is killed anywhere and started again ends where an uninterrupted run ends, bit for bit."""

import random
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Ended, Trainings, await_no_workers, kill, tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MOST_KILLS_OF_ONE_RUN = 3
"""After which it is left to end: on a slow machine a run that is killed early enough, again and again, would never end."""
BOUNDARIES = [
    # stage, the part of its key that names one piece of it
    ("warm_start", "_shared/steps/000000/warm_start-v*/"),
    ("evaluate_policy", "/steps/000000/evaluate_policy-v*/greedy/"),
    ("collect_rollouts", "/steps/000001/collect_rollouts-v*/1/"),
    ("compute_rewards", "/steps/000001/compute_rewards-v*/0/"),
    ("compute_advantages", "/steps/000001/compute_advantages-v*/"),
    ("update_policy", "/steps/000001/update_policy-v*/"),
    ("publish_checkpoint", "/steps/000001/publish_checkpoint-v*/"),
]
KILLED_AFTER_COMMIT = {"publish_checkpoint"}
"""Commits of rollouts, rewards and updates are followed by a kill in test_overlap.py."""


def test_killed_at_every_stage_boundary(trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path) -> None:
    for stage, part in BOUNDARIES:
        for moment in ("computed", "committed") if stage in KILLED_AFTER_COMMIT else ("computed",):
            ended = trainings.run(order(tmp_path, "cut", stop={"part": part, "moment": moment}))
            assert (ended.code, ended.stopped) == (-9, True), f"{part} {moment}: {trainings.log()}"
            await_no_workers("cut")
    assert trainings.run(order(tmp_path, "cut")).code == 0, trainings.log()
    store = LocalArtifactStore(tmp_path / "store")
    assert outcome(store, "cut") == uninterrupted
    assert_each_kill_cost_one_attempt(store)


def assert_each_kill_cost_one_attempt(store: LocalArtifactStore) -> None:
    """A stage killed between its payload and its commit ran twice; everything else ran once."""
    attempts: dict[str, int] = {}
    for key in store.list("runs/"):
        if "/attempts/" in key:
            stage = key.split("/attempts/")[0]
            attempts[stage] = attempts.get(stage, 0) + 1
    for stage, count in attempts.items():
        was_hit = any(fnmatchcase(f"{stage}/", f"*{part}*") for _, part in BOUNDARIES)
        assert count == (2 if was_hit else 1), f"{stage} ran {count} times"


@pytest.mark.parametrize("least_kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_killed_at_random_instants(
    least_kills: int, trainings: Trainings, undisturbed_run: tuple[dict[str, Any], float], tmp_path: Path
) -> None:
    uninterrupted, whole_seconds = undisturbed_run
    rng = random.Random(20)
    num_kills, chain = 0, 0
    while num_kills < least_kills:
        root = tmp_path / str(chain)
        root.mkdir()
        for _ in range(MOST_KILLS_OF_ONE_RUN):
            seconds = rng.uniform(0.2, whole_seconds)
            ended = shot(trainings, root, seconds, alone=num_kills % 2 == 0)
            if ended.code == 0:
                break
            assert ended.code == -9, trainings.log()
            num_kills += 1
        else:
            assert trainings.run(order(root, "shot")).code == 0, trainings.log()
        assert outcome(LocalArtifactStore(root / "store"), "shot") == uninterrupted, f"chain {chain}"
        chain += 1


def shot(trainings: Trainings, root: Path, seconds: float, *, alone: bool) -> Ended:
    """Start the run and kill it after `seconds`, unless it ends before: its whole tree, or itself alone."""
    pid = trainings.start(order(root, "shot"))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not (root / "shot.json").exists():
        time.sleep(0.01)
    if not (root / "shot.json").exists():
        kill(tree(pid)[:1] if alone else tree(pid))
    ended = trainings.wait(pid)
    await_no_workers("shot")
    return ended


def test_the_critic_of_a_team_comes_back_too(trainings: Trainings, tmp_path: Path) -> None:
    """Its weights and moments are in no policy's digest: only the next update shows them."""
    critic = ("rollout.mode=independent", "algorithm={advantage: gae}", "evaluation.every=2", "num_steps=2")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for root in (whole, cut):
        root.mkdir()
    assert trainings.run(order(whole, "ppo", overrides=critic)).code == 0, trainings.log()
    ended = trainings.run(
        order(cut, "ppo", overrides=critic, stop={"part": "/steps/000001/collect_rollouts-v*/1/", "moment": "computed"})
    )
    assert (ended.code, ended.stopped) == (-9, True), trainings.log()
    await_no_workers("ppo")
    assert trainings.run(order(cut, "ppo", overrides=critic)).code == 0, trainings.log()
    assert outcome(LocalArtifactStore(cut / "store"), "ppo") == outcome(LocalArtifactStore(whole / "store"), "ppo")
