"""Policies behind one program of another's: each learns from its own calls, and no kill costs or changes an answer."""

import os
import signal
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from components.artifacts import codec
from components.artifacts.local import LocalArtifactStore
from components.gateway.calls import AgentCall
from tests.integration.outcomes import outcome
from tests.integration.trainings import Trainings, await_no_workers, kill, tree
from troupe.viewing.recorded import read_recorded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NUM_STEPS = 3
POLICY = {
    "base": "tiny",
    "tiny": {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "intermediate_size": 64},
    "adapter": {"rank": 4},
}


def make_order(root: Path, **more: Any) -> dict[str, Any]:
    config = {
        "num_steps": NUM_STEPS,
        "seed": 1,
        "environment": {"name": "tests.integration.agent_team:Relay", "max_turns": 14},
        "agents": {role: {"policy": role, "max_new_tokens": 4} for role in ("first", "second", "judge")},
        "policies": {"first": POLICY, "second": POLICY, "judge": {**POLICY, "trained": False}},
        "warm_start": {"max_steps": 0},
        "rollout": {"mode": "independent", "num_problems": 1, "group_size": 4},
        "algorithm": {"advantage": "grpo"},
        "evaluation": {"num_problems": 2, "problems_per_block": 2},
        "store": {"kind": "local", "root": str(root / "store")},
        "tracking": {"kind": "none"},
    }
    return {"run_id": "team", "config": config, "summary": str(root / "team.json"), **more}


@pytest.fixture(scope="module")
def whole(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory) -> LocalArtifactStore:
    """The store of a run that nothing happened to."""
    root = tmp_path_factory.mktemp("team")
    assert trainings.run(make_order(root)).code == 0, trainings.log()
    return LocalArtifactStore(root / "store")


def list_calls(store: LocalArtifactStore) -> list[str]:
    return sorted(key for key in store.list("runs/team/") if "/agents/" in key)


def test_policies_behind_one_program_learn_from_their_own_calls(whole: LocalArtifactStore) -> None:
    digests = [step["checkpoint_digest"] for step in outcome(whole, "team")["steps"]]
    authors = []
    for step, (before, after) in enumerate(pairwise([read_recorded(whole, "team", 0).versions, *digests])):
        recorded = read_recorded(whole, "team", step)
        author = recorded.episodes[0].episode.problem.payload["author"]
        authors.append(author)
        assert {name for name in after if after[name] != before_digest(before, name)} == {author}
        for each in recorded.episodes:
            nodes = each.episode.nodes
            assert {node.group.agent for node in nodes if node.is_trained_on} == {author, "judge"}
            assert [node.is_trained_on for node in nodes] == [False, *[True] * 40], "a title is no row"
            assert len({node.policy for node in nodes}) == 2
        for key in list_calls(whole):
            if f"/steps/{step:06d}/" in key:
                call = codec.decode(whole.read(key) or b"", AgentCall)
                assert call.version == recorded.versions[call.policy], "never the base in place of its adapter"
    assert set(authors) == {"first", "second"}


def before_digest(before: Any, name: str) -> str:
    return str(getattr(before[name], "weights_digest", before[name]))


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param((("flow", 120, "computed"), ("program", 77, "committed"), ("flow", 200, "committed")), id="3"),
        pytest.param(None, id="20 at random", marks=pytest.mark.long),
    ],
)
def test_no_kill_changes_or_repeats_an_answer(
    kills: tuple[tuple[str, int, str], ...] | None, trainings: Trainings, whole: LocalArtifactStore, tmp_path: Path
) -> None:
    random = Random(5)
    for victim, at, moment in kills or [
        (random.choice(("flow", "program")), random.randrange(1, 90), random.choice(("computed", "committed")))
        for _ in range(20)
    ]:
        pid = trainings.start(make_order(tmp_path, stop_at_call={"at": at, "moment": moment}))
        if victim == "flow":
            ended = trainings.wait(pid)
            assert (ended.code, ended.stopped) == (-9, True), trainings.log()
            await_no_workers("team")
        else:
            trainings.await_stop(pid)
            kill([each for each in tree(pid) if "components.gateway.function_process" in each.cmdline()])
            os.kill(pid, signal.SIGCONT)
            assert trainings.wait(pid).code == 0, trainings.log()
    assert trainings.run(make_order(tmp_path)).code == 0, trainings.log()
    cut = LocalArtifactStore(tmp_path / "store")
    assert outcome(cut, "team") == outcome(whole, "team")
    assert list_calls(cut) == list_calls(whole)
