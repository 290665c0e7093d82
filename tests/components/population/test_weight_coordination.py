"""Synchronized, federated and asynchronous members: exactness against numpy, and the faults that averaging invites."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.identity import GroupKey
from components.population.adapters import Adapter, Learner, equal_tensors
from components.population.asynchronous import ages, discount_stale_batch, find_played_step, staleness_weight
from components.population.federated import (
    federate_learners,
    merge_adapters,
    pull_adapter,
    round_shares,
    synchronize_learners,
)
from components.schema import PolicyVersion, TrainBatch, TrainGroup
from tests.components.population.lora import adapter

Shares = dict[str, float]
SHARES = st.lists(st.integers(0, 5), min_size=2, max_size=4).filter(any)


def name_shares(raw: list[int]) -> Shares:
    return {f"m{i}": each / sum(raw) for i, each in enumerate(raw)}


def exact_mean(adapters: dict[str, Adapter], shares: Shares, target: str) -> Any:
    return sum(shares[name] * each.weight_change(target).numpy() for name, each in adapters.items())


def error(found: Adapter, adapters: dict[str, Adapter], shares: Shares) -> float:
    """The relative Frobenius error of the weight change over all targets."""
    exact = {target: exact_mean(adapters, shares, target) for target in found.targets}
    missing = sum(((found.weight_change(t).numpy() - e) ** 2).sum() for t, e in exact.items())
    return float((missing / sum((e**2).sum() for e in exact.values())) ** 0.5)


def train(learner: Learner, gradients: list[dict[str, torch.Tensor]]) -> Learner:
    """The learner after torch's own Adam has taken one step a gradient."""
    weights = {name: tensor.clone().requires_grad_() for name, tensor in learner.adapter.weights.items()}
    adam = torch.optim.Adam(list(weights.values()), lr=0.01)
    for name, tensor in weights.items():
        if learner.first_moments:
            step = torch.tensor(float(learner.num_updates))
            moments = {"exp_avg": learner.first_moments[name], "exp_avg_sq": learner.second_moments[name]}
            adam.state[tensor] = {"step": step, **{key: value.clone() for key, value in moments.items()}}
    for gradient in gradients:
        for name, tensor in weights.items():
            tensor.grad = gradient[name].clone()
        adam.step()
    return Learner(
        adapter=replace(learner.adapter, weights={name: tensor.detach() for name, tensor in weights.items()}),
        num_updates=learner.num_updates + len(gradients),
        first_moments={name: adam.state[tensor]["exp_avg"] for name, tensor in weights.items()},
        second_moments={name: adam.state[tensor]["exp_avg_sq"] for name, tensor in weights.items()},
    )


def gradient(seed: int) -> dict[str, torch.Tensor]:
    return dict(adapter(seed).weights)


def equal(one: Adapter, other: Adapter) -> bool:
    return all(equal_tensors([one.weights[name], other.weights[name]]) for name in one.weights)


def two_members() -> dict[str, Learner]:
    start = Learner(adapter=adapter(0))
    return {name: train(start, [gradient(10 * seed), gradient(10 * seed + 1)]) for seed, name in ((1, "a"), (2, "b"))}


def test_synchronized_replicas_are_equal_two_updates_later_and_only_with_averaged_moments() -> None:
    members = two_members()
    shared = synchronize_learners(members)
    later = [gradient(7), gradient(8)]
    assert equal(train(shared, later).adapter, train(shared, later).adapter)
    kept = [train(replace(each, adapter=shared.adapter), later).adapter for each in members.values()]
    assert not equal(*kept), "members that keep their own moments drift apart under equal gradients"
    name = "layers.0.q_proj.lora_B.weight"
    for field in ("first_moments", "second_moments"):
        halves = [getattr(each, field)[name].double() for each in members.values()]
        assert torch.allclose(getattr(shared, field)[name].double(), (halves[0] + halves[1]) / 2, atol=1e-7)
    assert shared.num_updates == 2


@given(st.permutations(["a", "b", "c"]))
def test_the_order_in_which_members_report_changes_no_bit(order: list[str]) -> None:
    learners = {name: Learner(adapter=adapter(ord(name))) for name in order}
    found = synchronize_learners(learners).adapter
    assert equal(found, synchronize_learners(dict(sorted(learners.items()))).adapter)


def test_synchronizing_equal_replicas_changes_nothing() -> None:
    one = two_members()["a"]
    found = synchronize_learners({"x": one, "y": one, "z": one})
    assert equal(found.adapter, one.adapter)
    assert all(equal_tensors([found.second_moments[name], one.second_moments[name]]) for name in one.second_moments)


def test_unlike_optimizer_states_are_refused() -> None:
    members = two_members()
    with pytest.raises(ConfigurationError, match=r"num_updates \{'a': 3, 'b': 2\}"):
        synchronize_learners({**members, "a": replace(members["a"], num_updates=3)})
    with pytest.raises(ConfigurationError, match="optimizer state of 'b'"):
        synchronize_learners({**members, "b": replace(members["b"], first_moments={})})
    poisoned = {name: tensor / 0 for name, tensor in members["b"].second_moments.items()}
    with pytest.raises(ConfigurationError, match="of 'b': hold NaN or infinity"):
        synchronize_learners({**members, "b": replace(members["b"], second_moments=poisoned)})


@settings(max_examples=25)
@given(SHARES, st.integers(0, 99))
def test_with_one_shared_a_the_federated_mean_is_exact(raw: list[int], seed: int) -> None:
    shares = name_shares(raw)
    adapters = {name: adapter(seed + i, a_seed=seed) for i, name in enumerate(shares)}
    merge = merge_adapters(adapters, shares)
    assert (merge.method, merge.residual) == ("mean", 0.0)
    assert error(merge.adapter, adapters, shares) < 1e-6
    assert merge.adapter.a("layers.0.q_proj").shape == (2, 8)


@settings(max_examples=25)
@given(SHARES, st.integers(0, 99), st.integers(1, 5))
def test_otherwise_it_is_the_best_of_its_rank_with_the_residual_by_numpy(raw: list[int], seed: int, rank: int) -> None:
    shares = name_shares(raw)
    adapters = {name: adapter(seed + i) for i, name in enumerate(shares)}
    merge = merge_adapters(adapters, shares, rank)
    spectra = [
        np.linalg.svd(exact_mean(adapters, shares, target), compute_uv=False) for target in merge.adapter.targets
    ]
    tail = sum((values[rank:] ** 2).sum() for values in spectra) / sum((values**2).sum() for values in spectra)
    assert merge.residual == pytest.approx(tail**0.5, abs=1e-6)
    assert error(merge.adapter, adapters, shares) == pytest.approx(merge.residual, abs=1e-5)
    assert {tensor.dtype for tensor in merge.adapter.weights.values()} == {torch.float32}


def test_averaging_a_and_b_apart_is_far_from_the_mean_of_what_they_do() -> None:
    adapters = {f"m{i}": adapter(i, rank=4) for i in range(3)}
    shares = {"m0": 0.5, "m1": 0.3, "m2": 0.2}
    apart = synchronize_learners({name: Learner(adapter=each) for name, each in adapters.items()}).adapter
    assert error(apart, adapters, dict.fromkeys(shares, 1 / 3)) > 0.5
    assert error(merge_adapters(adapters, shares, rank=12).adapter, adapters, shares) < 1e-6


def test_two_members_that_change_different_places_lose_one_at_rank_one() -> None:
    def unit(place: int) -> Adapter:
        one = torch.eye(2)[place]
        return Adapter(base="b", scale=1.0, weights={"q.lora_A.weight": one[None], "q.lora_B.weight": one[:, None]})

    found = merge_adapters({"a": unit(0), "b": unit(1)}, {"a": 0.5, "b": 0.5})
    assert (found.method, found.residual) == ("stack", pytest.approx(0.5**0.5))


def test_merged_fresh_adapters_change_nothing_and_can_still_be_trained() -> None:
    def fresh(seed: int) -> Adapter:
        weights = adapter(seed).weights
        return replace(adapter(seed), weights={n: t * 0 if "lora_B" in n else t for n, t in weights.items()})

    merge = merge_adapters({"a": fresh(0), "b": fresh(1)}, {"a": 0.5, "b": 0.5})
    assert merge.residual == 0.0
    for target in merge.adapter.targets:
        assert not merge.adapter.weight_change(target).any()
        assert merge.adapter.a(target).abs().sum() > 1, "with A and B of 0, no gradient would ever arrive"


def test_a_round_averages_moments_in_one_basis_and_drops_them_in_a_new_one() -> None:
    same_a = {name: replace(each, adapter=adapter(i, a_seed=0)) for i, (name, each) in enumerate(two_members().items())}
    learner, merge = federate_learners(same_a, {"a": 0.25, "b": 0.75})
    name = "layers.0.v_proj.lora_B.weight"
    wanted = 0.25 * same_a["a"].first_moments[name] + 0.75 * same_a["b"].first_moments[name]
    assert torch.allclose(learner.first_moments[name], wanted, atol=1e-7)
    assert (merge.method, learner.num_updates) == ("mean", 2)
    learner, merge = federate_learners(two_members(), {"a": 0.25, "b": 0.75})
    assert (merge.method, learner.num_updates, learner.first_moments) == ("stack", 0, {})


def test_shares_of_a_round_follow_samples_and_returns_even_negative_ones() -> None:
    assert round_shares({"a": 30, "b": 10}) == {"a": 0.75, "b": 0.25}
    assert round_shares({"a": 30, "b": 10}, {"a": -5.0, "b": -5 + np.log(3)}) == pytest.approx({"a": 0.5, "b": 0.5})
    assert round_shares({"a": 5, "b": 0}, {"a": -1e4, "b": 1e4}) == {"a": 1.0, "b": 0.0}
    wrong: list[Callable[[], Any]] = [
        lambda: round_shares({"a": 0}),
        lambda: merge_adapters({"a": adapter(0)}, {"a": 1.0}, rank=-1),
    ]
    for call in wrong:
        with pytest.raises(ConfigurationError):
            call()


@given(st.integers(1, 6), st.integers(0, 5), st.integers(0, 40))
def test_nobody_plays_by_weights_older_than_the_bound_and_all_in_turn(every: int, place: int, step: int) -> None:
    at = find_played_step(place, step, every=every)
    assert step - every < at <= step
    assert at in (0, step) or (at + place) % every == 0
    assert find_played_step(place, at, every=every) == at, "what reached the games is played until the next"


def test_what_older_weights_played_counts_less() -> None:
    assert [staleness_weight(age, 0.5) for age in (0, 1, 2)] == pytest.approx([1.0, 0.5**0.5, 3**-0.5])
    assert staleness_weight(3, 0.0) == 1.0
    group = TrainGroup(
        group=GroupKey(problem_id="p", episode=0, turn=0, agent="a"),
        prompt_tokens=(1,),
        completions_K_T=((2,), (3,)),
        sampler_logprobs_K_T=((-1.0,), (-2.0,)),
        advantages_K=(1.0, -2.0),
    )
    version = PolicyVersion(policy="m", step=4, weights_digest="")
    batch = TrainBatch(policy="m", step=7, groups=(group,), num_groups_without_signal=0, version=version)
    assert ages({"m": batch}) == {"m": 3}
    assert discount_stale_batch(batch, 0.5).groups[0].advantages_K == pytest.approx((0.5, -1.0))
    assert discount_stale_batch(replace(batch, step=4), 0.5).groups == (group,)


def test_a_share_of_nothing_moves_nothing() -> None:
    current, late = adapter(0, a_seed=0), adapter(1, a_seed=0)
    assert equal(pull_adapter(current, late, 0.0).adapter, current)
