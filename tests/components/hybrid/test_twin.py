"""Games depend on their seed alone, snapshots are exact, and episodes end as they should."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from components.hybrid.episodes import EpisodeRule
from components.hybrid.game_facts import LARGEST, Action, GamesStep
from components.hybrid.rewards import RewardWeights
from components.hybrid.subgoals import read_lesson
from components.hybrid.twin import Twin
from tests.components.hybrid.scripted_play import competent_actions, random_actions


def mix_actions(twin: Twin, rng: np.random.Generator) -> NDArray[np.int64]:
    anything = random_actions(rng, twin.masks())
    return np.where(rng.random(len(anything)) < 0.7, competent_actions(twin.facts), anything)


def play(twin: Twin, steps: int, seed: int = 0) -> list[GamesStep]:
    rng = np.random.default_rng(seed)
    return [twin.step(mix_actions(twin, rng)) for _ in range(steps)]


def same(one: GamesStep, other: GamesStep, games: Any = slice(None)) -> bool:
    names = [name for name in GamesStep.__slots__ if name not in ("terms", "final_facts")]
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    pairs += [(values, other.final_facts[name]) for name, values in one.final_facts.items()]
    return all(np.array_equal(values[games], others[games]) for values, others in pairs)


def test_a_game_does_not_know_its_neighbours() -> None:
    many, one, other_seed = (
        Twin(games, seed=seed, rule=EpisodeRule(max_steps=60)) for games, seed in ((5, 3), (1, 3), (1, 4))
    )
    rng, differences = np.random.default_rng(0), 0
    for _ in range(400):
        actions = mix_actions(many, rng)
        steps = [twin.step(actions[: len(twin.states())]) for twin in (many, one, other_seed)]
        assert same(steps[0], steps[1], slice(1))
        differences += not same(steps[0], steps[2], slice(1))
    assert differences > 0


def test_a_snapshot_goes_on_exactly_and_every_part_of_it_counts() -> None:
    subgoals = read_lesson("east: x >= 8\nroute: map_number == 3", LARGEST).subgoals
    twin = Twin(6, seed=1, rule=EpisodeRule(max_steps=50, subgoals=subgoals))
    play(twin, 73)
    snapshot = twin.snapshot()
    straight = play(twin, 100, seed=2)

    def resumes_equally(snapshot: dict[str, Any]) -> bool:
        other = Twin(6, seed=1, rule=EpisodeRule(max_steps=50, subgoals=subgoals))
        play(other, 5)
        other.restore(snapshot)
        return all(map(same, play(other, 100, seed=2), straight))

    assert resumes_equally(snapshot)
    fresh = Twin(6, seed=1, rule=EpisodeRule(max_steps=50, subgoals=subgoals)).snapshot()
    for name in ("_tiles_N_M_Y_X", "_steps_N", "_episodes_N", "_chance_N", "records.tiles", "facts.x"):
        assert not resumes_equally({**snapshot, name: fresh[name]}), name


def test_a_snapshot_of_another_twin_is_refused() -> None:
    with pytest.raises(ValueError, match="_steps_N"):
        Twin(3, seed=0).restore(Twin(4, seed=0).snapshot())


def test_competent_play_wins_the_badge_and_an_episode_earns_its_records() -> None:
    twin = Twin(30, seed=0, rule=EpisodeRule(max_steps=200, weights=RewardWeights(step=0.0)))
    earned, badges = np.zeros(30), np.zeros(30, np.bool_)
    for _ in range(200):
        step = twin.step(competent_actions(twin.facts))
        earned += ~badges * step.rewards_N
        badges |= step.ended_N
        assert (
            step.final_states_N_S[~(step.ended_N | step.cut_N)] == step.states_N_S[~(step.ended_N | step.cut_N)]
        ).all()
        if badges.all():
            break
    assert badges.all()
    assert (earned >= 100 + 25 + 2 + 2 * 5).all()
    assert (twin.facts["party_count"][step.ended_N] == 0).all(), "a game begins anew after its badge"


def test_an_episode_is_cut_at_its_limit_and_begins_anew() -> None:
    twin = Twin(2, seed=0, rule=EpisodeRule(max_steps=7))
    steps = [twin.step(np.full(2, Action.DOWN)) for _ in range(14)]
    assert [bool(step.cut_N.all()) for step in steps] == [False] * 6 + [True] + [False] * 6 + [True]
    assert all(same(one, other) for one, other in zip(steps[:7], steps[7:], strict=True))
    assert steps[0].rewards_N.tolist() == pytest.approx([0.09, 0.09])


def test_a_badge_at_the_limit_ends_an_episode_and_does_not_cut_it() -> None:
    twin, steps = Twin(1, seed=0), []
    while not steps or not steps[-1].ended_N[0]:
        steps.append(twin.step(competent_actions(twin.facts)))
        assert len(steps) < 200
    twin = Twin(1, seed=0, rule=EpisodeRule(max_steps=len(steps)))
    last = [twin.step(competent_actions(twin.facts)) for _ in steps][-1]
    assert (bool(last.ended_N[0]), bool(last.cut_N[0]), int(last.lengths_N[0])) == (True, False, len(steps))


def test_a_subgoal_pays_once_an_episode() -> None:
    subgoals = read_lesson("south: y >= 6", LARGEST).subgoals
    twin = Twin(1, seed=0, rule=EpisodeRule(max_steps=6, weights=RewardWeights(subgoals=0.5), subgoals=subgoals))
    paid = [float(twin.step(np.array([action])).terms["subgoals"][0]) for action in [Action.DOWN, Action.UP] * 6]
    assert paid == [0.5, 0, 0, 0, 0, 0] * 2


def test_chance_is_even() -> None:
    draws = np.concatenate([Twin(4000, seed=seed)._draws() for seed in range(5)], axis=1)
    for stream in draws:
        counts = np.bincount(stream & 7, minlength=8)
        assert ((counts - 2500) ** 2 / 2500).sum() < 35, "chi-square with 7 degrees of freedom at 1e-5"
    assert abs(np.corrcoef(draws)[0, 1]) < 0.05


def test_wrong_arguments_are_refused() -> None:
    for actions in (np.array([9]), np.array([1, 1])):
        with pytest.raises(ValueError, match="give one of 0 to 8"):
            Twin(1, seed=0).step(actions)
