"""The learner against closed forms, resumed bit for bit, and better than chance on the cartridge."""

import io
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.hybrid.episodes import EpisodeRule
from components.hybrid.masked_ppo import MaskedPPO, PPORule, Rollout, estimate_advantages, mask_logprobs
from components.hybrid.twin import Twin
from tests.components.hybrid.scripted_play import random_actions

RULE = PPORule(steps=16, minibatch=32, epochs=2)


@given(st.lists(st.tuples(st.floats(-30, 30), st.booleans()), min_size=1, max_size=9))
def test_masked_probabilities_are_the_renormalised_softmax(pairs: list[tuple[float, bool]]) -> None:
    logits, mask = (
        torch.tensor([[z for z, _ in pairs]], dtype=torch.float64),
        torch.tensor([[allowed for _, allowed in pairs]]),
    )
    if not mask.any():
        with pytest.raises(ValueError, match="allows no action"):
            mask_logprobs(logits, mask)
        return
    found = mask_logprobs(logits, mask).exp()
    softmax = logits.softmax(-1) * mask
    assert found[~mask].eq(0).all()
    torch.testing.assert_close(found, softmax / softmax.sum())


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.floats(0, 1), st.floats(0, 1))
def test_advantages_are_the_sum_of_the_paper(seed: int, steps: int, discount: float, trace: float) -> None:
    rng = np.random.default_rng(seed)
    rewards, values, last = rng.normal(size=(steps, 3)), rng.normal(size=(steps, 3)), rng.normal(size=3)
    over = rng.random((steps, 3)) < 0.3
    wanted = np.zeros((steps, 3))
    following = np.vstack([values[1:], last])
    for t, game in np.ndindex(steps, 3):
        for k in range(t, steps):
            delta = rewards[k, game] + discount * following[k, game] * (not over[k, game]) - values[k, game]
            wanted[t, game] += (discount * trace) ** (k - t) * delta
            if over[k, game]:
                break
    arrays = (torch.as_tensor(each) for each in (rewards, values, last, over))
    np.testing.assert_allclose(estimate_advantages(*arrays, discount, trace).numpy(), wanted, atol=1e-9)


class Lever:
    """Games of one state: lever 3 earns 10, lever 0 is forbidden. They end, are cut or go on, as told."""

    def __init__(self, *, ended: bool = True, cut: bool = False) -> None:
        self.ended, self.cut, self.pulled = ended, cut, []

    def states(self) -> Any:
        return np.ones((8, 25), np.float32)

    def masks(self) -> Any:
        return np.tile(np.arange(9) > 0, (8, 1))

    def step(self, actions: Any) -> Any:
        self.pulled.append(actions)
        shape = (np.full(8, self.ended), np.full(8, self.cut))
        final = np.full((8, 25), 0.5, np.float32)
        return SimpleNamespace(
            rewards_N=10.0 * (actions == 3), ended_N=shape[0], cut_N=shape[1], final_states_N_S=final
        )


def test_it_pulls_the_lever_that_pays_and_never_a_forbidden_one() -> None:
    learner, games = MaskedPPO(RULE, seed=0), Lever()
    first = learner.choose(games.states(), games.masks())[1][0]
    assert first.tolist() == pytest.approx([0] + [1 / 8] * 8, abs=0.01)
    for _ in range(40):
        metrics = learner.update(learner.collect(games))
    assert learner.choose(games.states(), games.masks())[1][0, 3] > 0.9
    assert not (np.stack(games.pulled) == 0).any()
    assert metrics["entropy"] < 0.6


class BrightSide(Lever):
    """Games that show which of levers 3 and 4 pays: the left or the right half of the screen is bright."""

    def __init__(self) -> None:
        super().__init__()
        self.rng, self.side = np.random.default_rng(0), np.zeros(8, np.int64)

    def states(self) -> Any:
        columns = np.arange(80) // 40 == self.side[:, None]
        return np.broadcast_to(columns[:, None] * np.uint8(255), (8, 72, 80)).copy()

    def step(self, actions: Any) -> Any:
        paid, final = 10.0 * (actions == 3 + self.side), self.states()
        self.side = self.rng.integers(0, 2, 8)
        return SimpleNamespace(
            rewards_N=paid, ended_N=np.ones(8, bool), cut_N=np.zeros(8, bool), final_states_N_S=final
        )


def test_a_policy_that_sees_screens_pulls_the_lever_that_they_show() -> None:
    learner, games = MaskedPPO(replace(RULE, network="cnn"), seed=0), BrightSide()
    for _ in range(40):
        rollout = learner.collect(games)
        assert rollout.states_B_S.dtype == torch.uint8, "four times as many would fit no memory"
        arrays = rollout.to_arrays()
        assert arrays["states_B_S"].nbytes < rollout.states_B_S.nbytes / 10, (
            "packed, since a payload may not be too sparse"
        )
        again = Rollout.from_arrays(arrays)
        assert torch.equal(again.states_B_S, rollout.states_B_S)
        learner.update(again)
    games.side = np.arange(8) % 2
    probabilities = learner.choose(games.states(), games.masks())[1]
    assert (probabilities[np.arange(8), 3 + games.side] > 0.9).all()


def test_a_cut_episode_is_worth_what_it_was_cut_at() -> None:
    learner = MaskedPPO(replace(RULE, trace=0.0), seed=0)
    games = Lever(ended=False, cut=True)
    rollout = learner.collect(games)
    with torch.no_grad():
        at_cut = learner._values(torch.full((1, 25), 0.5))
    wanted = torch.as_tensor(np.stack(games.pulled).ravel() == 3).float() + RULE.discount * at_cut
    torch.testing.assert_close(rollout.returns_B, wanted)


def test_the_loss_is_the_formula() -> None:
    learner, rng, b = MaskedPPO(RULE, seed=0), np.random.default_rng(0), 12
    masks = np.ones((b, 9), np.bool_)
    masks[::2, :4] = False
    states, actions = rng.random((b, 25), np.float32), rng.integers(4, 9, b)
    old, advantages, returns = np.full(b, -1.2), rng.normal(size=b), rng.normal(size=b)
    tensors = (torch.as_tensor(each, dtype=torch.float32) for each in (old, advantages, returns))
    rows = Rollout(**dict(zip(
        ("states_B_S", "masks_B_A", "actions_B", "logprobs_B", "advantages_B", "returns_B"),
        (torch.as_tensor(states), torch.as_tensor(masks), torch.as_tensor(actions), *tensors), strict=True,
    )))  # fmt: skip
    loss, parts = learner._loss(rows, torch.arange(b))
    with torch.no_grad():
        logits = learner._policy(torch.as_tensor(states)).double().numpy()
        values = learner._values(torch.as_tensor(states)).double().numpy()
    p = np.exp(logits) * masks
    p /= p.sum(1, keepdims=True)
    ratios = p[np.arange(b), actions] / np.exp(old)
    z = (advantages - advantages.mean()) / advantages.std()
    policy = -np.minimum(ratios * z, np.clip(ratios, 0.8, 1.2) * z).mean()
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(1).mean()
    wanted = policy + 0.5 * ((values - returns) ** 2).mean() - 0.01 * entropy
    assert float(loss.detach()) == pytest.approx(wanted, rel=1e-4)
    assert float(parts["clip_frac"]) == pytest.approx(((ratios < 0.8) | (ratios > 1.2)).mean())


def weights(learner: MaskedPPO) -> torch.Tensor:
    return torch.cat([value.flatten() for value in learner.state_dict()["weights"].values()])


def test_a_resumed_learner_is_equal_bit_for_bit_and_every_part_of_its_state_counts() -> None:
    def advance(learner: MaskedPPO, twin: Twin) -> None:
        for _ in range(2):
            learner.update(learner.collect(twin))

    learner, twin = MaskedPPO(RULE, seed=5), Twin(4, seed=5, rule=EpisodeRule(max_steps=20))
    advance(learner, twin)
    file, games = io.BytesIO(), twin.snapshot()
    torch.save(learner.state_dict(), file)
    advance(learner, twin)

    def resume(left_out: str | None) -> MaskedPPO:
        other, other_twin = MaskedPPO(RULE, seed=6), Twin(4, seed=5, rule=EpisodeRule(max_steps=20))
        state = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
        other.load_state_dict(state | ({left_out: other.state_dict()[left_out]} if left_out else {}))
        other_twin.restore(games)
        advance(other, other_twin)
        return other

    assert torch.equal(weights(resume(None)), weights(learner))
    assert resume(None).num_updates == learner.num_updates == 4
    for part in ("weights", "optimizer", "generator"):
        assert not torch.equal(weights(resume(part)), weights(learner)), part


def test_the_generators_of_the_process_are_not_touched() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    learner = MaskedPPO(RULE, seed=0)
    learner.update(learner.collect(Lever()))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"learning_rate": -1.0},
        {"discount": 1.5},
        {"network": "rnn"},
        {"state_gains": (2.0,) * 25, "network": "cnn"},
        {"num_states": 24, "network": "cnn"},
    ],
)
def test_impossible_rules_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        PPORule(**wrong)


@pytest.mark.parametrize("seed", range(3))
def test_a_critic_that_has_not_learned_expects_nothing(seed: int) -> None:
    learner, twin = MaskedPPO(RULE, seed=seed), Twin(4, seed=5, rule=EpisodeRule(max_steps=20))
    values = learner._values(torch.as_tensor(twin.states()))
    assert values.tolist() == [0.0] * 4
    learner.update(learner.collect(twin))
    assert bool((learner._values(torch.as_tensor(twin.states())) != 0).all()), "it learns"


def rates(choose: Callable[[Twin], Any]) -> tuple[float, float]:
    """The starter and badge rate of 100 first episodes of 300 steps."""
    twin = Twin(100, seed=99)
    over, starter, badge = (np.zeros(100, np.bool_) for _ in range(3))
    for _ in range(300):
        step = twin.step(choose(twin))
        ends = (step.ended_N | step.cut_N) & ~over
        starter, badge, over = starter | (ends & step.starter_N), badge | (ends & step.ended_N), over | ends
    assert over.all()
    return float(starter.mean()), float(badge.mean())


def test_it_learns_the_badge_of_the_cartridge_and_chance_does_not() -> None:
    rng = np.random.default_rng(0)
    by_chance = rates(lambda twin: random_actions(rng, twin.masks()))
    learner, twin = MaskedPPO(PPORule(), seed=0), Twin(16, seed=0)
    for _ in range(32):  # 65,536 steps
        learner.update(learner.collect(twin))
    learned = rates(lambda twin: learner.choose(twin.states(), twin.masks())[0])
    assert by_chance[0] < 0.5
    assert by_chance[1] < 0.1
    assert learned[0] > 0.9
    assert learned[1] > 0.35
