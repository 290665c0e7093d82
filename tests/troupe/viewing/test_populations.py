"""A population on the page: seats, moves made at once, raw and mixed returns, choices with what is known of their chances."""

import re
from dataclasses import replace
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from components.artifacts.local import LocalArtifactStore
from components.artifacts.payloads import put
from components.artifacts.refs import ArtifactRef
from components.config import RunConfig, parse_config
from components.methods.population.interactions import PICTURE
from components.population.credit import PopulationState
from components.population.payoffs import PayoffMatrix, games_by_pair
from components.runs.lineages import freeze_config
from components.runs.run import MixedStep, Run
from components.runs.stage_protocol import run_stage
from components.schema import Candidate, Episode, Node, ScoredShard
from flows.presets import preset_values
from flows.steps import POPULATION_PIPELINE as PIPELINE
from tests.committed_runs import stage_key
from tests.recorded_rollouts import candidate, commit_rollouts, episode, node, shard
from troupe.cli import app
from troupe.viewing.populations import DrawnChoices
from troupe.viewing.view import view_document

CHOICES = ((5, 2), (6, 2), (7, 2))
"""cooperate, compete, and a third that nobody draws."""


PAYOFFS = PayoffMatrix().after(
    [
        *games_by_pair(("first", "second"), (2.0, -1.0), order=0),
        *games_by_pair(("second", "first"), (0.0, 1.0), order=1),
        *games_by_pair(("first", "second@10"), (2.5, -1.5), order=2),
        *games_by_pair(("first", "second@9"), (2.0, -1.0), order=3),
    ]
)


def config() -> RunConfig:
    values = preset_values()["population-tiny"]
    member = values["policies"]["first"]
    return parse_config(
        {
            **values,
            "environment": {**values["environment"], "options": {"num_members": 2, "num_steps": 1}},
            "agents": {"player_0": {"policy": "first"}, "player_1": {"policy": "second"}},
            "policies": {"first": member, "second": member},
            "method": {"type": "population", "training_mode": "cooperative", "opponents": {"every": 1}},
        }
    )


def said(text: str, choice: int, probability: float, payoffs: dict[str, float]) -> Candidate:
    made = candidate(text, team={}, payoffs=payoffs)
    return replace(made, tokens=CHOICES[choice], sampler_logprobs=(log(probability), 0.0))


def make_node(agent: str, player: str, answer: Candidate, *, beside: int = 0) -> Node:
    made = node(answer, agent=agent, parallel_index=beside, choices=CHOICES)
    return replace(made, policy=player)


def make_meeting(second: str, *, error: str | None = None) -> Episode:
    """player_0 cooperates and player_1, as `second`, competes at once: they earn 2 and -1."""
    payoffs = {"player_0": 2.0, "player_1": -1.0}
    nodes = (
        make_node("player_0", "first", said("cooperate", 0, 0.5, payoffs)),
        make_node("player_1", second, said("compete", 1, 0.25, payoffs), beside=1),
    )
    return episode(*nodes, error=error)


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    store, made = LocalArtifactStore(tmp_path / "store"), config()
    freeze_config(store, "r", made, PIPELINE)
    run = Run(run_id="r", config=made)
    episodes = [[make_meeting("second")], [make_meeting("second@0"), make_meeting("second@0", error="broke")]]
    for number, each in enumerate(episodes):
        commit_rollouts(store, run, shard(0, number, *each), rewards=[((2.0,), (-1.0,))] * len(each))
    credited = [
        put(store, ScoredShard(step=0, shard=number, rewards_E_N_K=(((1.1,), (-0.1,)),) * len(each)))
        for number, each in enumerate(episodes)
    ]
    mixed = MixedStep(
        credited=credited, state=put(store, PopulationState(payoffs=PAYOFFS)), learning=["first"], metrics={}
    )
    run_stage(store, stage_key(run, 0, "mix_returns"), lambda: mixed, MixedStep)
    return store


@pytest.fixture
def document(store: LocalArtifactStore) -> dict[str, Any]:
    return view_document(store, "r")


def test_the_newest_graph_stands_beside_the_page_or_alone(
    store: LocalArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def view(*arguments: str) -> tuple[int, str, list[str]]:
        done = CliRunner().invoke(app, ["view", "r", "--store", store.uri, *arguments])
        return done.exit_code, f"{done.output}{done.exception}", sorted(each.name for each in tmp_path.glob("*.*"))

    monkeypatch.chdir(tmp_path)
    missing = r"run 'r' has none; it is drawn at the run's end: `troupe resume r --store"
    assert re.search(missing, view("--graph")[1])
    assert view()[::2] == (0, ["r-step-0.html"])
    for step in (2, 10):
        folder = tmp_path / f"drawn-{step}"
        folder.mkdir()
        (folder / PICTURE).write_text(f"after {step}")
        key = stage_key(Run(run_id="r", config=config()), step, "draw_interactions")
        run_stage(store, key, partial(store.put_folder, folder), ArtifactRef)
    code, told, files = view()
    assert (code, files) == (0, ["r-interactions.png", "r-step-0.html"])
    assert f"{(tmp_path / 'r-interactions.png').as_uri()}: who did what to whom" in told
    assert view("--graph", "--to", "own.png")[::2] == (0, ["own.png", *files])
    assert [(tmp_path / name).read_text() for name in ("own.png", "r-interactions.png")] == ["after 10"] * 2
    assert "name a file in a folder that exists" in view("--graph", "--to", "no/own.png")[1]
    assert "the graph is a picture; leave --json out" in view("--graph", "--json")[1]


def test_an_episode_tells_who_sat_where_and_what_each_learned_from(document: dict[str, Any]) -> None:
    own, against_past, failed = document["main"]["episodes"]
    seats = own["population"]["seats"]
    assert [(seat["agent"], seat["member"], seat["learns"]) for seat in seats] == [
        ("player_0", "first", True),
        ("player_1", "second", False),
    ]
    assert [seat["return"] for seat in seats] == [2.0, -1.0]
    assert [seat["mixed"] for seat in seats] == pytest.approx([0.7 * 2 - 0.3, 0.3 * 2 - 0.7])
    assert own["population"]["moves"] == [{"turn": 0, "nodes": [0, 1], "payoffs": [2.0, -1.0]}]
    assert [seat["past_step"] for seat in against_past["population"]["seats"]] == [None, 0]
    assert ("past self" in against_past["tags"], "past self" in own["tags"]) == (True, False)
    assert [seat["return"] for seat in failed["population"]["seats"]] == [None, None]


def test_the_step_tells_its_seatings_and_shares(document: dict[str, Any]) -> None:
    population = document["main"]["population"]
    assert population["mode"] == "cooperative"
    assert population["shares"] == (pytest.approx((0.7, 0.3)), pytest.approx((0.3, 0.7)))
    assert [[seat["player"] for seat in each["seats"]] for each in population["shards"]] == [
        ["first", "second"],
        ["first", "second@0"],
    ]
    assert population["shards"][1]["seats"][0]["mean_return"] == 2.0, "a failed episode has no return"
    assert not {"repaired", "spoiled"} & set(document["tags"])
    payoffs = population["payoffs"]
    assert payoffs["players"] == ["first", "second", "second@9", "second@10"]
    assert payoffs["rows"][0] == [None, [1.5, 2], [2.0, 1], [2.5, 1]]
    assert payoffs["rows"][1] == [[-0.5, 2], None, None, None]


def test_actions_have_the_credits_of_the_step_and_advantages_from_these(document: dict[str, Any]) -> None:
    first, second = document["main"]["episodes"][0]["nodes"]
    for shown, raw, credit in ((first, 2.0, 1.1), (second, -1.0, -0.1)):
        [found] = shown["candidates"]
        assert (found["reward"], found["credit"], found["advantage"]) == (raw, credit, credit)


def test_choices_have_the_probabilities_with_which_they_were_drawn() -> None:
    nodes = [
        make_node("a", "first", said("cooperate", 0, 0.5, {})),
        make_node("a", "first", said("compete", 1, 0.2, {})),
    ]
    shown = DrawnChoices(nodes).document(nodes[0], lambda tokens: f"token {tokens[0]}")
    assert shown is not None
    assert [(text, was_drawn) for text, _, was_drawn in shown["rows"]] == [
        ("cooperate", True),
        ("token 7", False),
        ("compete", True),
    ]
    assert [probability for _, probability, _ in shown["rows"]] == pytest.approx([0.5, 0.3, 0.2])
    assert shown["rest"] is None
    alone = DrawnChoices(nodes[:1]).document(nodes[0], None)
    assert alone == {
        "rows": [["cooperate", pytest.approx(0.5), True], ["6", None, False], ["7", None, False]],
        "rest": 0.5,
    }
    assert DrawnChoices(nodes).document(replace(nodes[0], choices=()), None) is None
