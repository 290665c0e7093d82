"""What becomes of a population's adapters after the updates of a step: left alone, averaged, or federated."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from components.artifacts.payloads import get
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config.population import Federated, Synchronized
from components.methods.population.credits import population_config
from components.population.credit import PopulationState
from components.runs.run import PolicyUpdate
from components.session.session import Session

if TYPE_CHECKING:
    from components.population.adapters import Learner
    from components.training.adapter_state import AdapterState

_WEIGHT_COPY = "/weight/"
"""In the names of an optimizer's tensors: its copies of the weights, where the model computes in another type."""


def coordinate(
    session: Session,
    step: int,
    checkpoints: Mapping[str, CheckpointRef],
    updates: Mapping[str, PolicyUpdate],
    state: ArtifactRef,
) -> dict[str, PolicyUpdate]:
    """The updates with which the step ends: those given, or ones with mixed adapters, whose metrics say how they were mixed."""
    settings = population_config(session.config).weight_updates
    if not isinstance(settings, Synchronized | Federated) or (step + 1) % settings.every or len(updates) < 2:
        return dict(updates)
    from components.training.adapter_state import read_adapter_state

    before = {
        policy: read_adapter_state(session.copies.path(update.checkpoint), policy) for policy, update in updates.items()
    }
    shares = _shares(settings, get(session.store, state, PopulationState), list(updates))
    after, residual = mix_states(settings, before, shares)
    parents = tuple(update.checkpoint.weights_digest for update in updates.values())
    return {
        policy: PolicyUpdate(
            checkpoint=_store(session, step, checkpoints[policy], after[policy], parents),
            metrics={
                **update.metrics,
                "coordination_distance": _distance(before[policy], after[policy]),
                "coordination_residual": residual,
                "coordination_share": shares[policy],
                "coordination_fresh_moments": float(not after[policy].optimizer),
            },
        )
        for policy, update in updates.items()
    }


def _shares(settings: Synchronized | Federated, state: PopulationState, members: list[str]) -> dict[str, float]:
    """How much each member counts in a round."""
    from components.population.federated import round_shares

    if isinstance(settings, Synchronized):
        return {member: 1 / len(members) for member in members}
    returns = None
    if settings.return_temperature is not None:
        returns = {member: state.records[member].average_return or 0.0 for member in members}
    samples = {member: state.num_samples.get(member, 0) for member in members}
    return round_shares(samples, returns, settings.return_temperature or 1.0)


def mix_states(
    settings: Synchronized | Federated, states: Mapping[str, "AdapterState"], shares: Mapping[str, float]
) -> tuple[dict[str, "AdapterState"], float]:
    """The members' states after a round, and the share of the exact mean that is lost by keeping the rank.

    Where one of them has missed an update, having had nothing to learn from, all start with fresh moments: Adam corrects its
    moments by the number of updates, and those of different numbers have no mean.
    """
    from components.population.adapters import Learner
    from components.population.federated import federate_learners, pull_adapter, synchronize_learners

    learners = {member: _learner(state) for member, state in states.items()}
    if len({learner.num_updates for learner in learners.values()}) > 1:
        learners = {member: Learner(adapter=learner.adapter) for member, learner in learners.items()}
    if isinstance(settings, Synchronized):
        whole = synchronize_learners(learners)
        return {member: _with_learner(state, whole) for member, state in states.items()}, 0.0
    whole, merge = federate_learners(learners, shares)
    if settings.personal_share == 0.0:
        return {member: _with_learner(state, whole) for member, state in states.items()}, merge.residual
    after = {}
    for member, state in states.items():
        pulled = pull_adapter(learners[member].adapter, whole.adapter, 1 - settings.personal_share)
        kept = _pull(learners[member], whole, settings.personal_share) if pulled.method == "mean" else whole
        after[member] = _with_learner(state, replace(kept, adapter=pulled.adapter))
    return after, merge.residual


def _pull(own: "Learner", whole: "Learner", own_share: float) -> "Learner":
    """A learner with its own moments, whose optimizer's copies of weights, if it has any, are pulled as the adapter is."""
    from components.population.adapters import average_weighted

    shares = (own_share, 1 - own_share)
    copies = {name: tensor for name, tensor in own.first_moments.items() if _WEIGHT_COPY in name}
    pulled = {name: average_weighted([tensor, whole.first_moments[name]], shares) for name, tensor in copies.items()}
    return replace(own, first_moments={**own.first_moments, **pulled})


def _learner(state: "AdapterState") -> "Learner":
    from components.population.adapters import Adapter, Learner

    moments = state.moments
    return Learner(
        adapter=Adapter(base=state.base_digest, scale=state.shape.alpha / state.shape.rank, weights=state.weights),
        num_updates=state.num_updates,
        first_moments={name: tensor for name, tensor in moments.items() if "/exp_avg_sq/" not in name},
        second_moments={name: tensor for name, tensor in moments.items() if "/exp_avg_sq/" in name},
    )


def _with_learner(state: "AdapterState", learner: "Learner") -> "AdapterState":
    moments = {**learner.first_moments, **learner.second_moments}
    return replace(state, weights=learner.adapter.weights, optimizer={**state.counts, **moments} if moments else {})


def _distance(before: "AdapterState", after: "AdapterState") -> float:
    """The norm of the change of the adapter's tensors."""
    return float(
        sum(float(((after.weights[name] - tensor).double() ** 2).sum()) for name, tensor in before.weights.items())
        ** 0.5
    )


def _store(
    session: Session, step: int, before: CheckpointRef, state: "AdapterState", parents: tuple[str, ...]
) -> CheckpointRef:
    """The stored checkpoint of a member's state."""
    from components.training.adapter_state import write_adapter_checkpoint

    work = session.copies.work_folder(step)
    try:
        output = work / "checkpoint"
        write_adapter_checkpoint(
            state, before.policy, step + 1, base_folder=session.copies.path(before), output_folder=output
        )
        return session.copies.store(output, base=before.base, parents=parents)
    finally:
        shutil.rmtree(work, ignore_errors=True)
