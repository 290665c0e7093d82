"""What each training mode does to a game: the predicted equilibria, and learners that find them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.equilibria import deviation_gains, pure_equilibria
from components.config.population import Cooperative
from components.environments.social.coop_compete import CoopCompete
from components.environments.social.public_goods import PublicGoods
from components.environments.social.rules.base import ACTIONS, Action, JointState, PayoffRules, joint_step
from components.environments.social.staged import Staged
from components.population.credit import RoleBaselines
from components.population.training_modes import (
    Floats,
    flat_matrix,
    hierarchical_matrix,
    make_mode_matrix,
)
from tests.sections import choose_training_mode

C: Action = "cooperate"
D: Action = "compete"
MODES = ("cooperative", "competitive", "mixed", "hierarchical")


def equilibria(game: PayoffRules, matrix: Floats, episode: int = 0) -> tuple[tuple[Action, ...], ...]:
    return pure_equilibria(mix_payoffs(game, matrix, episode), game.num_members)


def mix_payoffs(game: PayoffRules, matrix: Floats, episode: int = 0) -> Any:
    return lambda actions: tuple((matrix @ game.payoffs(actions, episode)).tolist())


@given(st.integers(2, 5), st.floats(0.05, 3), st.floats(0, 1), st.floats(0, 1))
def test_the_threshold_of_the_public_good(num: int, share: float, beta: float, kappa: float) -> None:
    if beta + kappa > 1:
        beta, kappa = 1 - beta, 1 - kappa
    game = PublicGoods(num_members=num, share=share)
    gain = deviation_gains(mix_payoffs(game, flat_matrix(num, beta=beta, kappa=kappa)), (D,) * num)
    assert gain == pytest.approx(((1 - kappa) * share - (1 - beta + beta / num),) * num, abs=1e-9)
    leader, *followers = deviation_gains(mix_payoffs(game, hierarchical_matrix(num, 0)), (C,) * num)
    assert leader == pytest.approx(0.5 - share, abs=1e-9)
    assert followers == pytest.approx([1 - share] * (num - 1), abs=1e-9)


@pytest.mark.parametrize(
    ("share", "who_cooperates"),
    [
        (0.52, {"hierarchical": "CDDD"}),
        (0.8, {"hierarchical": "CDDD", "cooperative": "CCCC"}),
        (1.2, {"hierarchical": "CCCC", "cooperative": "CCCC", "mixed": "CCCC"}),
        (1.8, dict.fromkeys(MODES, "CCCC")),
    ],
)
def test_four_modes_have_four_outcomes_in_one_game(share: float, who_cooperates: dict[str, str]) -> None:
    for mode in MODES:  # thresholds at N = 4: .55, 1.667, .969 at rho 0, and .5 or 1
        (found,) = equilibria(PublicGoods(share=share), make_mode_matrix(choose_training_mode(mode), 4))
        assert "".join("C" if action == C else "D" for action in found) == who_cooperates.get(mode, "DDDD")


def test_cooperation_removes_the_trap_of_the_staged_game() -> None:
    traitors, late = (D, D, *(C,) * 6), 40
    assert set(equilibria(Staged(), np.eye(8), late)) == {(D,) * 8, traitors}
    assert equilibria(Staged(), make_mode_matrix(Cooperative(), 8), late) == (traitors,)
    assert equilibria(Staged(), make_mode_matrix(Cooperative(cooperation_strength=1.0), 8), late) == ((C,) * 8,)


@pytest.mark.parametrize("mode", MODES)
def test_no_mode_moves_the_equilibria_of_coop_compete(mode: str) -> None:
    assert equilibria(CoopCompete(), make_mode_matrix(choose_training_mode(mode), 8)) == ((D,) * 8, (C,) * 8)


def learn_cooperation(game: PayoffRules, matrix: Floats, seed: int) -> list[float]:
    """Each member's chance of cooperating after 60 updates of 16 plays, by REINFORCE on mixed returns with RAE."""
    logits, baselines, rng = np.zeros(game.num_members), RoleBaselines(), np.random.default_rng(seed)
    for update in range(60):
        chances, gradient = 1 / (1 + np.exp(-logits)), np.zeros(game.num_members)
        for play in range(16):
            ones = rng.random(game.num_members) < chances
            actions: Sequence[Action] = [ACTIONS[int(one)] for one in ones]
            outcome = joint_step(game, JointState(seed=seed, episode=16 * update + play), actions)
            mixed = matrix @ outcome.rewards_N
            for i, earned in enumerate(mixed.tolist()):
                gradient[i] += (ones[i] - chances[i]) * (earned - baselines.value("g", str(i)))
                baselines = baselines.after("g", str(i), earned)
        logits += 0.3 * gradient
    return (1 / (1 + np.exp(-logits))).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_learners_find_the_predicted_equilibria(seed: int) -> None:
    game = PublicGoods(share=0.8)
    for mode in MODES:
        (wanted,) = equilibria(game, make_mode_matrix(choose_training_mode(mode), 4))
        found = learn_cooperation(game, make_mode_matrix(choose_training_mode(mode), 4), seed)
        assert [ACTIONS[round(chance)] for chance in found] == list(wanted)
        assert all(min(chance, 1 - chance) < 0.1 for chance in found)
