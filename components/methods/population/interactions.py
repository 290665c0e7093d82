"""Who did what to whom in a population run: its graph after each step, read from the store, and the files that show it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import get
from components.artifacts.refs import ArtifactRef, references_in
from components.config import PopulationMethod, RunConfig
from components.config.population import Federated
from components.errors import ArtifactCorrupt, ArtifactMissing
from components.methods.population.credits import read_played_moves, state_before
from components.metrics import train
from components.population.credit import PopulationState
from components.population.interaction_graph import (
    InteractionGraph,
    PlayedEpisode,
    graph_picture,
    graphml,
    make_played_episode,
)
from components.runs.history import read_history
from components.runs.lineages import lineage_for, read_config
from components.runs.run import Run
from components.runs.step_records import step_manifests
from components.schema import Episode, RolloutShard
from components.session.scenario import Scenario, scenario_of
from components.session.session import Session

PICTURE = "interactions.png"
FILES = (PICTURE, "interactions.graphml")
SHARE = "coordination_share"
"""The metric of an update that says how much its member counted in a round."""
_Transfer = tuple[str, str, float]


def store_interactions(session: Session, step: int) -> ArtifactRef:
    """The stored folder of FILES, after `step` updates."""
    drawn = interactions_after(session, step)
    folder = session.copies.work_folder(step)  # stays: a store may write in the background
    title = f"Interactions in {session.run.run_id} after {step} steps"
    picture, graph = (folder / name for name in FILES)
    picture.write_bytes(graph_picture(drawn, title=title))
    graph.write_text(graphml(drawn), encoding="utf-8")
    return session.store.put_folder(folder)


def file_in(folder: ArtifactRef, name: str) -> ArtifactRef:
    """One file of a stored folder, as a reference to its bytes."""
    assert folder.files is not None, f"{folder.key} is no folder"
    sha256, num_bytes = folder.files[name]
    return ArtifactRef(kind=Path(name).suffix, key=f"{folder.key}/{name}", sha256=sha256, num_bytes=num_bytes)


def interactions_after(session: Session, step: int) -> InteractionGraph:
    """The run's graph after `step` updates: played episodes, and what members took over.

    A run that an older version began counts from the step on at which this one continued.
    """
    state = state_before(session, step)
    assert state is not None, f"no episode was played before step {step}"
    graph = get(session.store, state, PopulationState).interactions
    for transfer in _transfers(session.store, session.run, step):
        graph = graph.after_transfer(*transfer)
    return graph


def read_played_episodes(store: ArtifactStore, run: Run, step: int) -> list[PlayedEpisode | None]:
    """The episodes of a finished step, by number, with the payoffs of the game as raw returns; None for one that failed.

    Empty if `troupe gc` has removed them.
    """
    scenario = scenario_of(run.config)
    manifests = [each for each in step_manifests(store, run, step) if each.stage == "collect_rollouts"]
    try:
        shards = [get(store, ref, RolloutShard) for each in manifests for ref in references_in(each.output)]
    except ArtifactMissing:
        return []
    episodes = [episode for shard in shards for episode in shard.episodes]
    return [_with_payoffs(scenario, episode, order=at) for at, episode in enumerate(episodes)]


def _with_payoffs(scenario: Scenario, episode: Episode, *, order: int) -> PlayedEpisode | None:
    if episode.error is not None:
        return None
    agents = scenario.config.agents
    payoffs_N_K = [
        [(each.outcome.payoffs or {}).get(node.group.agent, 0.0) for each in node.candidates] for node in episode.nodes
    ]
    moves = read_played_moves(scenario, episode, payoffs_N_K)
    earned_M_A = [each.chosen_rewards_A or () for each in moves]
    members = {name: agent.policy for name, agent in agents.items()} | {n.group.agent: n.policy for n in episode.nodes}
    raw_A = [sum(column) for column in zip(*earned_M_A, strict=True)]
    return make_played_episode(moves, [*agents], [members[each] for each in agents], raw_A, order=order)


def _transfers(store: ArtifactStore, run: Run, num_steps: int) -> list[_Transfer]:
    """What members took over, step by step and by name. Raises ArtifactCorrupt for a record that cannot be read."""
    first = read_config(store, run.run_id) or run.config
    configs = {0: first, **{each.lineage: each.config for each in run.lineages}}
    found: list[_Transfer] = []
    for each in read_history(store, run, num_steps).steps:
        if each.error is not None:
            raise ArtifactCorrupt(each.error)
        config = configs[lineage_for(run.lineages, each.step, "coordinate_weights")]
        found += _transfers_of_step(config, each.summary.metrics)
    return found


def _transfers_of_step(config: RunConfig, metrics: Mapping[str, float]) -> Iterator[_Transfer]:
    """What each member of a round took over from each other one: its share of what was mixed.

    **Example** shares .75 and .25, each keeps .2 of its own: .6 of the first goes to the second, .2 of the second to the first.
    """
    shares = {name: metrics[train(name, SHARE)] for name in sorted(config.policies) if train(name, SHARE) in metrics}
    updates = config.method.weight_updates if isinstance(config.method, PopulationMethod) else None
    own = updates.personal_share if isinstance(updates, Federated) else 0.0
    yield from (
        (source, target, (1 - own) * share) for source, share in shares.items() for target in shares if target != source
    )
