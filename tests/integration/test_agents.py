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
MOMENTS = ("computed", "committed")
SHORT = 6
POLICY = {
    "base": "tiny",
    "tiny": {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "intermediate_size": 64},
    "adapter": {"rank": 4},
}


def make_order(root: Path, num_rounds: int, **more: Any) -> dict[str, Any]:
    config = {
        "num_steps": 2,
        "seed": 2,
        "environment": {
            "name": "tests.integration.agent_team:Relay",
            "options": {"num_rounds": num_rounds},
            "max_turns": num_rounds,
        },
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
def short(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory) -> LocalArtifactStore:
    """The store of a run that nothing happened to."""
    return train_whole(trainings, tmp_path_factory.mktemp("team"), SHORT)


def train_whole(trainings: Trainings, root: Path, num_rounds: int) -> LocalArtifactStore:
    root.mkdir(exist_ok=True)
    assert trainings.run(make_order(root, num_rounds)).code == 0, trainings.log()
    return LocalArtifactStore(root / "store")


def list_calls(store: LocalArtifactStore) -> list[str]:
    return sorted(key for key in store.list("runs/team/") if "/agents/" in key)


def test_policies_behind_one_program_learn_from_their_own_calls(short: LocalArtifactStore) -> None:
    digests = [step["checkpoint_digest"] for step in outcome(short, "team")["steps"]]
    authors = []
    for step, (before, after) in enumerate(pairwise([read_recorded(short, "team", 0).versions, *digests])):
        recorded = read_recorded(short, "team", step)
        author = recorded.episodes[0].episode.problem.payload["author"]
        authors.append(author)
        assert {name for name in after if after[name] != before_digest(before, name)} == {author}
        for each in recorded.episodes:
            nodes = each.episode.nodes
            assert {node.group.agent for node in nodes if node.is_trained_on} == {author, "judge"}
            assert [node.is_trained_on for node in nodes] == [False, *[True] * 9], "a title is no row"
            assert len({node.policy for node in nodes}) == 2
        for key in list_calls(short):
            if f"/steps/{step:06d}/" in key:
                call = codec.decode(short.read(key) or b"", AgentCall)
                assert call.version == recorded.versions[call.policy], "never the base in place of its adapter"
    assert set(authors) == {"first", "second"}


def before_digest(before: Any, name: str) -> str:
    return str(getattr(before[name], "weights_digest", before[name]))


@pytest.mark.parametrize(
    ("num_rounds", "num_kills", "num_deaths"), [(6, 2, 1), pytest.param(26, 16, 4, marks=pytest.mark.long)]
)
def test_no_kill_changes_or_repeats_an_answer(
    num_rounds: int, num_kills: int, num_deaths: int, trainings: Trainings, short: LocalArtifactStore, tmp_path: Path
) -> None:
    whole = short if num_rounds == SHORT else train_whole(trainings, tmp_path / "whole", num_rounds)
    random, root, num_calls = Random(5), tmp_path / "cut", len(list_calls(whole))
    root.mkdir()
    for _ in range(num_kills):  # of the flow, with the gateway in it
        stop = {"at": [random.randrange(1, num_calls // (num_kills + 1))], "moment": random.choice(MOMENTS)}
        ended = trainings.run(make_order(root, num_rounds, stop_at_call=stop))
        assert (ended.code, ended.stopped) == (-9, True), trainings.log()
        await_no_workers("team")
    deaths = sorted(random.sample(range(1, num_calls // (num_kills + 1)), num_deaths))
    pid = trainings.start(make_order(root, num_rounds, stop_at_call={"at": deaths, "moment": "committed"}))
    for _ in deaths:
        trainings.await_stop(pid)
        kill([each for each in tree(pid) if "components.gateway.function_process" in each.cmdline()])
        os.kill(pid, signal.SIGCONT)
    assert trainings.wait(pid).code == 0, trainings.log()
    cut = LocalArtifactStore(root / "store")
    assert outcome(cut, "team") == outcome(whole, "team")
    assert list_calls(cut) == list_calls(whole)
