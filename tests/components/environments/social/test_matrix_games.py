"""The joint games: payoffs and equilibria by hand, noise by seed, steps that change nothing but the state they return."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.equilibria import deviation_gains, pure_equilibria
from components.environments.social.coop_compete import CoopCompete, PairGame
from components.environments.social.rules.base import ACTIONS, Action, JointState, PayoffRules, joint_step
from components.environments.social.staged import Staged
from components.environments.social.team_battle import TeamBattle
from components.errors import ConfigurationError

C: Action = "cooperate"
D: Action = "compete"
LATE = 40


@pytest.mark.parametrize("level", [0.2, 0.6, 0.8])
def test_coop_compete_has_two_equilibria_and_the_basin_is_one_minus_the_level(level: float) -> None:
    game = CoopCompete(cooperation_level=level)
    assert pure_equilibria(game.payoffs, 8) == ((D,) * 8, (C,) * 8)
    assert game.payoffs((C,) * 8) == pytest.approx((0.7 + 0.25 * level,) * 8)
    assert game.payoffs((D,) * 8) == pytest.approx((0.7 + 0.25 * (1 - level),) * 8)
    for others in range(8):
        gain = deviation_gains(game.payoffs, (D, *(C,) * others, *(D,) * (7 - others)))[0]
        if others / 7 != pytest.approx(1 - level):
            assert (gain > 0) == (others / 7 > 1 - level)


@given(st.lists(st.sampled_from(ACTIONS), min_size=2, max_size=6), st.floats(0, 1))
def test_coop_compete_is_the_formula_by_numpy(actions: list[Action], level: float) -> None:
    ones = np.array([action == C for action in actions], float)
    rho = (ones.sum() - ones) / (len(ones) - 1)
    wanted = 0.7 + 0.25 * np.where(ones == 1, level * rho, (1 - level) * (1 - rho))
    found = CoopCompete(num_members=len(actions), cooperation_level=level).payoffs(actions)
    assert found == pytest.approx(wanted.tolist())


@pytest.mark.parametrize("level", [0.0, 0.2, 0.6, 1.0])
def test_the_pair_game_by_hand(level: float) -> None:
    game = PairGame(cooperation_level=level)
    table = {(one, other): game.payoffs((one, other))[0] for one in ACTIONS for other in ACTIONS}
    assert table[C, C] == pytest.approx(0.7 + 0.25 * level)
    assert table[D, D] == pytest.approx(0.7 + 0.25 * (1 - level))
    assert table[C, D] == table[D, C] == pytest.approx(0.6)
    assert sum(table.values()) / 4 == pytest.approx(0.7125), "two coin flips, whatever the level"
    q = (0.25 * (1 - level) + 0.1) / (0.25 + 2 * 0.1)  # at which both actions earn the same
    assert q * table[C, C] + (1 - q) * table[C, D] == pytest.approx(q * table[D, C] + (1 - q) * table[D, D])
    assert pure_equilibria(game.payoffs, 2) == ((D, D), (C, C))


def test_the_staged_games_late_equilibria() -> None:
    game = Staged()
    traitors, all_c = (D, D, *(C,) * 6), (C,) * 8

    def late(actions: Any) -> tuple[float, ...]:
        return game.payoffs(actions, LATE)

    assert set(pure_equilibria(late, 8)) == {(D,) * 8, traitors}
    means = [np.mean(late(actions)) for actions in (traitors, (D,) * 8, all_c)]
    assert means == pytest.approx([0.97875, 0.785, 1.0225])
    assert late(traitors)[0] == pytest.approx(0.9975)
    assert max(deviation_gains(late, all_c)[:2]) > 0


def test_the_staged_game_warms_up_and_ramps() -> None:
    assert Staged().payoffs((D,) * 8, 19) == (0.7,) * 8
    common = [Staged().payoffs((C,) * 8, episode)[-1] - 0.125 for episode in (20, 30, 40, 400)]
    assert common == pytest.approx([0.7, 0.805, 0.91, 0.91])
    assert Staged(warmup_episodes=0).payoffs((C,) * 8, 0)[-1] == pytest.approx(1.035)
    assert Staged(num_members=3).num_adversaries == 1
    lonely = Staged(num_members=4, warmup_episodes=0).payoffs((D, D, D, C))
    assert lonely[3] == pytest.approx(0.91 - 0.0625 - 0.05), "cooperates below .3"


@given(st.lists(st.sampled_from(ACTIONS), min_size=2, max_size=12))
def test_the_staged_game_is_the_formula_by_cases(actions: list[Action]) -> None:
    game = Staged(num_members=len(actions))
    num = actions.count(C)
    rho = num / len(actions)
    for member, (action, found) in enumerate(zip(actions, game.payoffs(actions, LATE), strict=True)):
        wanted = 0.91 + 0.25 * (rho - 0.5)
        if member < max(1, len(actions) // 4):
            wanted += -0.05 * rho if action == C else 0.1 * rho
        if (action == C and 10 * num < 3 * len(actions)) or (action == D and 10 * num > 7 * len(actions)):
            wanted -= 0.05
        assert found == pytest.approx(wanted)


def test_team_battles_equilibria_are_one_team_exploiting_the_other() -> None:
    game = TeamBattle()

    def late(actions: Any) -> tuple[float, ...]:
        return game.payoffs(actions, LATE)

    exploit = ((D,) * 4 + (C,) * 4, (C,) * 4 + (D,) * 4)
    assert set(pure_equilibria(late, 8)) == set(exploit)
    assert late(exploit[0]) == pytest.approx((0.025,) * 4 + (0.125,) * 4), "who gives at home earns more than who takes"
    assert late((C,) * 8) == pytest.approx((0.125,) * 8)
    assert late((D,) * 8) == pytest.approx((-0.125,) * 8)
    assert deviation_gains(late, (C,) * 8) == pytest.approx((0.0875,) * 8)
    assert game.payoffs((C,) * 8, 9) == (0.0,) * 8


@pytest.mark.parametrize("rules", [CoopCompete(), TeamBattle(), Staged(), PairGame()])
def test_a_step_is_decided_by_its_state_and_actions(rules: PayoffRules) -> None:
    state = JointState(seed=3, episode=LATE)
    actions = (C,) * rules.num_members
    once, again = joint_step(rules, state, actions), joint_step(rules, state, actions)
    assert once == again
    assert state == JointState(seed=3, episode=LATE)
    assert once.state.actions_T_N == (actions,)
    other = joint_step(rules, JointState(seed=4, episode=LATE), actions)
    assert other.rewards_N != once.rewards_N != joint_step(rules, once.state, actions).rewards_N
    for _ in range(rules.num_steps):
        last = joint_step(rules, state, actions)
        state = last.state
    assert (last.done, once.done) == (True, False)
    with pytest.raises(ConfigurationError, match="the episode has ended"):
        joint_step(rules, state, actions)


def test_noise_has_the_stated_deviation_and_rewards_their_floor() -> None:
    rules = CoopCompete(num_steps=400)
    rewards = []
    state = JointState(seed=0)
    for _ in range(400):
        outcome = joint_step(rules, state, (C,) * 8)
        state = outcome.state
        rewards.append(outcome.rewards_N)
    assert np.mean(rewards) == pytest.approx(0.85, abs=4 * 0.05 / 3200**0.5)
    assert np.std(rewards) == pytest.approx(0.05, rel=0.06)
    assert np.abs(np.corrcoef(np.array(rewards).T) - np.eye(8)).max() < 0.25
    assert joint_step(PairGame(noise_std=0.0), JointState(seed=0), (C, C)).rewards_N == (0.85, 0.85)
    poor = CoopCompete(difficulty=1.0, noise_std=1.0)
    assert min(joint_step(poor, JointState(seed=0), (C,) * 8).rewards_N) == 0.0


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: PairGame().payoffs((C,)), "of 2 members"),
        (lambda: PairGame().payoffs((C, "defect")), "defect"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_game_is_refused(call: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        call()
