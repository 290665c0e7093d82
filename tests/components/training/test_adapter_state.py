"""Adapters as tensors and back: the trainer goes on from what was written, mixes are exact, and a frozen A never moves."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from components.config import AdapterConfig, TrainingConfig
from components.config.population import Federated, Synchronized
from components.errors import ArtifactCorrupt
from components.methods.population.coordination import mix_states
from components.models.adapters import read_adapter_config
from components.population.adapters import Adapter
from components.training.adapter_state import AdapterState, read_adapter_state, write_adapter_checkpoint
from components.training.base import MODEL_FOLDER, CheckpointManifest
from components.training.checkpoint import NO_OPTIMIZER, read_manifest, write_initial_adapter
from components.training.trainer import DeepSpeedTrainer
from tests.components.training.test_specialisation import Team

SHAPE = AdapterConfig(rank=2, alpha=4.0, targets=("q_proj", "v_proj"))
FROZEN = SHAPE.model_copy(update={"freeze_a": True})
TRAINING = TrainingConfig(learning_rate=1e-2, tokens_per_micro_batch=256, num_minibatches=1)
SHARES = {"role-0": 0.25, "role-1": 0.75}


@pytest.fixture(params=[SHAPE, FROZEN], ids=["A trained", "A frozen"])
def shape(request: pytest.FixtureRequest) -> AdapterConfig:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def team(tmp_path: Path, make_model: Callable[..., Any], shape: AdapterConfig) -> Team:
    """Two members of one base; under `freeze_a` with one A, as a run draws them."""
    made = Team(tmp_path, "L2", 2, make_model)
    base = tmp_path / "base" / MODEL_FOLDER
    for number, policy in enumerate(made.policies):
        first = tmp_path / f"{policy}-first"
        write_initial_adapter(base, first, policy, adapter=shape, seed=0 if shape.freeze_a else number)
        (first / MODEL_FOLDER).symlink_to(base)
        made.newest[policy] = first
    return made


def states(team: Team) -> dict[str, AdapterState]:
    return {policy: read_adapter_state(folder, policy) for policy, folder in team.newest.items()}


def put(team: Team, state: AdapterState, policy: str, name: str) -> CheckpointManifest:
    """Write `state` as the newest checkpoint of `policy`."""
    before, after = team.newest[policy], team.folder / f"{policy}-{name}"
    step = read_manifest(before).step
    manifest = write_adapter_checkpoint(state, policy, step, base_folder=before, output_folder=after)
    (after / MODEL_FOLDER).symlink_to((before / MODEL_FOLDER).resolve())
    team.newest[policy] = after
    return manifest


def update(team: Team, trainer: DeepSpeedTrainer, groups: Mapping[str, list[Any]], name: str) -> None:
    for policy, batch in groups.items():
        team.updated(trainer, team.job(policy, batch, team.folder / f"{policy}-{name}", TRAINING))


def differ(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> set[str]:
    assert one.keys() == other.keys()
    return {name for name in one if not torch.equal(one[name], other[name])}


def test_what_is_read_and_written_is_the_checkpoint_from_which_the_trainer_goes_on(
    team: Team, trainer: DeepSpeedTrainer, make_groups: Callable[..., list[Any]], shape: AdapterConfig
) -> None:
    policy, other = team.policies
    fresh = states(team)[policy]
    assert (fresh.num_updates, fresh.optimizer) == (0, {})
    assert put(team, fresh, policy, "again").optimizer_digest == NO_OPTIMIZER
    update(team, trainer, {policy: make_groups(2)}, "one")
    original, before = team.newest[policy], states(team)[policy]
    manifest = put(team, before, policy, "copy")
    assert manifest == read_manifest(original)
    after = states(team)[policy]
    assert (before.num_updates, after.shape) == (1, shape)
    assert not differ(before.weights, after.weights) | differ(before.optimizer, after.optimizer)
    put(team, before, other, "taken")  # the same state under another name is one that the trainer accepts too
    later = make_groups(1, seed=9)
    update(team, trainer, {policy: later, other: later}, "two")
    found = states(team)
    assert not differ(found[policy].weights, found[other].weights)
    assert found[policy].num_updates == found[other].num_updates == 2
    assert read_adapter_config(team.newest[policy] / "adapter") == shape


def test_a_full_models_checkpoint_and_a_torn_optimizer_are_refused(
    team: Team,
    trainer: DeepSpeedTrainer,
    make_groups: Callable[..., list[Any]],
    initial: tuple[Path, CheckpointManifest],
) -> None:
    with pytest.raises(ArtifactCorrupt, match="is no adapter's checkpoint"):
        read_adapter_state(initial[0], "p")
    policy = team.policies[0]
    update(team, trainer, {policy: make_groups(1)}, "one")
    (file,) = (team.newest[policy] / "training").glob("optimizer-*.safetensors")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ArtifactCorrupt, match="training cannot be read"):
        read_adapter_state(team.newest[policy], policy)


def test_a_frozen_a_never_moves_and_makes_the_federated_mean_exact(
    team: Team, trainer: DeepSpeedTrainer, make_groups: Callable[..., list[Any]], shape: AdapterConfig
) -> None:
    first = states(team)
    for number in range(2):
        batches = {policy: make_groups(2, seed=10 * number + seed) for seed, policy in enumerate(team.policies)}
        update(team, trainer, batches, f"update-{number}")
    members = states(team)
    for policy, state in members.items():
        moved = differ(first[policy].weights, state.weights)
        assert moved == {name for name in state.weights if "lora_B" in name or not shape.freeze_a}
        assert all("lora_A" not in name for name in state.moments) == shape.freeze_a
    after, residual = mix_states(Federated(), members, SHARES)
    assert (residual == 0.0) == shape.freeze_a
    assert relative_error(after["role-0"], members) == pytest.approx(residual, abs=1e-6)
    assert bool(after["role-0"].optimizer) == shape.freeze_a, "in a new basis old moments mean nothing"
    for policy, state in after.items():
        put(team, state, policy, "merged")
    update(team, trainer, {policy: make_groups(1, seed=5) for policy in team.policies}, "later")
    found = states(team)
    assert not differ(found["role-0"].weights, found["role-1"].weights), "merged members are one member"


def make_up_state(seed: int, num_updates: int, *, copies: bool = False) -> AdapterState:
    """A state of one target with a shared A."""
    draw = torch.Generator().manual_seed(seed)
    b, file = torch.randn(3, 2, generator=draw), "optimizer-00000-of-00001.safetensors"
    kinds = ("exp_avg", "exp_avg_sq", *(("weight",) if copies else ()))
    tensors = {f"{file}/{kind}/0/q.lora_B.policy.weight": b.flatten() for kind in kinds}
    return AdapterState(
        weights={"q.lora_A.weight": torch.ones(2, 4), "q.lora_B.weight": b},
        shape=FROZEN,
        base_digest="base",
        optimizer={f"{file}/counts": torch.tensor([num_updates]), **tensors},
    )


def test_a_member_that_missed_an_update_makes_all_start_with_fresh_moments() -> None:
    for settings in (Synchronized(), Federated()):
        unequal = {"role-0": make_up_state(0, 4), "role-1": make_up_state(1, 2)}
        after, _ = mix_states(settings, unequal, SHARES)
        assert all(state.optimizer == {} for state in after.values())
        equal = {"role-0": make_up_state(0, 4), "role-1": make_up_state(1, 4)}
        kept, _ = mix_states(settings, equal, SHARES)
        assert {state.num_updates for state in kept.values()} == {4}
        assert not differ(kept["role-0"].weights, after["role-0"].weights), "weights are mixed all the same"


def test_who_keeps_a_share_of_its_own_keeps_its_moments_and_copies_of_weights_follow_the_adapter() -> None:
    members = {f"role-{seed}": make_up_state(seed, 3, copies=True) for seed in range(2)}
    after, residual = mix_states(Federated(personal_share=0.5), members, SHARES)
    assert residual == 0.0
    for policy, state in after.items():
        for name, tensor in state.optimizer.items():
            wanted = (
                state.weights["q.lora_B.weight"].flatten() if "/weight/" in name else members[policy].optimizer[name]
            )
            assert torch.equal(tensor, wanted)
    assert differ(after["role-0"].weights, after["role-1"].weights) == {"q.lora_B.weight"}


def relative_error(merged: AdapterState, members: Mapping[str, AdapterState]) -> float:
    """Of the weight changes, against their exact mean in float64."""

    def changes(state: AdapterState) -> dict[str, Tensor]:
        adapter = Adapter(base="b", scale=state.shape.alpha / state.shape.rank, weights=state.weights)
        return {target: adapter.weight_change(target) for target in adapter.targets}

    missing = whole = 0.0
    for target, found in changes(merged).items():
        exact = sum(SHARES[policy] * changes(state)[target] for policy, state in members.items())
        missing += float(((found - exact) ** 2).sum())
        whole += float((exact**2).sum())
    return (missing / whole) ** 0.5


def test_synchronized_replicas_are_bit_equal_and_still_two_updates_later(
    team: Team, trainer: DeepSpeedTrainer, make_groups: Callable[..., list[Any]]
) -> None:
    update(team, trainer, {policy: make_groups(2, seed=seed) for seed, policy in enumerate(team.policies)}, "apart")
    before = states(team)
    assert differ(before["role-0"].weights, before["role-1"].weights)
    halves = dict.fromkeys(before, 0.5)
    after, residual = mix_states(Synchronized(), before, halves)
    assert residual == 0.0
    digests = {put(team, state, policy, "mean").weights_digest for policy, state in after.items()}
    assert len(digests) == 1
    for number in range(2):
        update(team, trainer, dict.fromkeys(team.policies, make_groups(1, seed=20 + number)), f"equal-{number}")
        found = states(team)
        assert not differ(found["role-0"].weights, found["role-1"].weights)
        assert not differ(found["role-0"].optimizer, found["role-1"].optimizer)
    assert len({manifest.weights_digest for manifest in team.manifests().values()}) == 1
