"""Who meets whose start at the end of a population's run, and what of it reaches MLflow."""

from pathlib import Path
from typing import Any

import pytest

from components.config import parse_config
from components.evaluation.suite_play import SuitePlay
from components.methods.population.credits import gain_sentence
from components.population.seating import past_self
from components.runs.run import Run
from components.schema import PolicyVersion
from components.session.publishing import Publishing
from components.session.session import Session
from flows.presets import preset_values
from flows.steps import POPULATION_PIPELINE as PIPELINE
from tasks.play_against_starts import play_against_starts
from tasks.play_suite import play_suite
from tests.components.tracking.memory import InMemoryTracker

START, NOW = past_self("first", 0), "first"


def versions(step: int) -> dict[str, PolicyVersion]:
    return {
        member: PolicyVersion(policy=member, step=step, weights_digest=f"{member} after {step}")
        for member in ("first", "second", "fourth")
    }


def test_each_trained_agent_meets_all_others_as_they_were_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """player_3 is not trained and player_2 is the first member, too: they play as they are, and as the first began."""
    values = preset_values()["population-tiny"]
    member = values["policies"]["first"]
    changes = {
        "agents": {f"player_{n}": {"policy": name} for n, name in enumerate(("first", "second", "first", "fourth"))},
        "policies": {"first": member, "second": member, "fourth": {**member, "trained": False}},
        "evaluation": {"num_problems": 3, "problems_per_block": 3},
        "store": {"kind": "local", "root": str(tmp_path / "store")},
        "tracking": {"kind": "none"},
    }
    run = Run(run_id="met", config=parse_config({**values, **changes}))
    played: list[tuple[Any, ...]] = []
    most_problems = [3]
    tracker = InMemoryTracker()

    def play(session: Session, sampling: str, plan: Any, players: Any, seated: Any, weights: Any, seating: Any) -> Any:
        played.append((sampling, dict(seating), {each: version.weights_digest for each, version in seated.items()}))
        assert [players[role]["weights"] for role in seating] == [
            seated[player].weights_digest for player in seating.values()
        ]
        learned = {agent for agent, player in seating.items() if "@" not in player}
        problems = tuple(problem.problem_id for problem in plan.problems)[: most_problems[0]]
        earned = {
            agent: tuple((float(agent in learned) * number,) for number in (1, 2, 3)[: len(problems)])
            for agent in seating
        }
        none = tuple((False,) for _ in problems)
        return SuitePlay(
            problems_P=problems, solved_P_K=none, rewards_P_K=((0.0,),) * len(none), turns_P_K=((1,),) * len(none),
            payoffs_P_K=earned,
        )  # fmt: skip

    monkeypatch.setattr(play_suite, "in_lineage", play)
    with Session(run) as session:
        session.publishing = Publishing(
            run, PIPELINE, session.store, tracker, first={}, tracing=None, changed={}, started_ms=5
        )
        told = play_against_starts.fn(session, 3, "sample", versions(3), versions(0))
        session.publishing.close(succeeded=True)
        most_problems[0] = 1
        alone = play_against_starts.fn(session, 4, "sample", versions(4), versions(0))
    assert (alone.gains, alone.num_problems) == ((), 1), "one problem has no interval"
    start = {"player_0": START, "player_1": past_self("second", 0), "player_2": START, "player_3": "fourth"}
    assert [seating for _, seating, _ in played[:4]] == [
        start,
        start | {"player_0": NOW},
        start | {"player_1": "second"},
        start | {"player_2": NOW},
    ]
    assert played[1][2] == {
        NOW: "first after 3",
        START: "first after 0",
        past_self("second", 0): "second after 0",
        "fourth": "fourth after 3",
    }
    assert [(gain.agent, gain.difference) for gain in told.gains] == [(f"player_{n}", 2.0) for n in range(3)]
    low, high = told.gains[0].interval
    points = [tracker.history("met", f"against_starts/player_0/{name}") for name in ("gain", "gain_low", "gain_high")]
    assert points == [[(3, value)] for value in (2.0, low, high)]
    sentence = "player_0 earns +2.00 more than at the start against its partners' start (+0.87 to +3.13)"
    assert gain_sentence(told.gains[0]) == sentence
