"""A population of six members, killed at every stage, ends as it would have ended; each adapter changes when it should."""

import re
from collections.abc import Sequence
from itertools import groupby, permutations
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch

from components.artifacts.local import LocalArtifactStore
from components.artifacts.payloads import get
from components.artifacts.refs import ArtifactRef, StageManifest
from components.generation.api.chat import KEY_VARIABLES
from components.population.credit import PopulationState
from components.runs.gc import collect_garbage
from components.runs.run import MixedStep
from components.runs.step_records import step_manifests
from components.runs.steps import checkpoints_before
from components.runs.stored_runs import read_run
from components.runs.verify import verify_run
from components.schema import Episode, RolloutShard
from components.training.adapter_state import read_adapter_state
from flows.presets import preset_values
from tests.components.generation.api.wire_server import KEY, MODEL, wire_server
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings, await_no_workers
from troupe.runs.documents import run_document

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
MEMBERS = ("first", "second", "third", "fourth", "fifth", "sixth")
BOUNDARIES = (
    "/steps/000001/mix_returns-v*/",
    "/steps/000001/update_policy-v*/fifth/",
    "/steps/000001/coordinate_weights-v*/",
    "/steps/000003/play_against_starts-v*/",
    "/steps/000003/draw_interactions-v*/",
)
"""test_kill_and_resume.py has the stages of every method."""
SMALL = {"base": "tiny", "tiny": {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "intermediate_size": 64}}


def config(root: Path, **updates: Any) -> dict[str, Any]:
    """The smallest population's preset with six members, each with an A of its own, and opponents from the start."""
    values = preset_values()["population-tiny"]
    member = {**values["policies"]["first"], "adapter": {"rank": 4, "alpha": 8}}
    return {
        **values,
        "environment": {**values["environment"], "options": {"num_members": 6, "num_steps": 2}},
        "agents": {f"player_{number}": {"policy": member} for number, member in enumerate(MEMBERS)},
        "policies": dict.fromkeys(MEMBERS, member),
        "method": {"type": "population", "opponents": {"every": 1}, "weight_updates": updates},
        "evaluation": {"num_problems": 4, "problems_per_block": 4, "sampling": ["sample"]},
        "store": {"kind": "local", "root": str(root / "store")},
        "tracking": {"kind": "none"},
    }


def weights(root: Path, run_id: str, step: int) -> dict[str, str]:
    """The digest of each member's weights before `step`."""
    store = LocalArtifactStore(root / "store")
    before = checkpoints_before(store, read_run(store, run_id), step)
    return {member: checkpoint.weights_digest for member, checkpoint in before.items()}


def moments(root: Path, run_id: str, step: int, member: str) -> dict[str, Any]:
    """A member's optimizer before `step`, by names that all members share."""
    store = LocalArtifactStore(root / "store")
    checkpoint = checkpoints_before(store, read_run(store, run_id), step)[member]
    folder = root / f"{member}-{step}"
    store.get_folder(checkpoint.folder, folder)
    return dict(read_adapter_state(folder, member).optimizer)


def test_killed_at_every_stage_it_ends_in_the_same_population(trainings: Trainings, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for root in (whole, cut):
        root.mkdir()
    settings = {"type": "federated", "every": 2, "personal_share": 0.25, "return_temperature": 0.5}
    assert trainings.run(order(whole, "p", config=config(whole, **settings))).code == 0, trainings.log()
    for part in BOUNDARIES:
        stop = {"part": part, "moment": "computed"}
        ended = trainings.run(order(cut, "p", config=config(cut, **settings), stop=stop))
        assert (ended.code, ended.stopped) == (-9, True), f"{part}: {trainings.log()}"
        await_no_workers("p")
    assert trainings.run(order(cut, "p", config=config(cut, **settings))).code == 0, trainings.log()
    one, other = (LocalArtifactStore(root / "store") for root in (whole, cut))
    assert outcome(one, "p") == outcome(other, "p")
    states = [_state(store, 2) for store in (one, other)]
    assert states[0] == states[1]
    assert len(_list_played(one, 2) - set(MEMBERS)) > 0, "nobody met a past self"
    assert set(states[0].pools) == set(MEMBERS)
    gains = [_gains(store) for store in (one, other)]
    assert [each["agent"] for each in gains[0]] == [f"player_{number}" for number in range(6)]
    assert gains[0] == gains[1]
    drawn = _read_drawn(one)
    assert drawn == _read_drawn(other), "the files are equal to the byte"
    check_interactions(one, "p", whole / "store" / drawn.key, members=MEMBERS, own_share=0.25)
    updated = {
        str(each.output["checkpoint"]["weights_digest"]) for each in _manifests(one, 1) if each.stage == "update_policy"
    }
    for step, parents in ((1, set()), (2, updated), (3, set())):
        after = checkpoints_before(one, read_run(one, "p"), step)
        assert [set(after[member].parents) for member in MEMBERS] == [parents] * len(MEMBERS)
    assert _read_mixed(other, 2).needed_steps == (1, 2)
    collect_garbage(other, keep_checkpoints=2, grace_seconds=0, dry_run=False)
    kept = {step: checkpoints_before(other, read_run(other, "p"), step)["fifth"].folder for step in range(4)}
    assert [step for step, folder in kept.items() if [*other.list(folder.key)]] == [0, 1, 2, 3], "a past self is gone"
    assert verify_run(other, "p").is_whole
    for lost in (
        "000000/update_policy-v*/fifth",
        "000000/coordinate_weights-v*/all",
        "000003/draw_interactions-v*/all",
    ):
        (manifest,) = (whole / "store/runs/p/steps").glob(f"{lost}/*/manifest.json")
        content = manifest.read_bytes()
        manifest.unlink()
        found = verify_run(one, "p")
        manifest.write_bytes(content)
        assert [each.key for each in found.problems] == [manifest.relative_to(whole / "store").as_posix()]


def _gains(store: LocalArtifactStore, step: int = 3) -> list[dict[str, Any]]:
    (found,) = [each for each in _manifests(store, step) if each.stage == "play_against_starts"]
    gains: list[dict[str, Any]] = found.output["gains"]
    return gains


def check_interactions(
    store: LocalArtifactStore, run_id: str, folder: Path, *, members: Sequence[str], own_share: float
) -> None:
    """The published graph has what the rollouts of the run have, counted here, and one round of transfers."""
    done: dict[tuple[str, str], list[int]] = {}
    earned: list[dict[str, float]] = []
    for episode in (each for step in range(3) for each in _episodes(store, run_id, step)):
        paid: dict[str, float] = {}
        for _, turn in groupby(episode.nodes, key=lambda node: node.group.turn):
            acting = {node.group.agent: node for node in turn}
            names = {agent: re.sub("@.*", "@past", node.policy) for agent, node in acting.items()}
            for agent, node in acting.items():
                outcome = node.candidates[node.chosen].outcome
                paid[names[agent]] = paid.get(names[agent], 0.0) + (outcome.payoffs or {})[agent]
                for other in acting.keys() - {agent}:
                    counts = done.setdefault((names[agent], names[other]), [0, 0])
                    counts[node.candidates[node.chosen].text == "compete"] += 1
        earned.append(paid)
    graph = networkx.read_graphml(folder / "interactions.graphml")
    assert {(a, b): [edge["num_cooperated"], edge["num_competed"]] for a, b, edge in graph.edges(data=True)} == done
    first, second = members[:2]
    pairs = [(each[first], each[second]) for each in earned if {first, second} <= each.keys()]
    assert graph[first][second]["return_correlation"] == pytest.approx(np.corrcoef(np.array(pairs).T)[0, 1])
    took = {(a, b): edge["transferred_share"] for a, b, edge in graph.edges(data=True) if edge["num_transfers"]}
    assert took.keys() == set(permutations(members, 2)), (
        "each member took over from each other one, and nobody from the past"
    )
    assert sum(took[member, next(iter({*members} - {member}))] for member in members) == pytest.approx(1 - own_share)
    assert (folder / "interactions.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_asynchronous_members_play_by_weights_within_the_bound_killed_or_not(
    trainings: Trainings, tmp_path: Path
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for root in (whole, cut):
        root.mkdir()

    def asynchronous(root: Path) -> dict[str, Any]:
        return {**config(root, type="asynchronous", every=2), "loss": {"importance_cap": 2.0}}

    assert trainings.run(order(whole, "p", config=asynchronous(whole))).code == 0, trainings.log()
    stop = {"part": "/steps/000002/collect_rollouts-v*/", "moment": "computed"}
    ended = trainings.run(order(cut, "p", config=asynchronous(cut), stop=stop))
    assert (ended.code, ended.stopped) == (-9, True), trainings.log()
    await_no_workers("p")
    assert trainings.run(order(cut, "p", config=asynchronous(cut))).code == 0, trainings.log()
    one, other = (LocalArtifactStore(root / "store") for root in (whole, cut))
    assert outcome(one, "p") == outcome(other, "p")
    for step, document in enumerate(run_document(one, "p")["steps"]):
        ages = {member: document["metrics"][f"population/{member}/staleness"] for member in MEMBERS}
        places = {member: place for place, member in enumerate(sorted(MEMBERS))}
        assert ages == {member: min(step, (step + places[member]) % 2) for member in MEMBERS}


def test_equal_replicas_stay_equal_under_synchronized_updates(trainings: Trainings, tmp_path: Path) -> None:
    values = {**config(tmp_path, type="synchronized"), "algorithm": {"advantage": "gae"}, "num_steps": 2}
    assert trainings.run(order(tmp_path, "p", config=values)).code == 0, trainings.log()
    start = set(weights(tmp_path, "p", 0).values())
    assert len(start) == len(MEMBERS), "adapters start different"
    for step in (1, 2):
        assert len(set(weights(tmp_path, "p", step).values())) == 1
        first, *others = (moments(tmp_path, "p", step, member) for member in MEMBERS)
        for other in others:
            assert all(torch.equal(first[name], other[name]) for name in first)
        critic = [tensor for name, tensor in first.items() if "/weight/" in name and "value_heads" in name]
        assert sum(float(tensor.abs().sum()) for tensor in critic) > 0
    assert len({weights(tmp_path, "p", step)["first"] for step in (1, 2)}) == 2


@pytest.mark.long
def test_selective_updates_change_the_best_alone(trainings: Trainings, tmp_path: Path) -> None:
    settings = {"type": "selective", "best_share": 0.34, "exploration": 0.0}
    assert trainings.run(order(tmp_path, "p", config=config(tmp_path, **settings))).code == 0, trainings.log()
    store = LocalArtifactStore(tmp_path / "store")
    for step in (0, 1, 2):
        before, after = weights(tmp_path, "p", step), weights(tmp_path, "p", step + 1)
        changed = sorted(member for member in MEMBERS if before[member] != after[member])
        assert changed == _read_mixed(store, step).learning
        assert len(changed) == 3


def _read_mixed(store: LocalArtifactStore, step: int) -> MixedStep:
    (found,) = [each for each in _manifests(store, step) if each.stage == "mix_returns"]
    return MixedStep.model_validate(found.output)


def _read_drawn(store: LocalArtifactStore) -> ArtifactRef:
    (found,) = [each for each in _manifests(store, 3) if each.stage == "draw_interactions"]
    return ArtifactRef.model_validate(found.output)


def _manifests(store: LocalArtifactStore, step: int) -> list[StageManifest]:
    return step_manifests(store, read_run(store, "p"), step)


def _state(store: LocalArtifactStore, step: int) -> PopulationState:
    return get(store, _read_mixed(store, step).state, PopulationState)


def _list_played(store: LocalArtifactStore, step: int) -> set[str]:
    """Everybody who played in a step."""
    return {node.policy for episode in _episodes(store, "p", step) for node in episode.nodes}


def _episodes(store: LocalArtifactStore, run_id: str, step: int) -> list[Episode]:
    found = step_manifests(store, read_run(store, run_id), step)
    refs = [ArtifactRef.model_validate(each.output) for each in found if each.stage == "collect_rollouts"]
    return [episode for ref in refs for episode in get(store, ref, RolloutShard).episodes]


GAMES = (
    ("open_spiel", {"game": "bargaining"}, 2),
    ("open_spiel", {"game": "tiny_hanabi"}, 2),
    ("open_spiel", {"game": "kuhn_poker", "num_players": 3}, 3),
    ("petting_zoo", {"game": "pettingzoo.classic.rps_v2", "max_steps": 2}, 2),
    ("petting_zoo", {"game": "mpe2.simple_spread_v3", "max_steps": 2}, 3),
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "options", "num_players"), [pytest.param(*each, id=str(each[1]["game"])) for each in GAMES]
)
def test_any_game_trains_a_population_by_its_name(
    name: str, options: dict[str, Any], num_players: int, trainings: Trainings, tmp_path: Path
) -> None:
    values = config(tmp_path)
    players = {f"player_{number}": {"policy": MEMBERS[number]} for number in range(num_players)}
    tiny = {**values["policies"]["first"]["tiny"], "max_position_embeddings": 1024}
    order_of = {
        **values,
        "num_steps": 1,
        "environment": {"name": name, "options": options, "max_turns": 12, "answer_format": "choice"},
        "agents": players,
        "policies": {each["policy"]: {**values["policies"]["first"], "tiny": tiny} for each in players.values()},
        "method": "population",
    }
    assert trainings.run(order(tmp_path, "p", config=order_of)).code == 0, trainings.log()
    (step,) = outcome(LocalArtifactStore(tmp_path / "store"), "p")["steps"]
    assert {f"population/{player}/return" for player in players} <= set(step["metrics"])
    assert weights(tmp_path, "p", 0).keys() == weights(tmp_path, "p", 1).keys()


def test_a_member_meets_its_start_beside_a_partner_behind_an_api(trainings: Trainings, tmp_path: Path) -> None:
    with wire_server() as wire:
        wire.answer = lambda state, index: "Pass" if index % 2 else "Bet"
        values = preset_values()["population-kuhn"]
        api = {"provider": "openai", "model": MODEL, "base_url": wire.base_url("openai")}
        given = {
            **values,
            "num_steps": 1,
            "policies": {"first": SMALL, "second": {"api": api, "trained": False, "prompt_format": "chat"}},
            "rollout": {**values["rollout"], "num_problems": 4},
            "evaluation": {"num_problems": 4, "problems_per_block": 4, "sampling": ["sample"]},
            "store": {"kind": "local", "root": str(tmp_path / "store")},
            "tracking": {"kind": "none"},
        }
        ordered = order(tmp_path, "p", config=given, environment={KEY_VARIABLES["openai"]: KEY})
        assert trainings.run(ordered).code == 0, trainings.log()
        assert wire.exchanges
    store = LocalArtifactStore(tmp_path / "store")
    (gain,) = _gains(store, step=1)
    assert gain["agent"] == "player_0"
    (step,) = outcome(store, "p")["steps"]
    assert "population/player_0/return" in step["metrics"], "a game by its name"
