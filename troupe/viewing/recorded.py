"""The rollouts of a step as they are stored, with rewards and advantages. Damaged parts are named; intact ones are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

from components.algorithms.registry import ESTIMATORS, find_estimator
from components.artifacts.base import ArtifactStore
from components.artifacts.parallel import in_parallel
from components.artifacts.payloads import get
from components.artifacts.refs import ArtifactRef, StageManifest
from components.config import RunConfig
from components.errors import ArtifactCorrupt, ArtifactMissing, ConfigurationError, StoreRefused
from components.population.credit import PopulationState
from components.runs.available_checkpoints import format_ranges
from components.runs.lineages import lineage_for, read_config
from components.runs.recovery_hints import with_recovery_hints
from components.runs.run import MixedStep, Run
from components.runs.session_records import effective_run, read_roles, readable_sessions
from components.runs.step_records import manifest_keys, read_manifest_at, stage_of, step_of
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import read_run
from components.schema import Episode, PolicyVersion, RolloutShard, ScoredShard, ToolRecord
from components.stage_roles import Roles, Writes

T = TypeVar("T")
_MISSING_CREDITS = "no advantages: they need the mixed returns of all shards of the step"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEpisode:
    """An episode with the rewards and advantages of its candidates. Axes: N nodes, K candidates.

    Rewards are those of the reward stage; without them, `is_scored` is False and they are those by which the sampler chose.
    `advantages_N_K` is None if they cannot be computed from what is stored. `credits_N_K` are what a population's actions are
    credited with, from the returns that its training mode mixes; None in other runs, and where they are not stored.
    """

    episode: Episode
    shard: int
    is_scored: bool
    rewards_N_K: tuple[tuple[float | None, ...], ...]
    advantages_N_K: tuple[tuple[float | None, ...], ...] | None
    tools: ToolRecord
    credits_N_K: tuple[tuple[float | None, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMixing:
    """How a population's returns were mixed in a step. `learning` are the members that learned in it, None where the step has
    not come so far; `before` is the state by which returns were mixed, None where it cannot be read."""

    learning: tuple[str, ...] | None
    before: PopulationState | None
    after: PopulationState | None = None
    """None where the step has not come so far, or it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """The rollouts of a step, in the order of its shards. `notes` say what is missing or damaged, with the remedy."""

    run: Run
    step: int
    config: RunConfig
    """That under which the step's advantages were computed."""
    versions: Mapping[str, PolicyVersion]
    episodes: tuple[RecordedEpisode, ...]
    notes: tuple[str, ...]
    images: tuple[str, ...] = ()
    """The digests of the sandbox images in which the run's sessions ran programs, the newest first."""
    mixing: RecordedMixing | None = None
    """None unless it is a step of a population."""


def read_recorded(store: ArtifactStore, run_id: str, step: int | None = None) -> RecordedStep:
    """The rollouts of a step (None: the newest that has some). Reads only.

    Raises ConfigurationError if the run or its rollouts are unknown, ArtifactCorrupt if the run's configuration is damaged.
    """
    run = effective_run(store, read_run(store, run_id))
    if not run.config.method.writes_answers:
        raise ConfigurationError(
            f"run {run_id!r}: it trained a player of buttons, whose games are no texts; `troupe view {run_id}` shows them"
        )
    reached, roles = first_unfinished_step(store, run), read_roles(store, run_id)
    candidates = [step] if step is not None else [each for each in (reached, reached - 1) if each >= 0]
    for at in candidates:
        if any(roles[stage_of(key)].writes == "rollouts" for key in store.list(_folder(run, at))):
            return _read_step(store, run, at, roles)
    raise _no_rollouts(store, run, step, reached, roles)


def _read_step(store: ArtifactStore, run: Run, step: int, roles: Roles) -> RecordedStep:
    config, reading = _config_at(store, run, step, roles), _Reading(store, run, step, roles)
    manifests = reading.manifests(("rollouts", "rewards"))
    shards = reading.payloads(manifests, "rollouts", RolloutShard)
    scores = reading.payloads(manifests, "rewards", ScoredShard)
    mixed = reading.read_mixed_step() if config.method.learns_from_credits else None
    credited = {} if mixed is None else reading.credited(mixed)
    read = as_recorded(run, step, config, shards, scores, credited, is_whole=reading.is_whole)
    if config.method.learns_from_credits:
        learning = None if mixed is None else tuple(mixed.learning)
        read = replace(
            read,
            mixing=RecordedMixing(learning=learning, before=reading.state_before(), after=reading.state_after(mixed)),
        )
    images = [each.sandbox_image for each in reversed(readable_sessions(store, run.run_id)) if each.sandbox_image]
    return replace(read, notes=(*reading.notes, *read.notes), images=tuple(dict.fromkeys(images)))


def as_recorded(
    run: Run,
    step: int,
    config: RunConfig,
    shards: Mapping[str, RolloutShard],
    scores: Mapping[str, ScoredShard],
    credited: Mapping[str, ScoredShard] = MappingProxyType({}),
    *,
    is_whole: bool = True,
) -> RecordedStep:
    """The step of these shards and scores, by part; `credited` are a population's scores with credits in place of rewards.
    `is_whole`: no other part exists.

    Advantages are computed by the estimator of `config` if they follow from what is given; else a note says why not.
    """
    notes = []
    if unscored := sorted(set(shards) - set(scores)):
        notes.append(f"no rewards of shard {', '.join(unscored)}: shown are those by which the sampler chose")
    missing = _missing_advantages(config, is_whole=is_whole and not unscored)
    if missing is None and config.method.learns_from_credits and set(shards) - set(credited):
        missing = _MISSING_CREDITS
    if missing is not None:
        notes.append(missing)
    versions: dict[str, PolicyVersion] = {}
    for shard in shards.values():
        versions.update(shard.policy_versions)
    episodes = [
        _make_recorded(shard, scores.get(part), credited.get(part), index)
        for part, shard in shards.items()
        for index in range(len(shard.episodes))
    ]
    return RecordedStep(
        run=run,
        step=step,
        config=config,
        versions=versions,
        episodes=tuple(_with_advantages(episodes, config) if missing is None else episodes),
        notes=tuple(notes),
    )


def _make_recorded(
    shard: RolloutShard, score: ScoredShard | None, credited: ScoredShard | None, index: int
) -> RecordedEpisode:
    episode = shard.episodes[index]
    sampled = tuple(tuple(candidate.reward for candidate in node.candidates) for node in episode.nodes)
    return RecordedEpisode(
        episode=episode,
        shard=shard.shard,
        is_scored=score is not None,
        rewards_N_K=sampled if score is None else score.rewards_E_N_K[index],
        advantages_N_K=None,
        tools=shard.tools,
        credits_N_K=None if credited is None else credited.rewards_E_N_K[index],
    )


def _missing_advantages(config: RunConfig, *, is_whole: bool) -> str | None:
    """Why the advantages cannot be computed again; None if they can."""
    name = config.algorithm.advantage
    if name not in ESTIMATORS:
        return f"no advantages: {name} is the run's own code, which is not run here"
    return None if is_whole else "no advantages: they need the rewards of all shards of the step"


def _with_advantages(episodes: Sequence[RecordedEpisode], config: RunConfig) -> list[RecordedEpisode]:
    """The episodes with their advantages, computed again by the estimator of the run, from credits where there are some."""
    compute = find_estimator(config.algorithm.advantage)
    learned_from_E_N_K = [each.rewards_N_K if each.credits_N_K is None else each.credits_N_K for each in episodes]
    found_E_N_K = compute([each.episode for each in episodes], learned_from_E_N_K, config.algorithm)
    return [replace(each, advantages_N_K=found_N_K) for each, found_N_K in zip(episodes, found_E_N_K, strict=True)]


class _Reading:
    """Reads one step; what cannot be read is noted and skipped."""

    def __init__(self, store: ArtifactStore, run: Run, step: int, roles: Roles) -> None:
        self._store, self._run, self._step, self._roles = store, run, step, roles
        self.notes: list[str] = []
        self.is_whole = True
        """Whether everything that is stored could be read."""

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def manifests(self, writing: tuple[Writes, ...], step: int | None = None) -> list[StageManifest]:
        """The committed results with these, in the run's newest lineages, the newest last; of another step if one is given."""
        folder = _folder(self._run, self._step if step is None else step)
        keys = manifest_keys(self._run, self._store.list(folder))
        wanted = [key for key in keys if self._roles[stage_of(key)].writes in writing]
        found = [self._part(lambda key=key: read_manifest_at(self._store, key)) for key in wanted]  # type: ignore[misc]
        return sorted((each for each in found if each is not None), key=lambda each: each.finished_at)

    def payloads(self, manifests: list[StageManifest], written: Writes, as_type: type[T]) -> dict[str, T]:
        """What was written of one kind by part, in the order of the parts."""
        refs = {
            manifest.key.split("/")[5]: ArtifactRef.model_validate(manifest.output)
            for manifest in manifests
            if self._roles[manifest.stage].writes == written
        }
        parts = sorted(refs, key=lambda part: (len(part), part))
        read = in_parallel(lambda part: self._part(lambda: get(self._store, refs[part], as_type)), parts)
        return {part: value for part, value in zip(parts, read, strict=True) if value is not None}

    def read_mixed_step(self, step: int | None = None) -> MixedStep | None:
        """What the step's mixing of returns came to; None while it has not come so far."""
        found = self.manifests(("returns",), step)
        return MixedStep.model_validate(found[-1].output) if found else None

    def credited(self, mixed: MixedStep) -> dict[str, ScoredShard]:
        """The step's credits by part."""
        read = in_parallel(lambda ref: self._part(lambda: get(self._store, ref, ScoredShard)), mixed.credited)
        return {str(each.shard): each for each in read if each is not None}

    def state_before(self) -> PopulationState | None:
        """The population's state before the step; None if it cannot be read."""
        if self._step == 0:
            return PopulationState()
        mixed = self.read_mixed_step(self._step - 1)
        return None if mixed is None else self._part(lambda: get(self._store, mixed.state, PopulationState))

    def state_after(self, mixed: MixedStep | None) -> PopulationState | None:
        """The population's state after the step; None if it cannot be read."""
        return None if mixed is None else self._part(lambda: get(self._store, mixed.state, PopulationState))

    def _part(self, read: Callable[[], T]) -> T | None:
        """The result of `read`; None, with a note, if it is damaged."""
        try:
            with with_recovery_hints(self._store, self._run.run_id):
                return read()
        except (ArtifactCorrupt, ArtifactMissing, StoreRefused) as error:
            self.note(str(error))
            self.is_whole = False
            return None


def _config_at(store: ArtifactStore, run: Run, step: int, roles: Roles) -> RunConfig:
    """The configuration under which the step's advantages were computed."""
    number = max((lineage_for(run.lineages, step, each) for each in roles.writing("batches")), default=0)
    known = {lineage.lineage: lineage.config for lineage in run.lineages}
    return known.get(number) or read_config(store, run.run_id) or run.config


def _folder(run: Run, step: int) -> str:
    return f"runs/{run.run_id}/steps/{step:06d}/"


def _no_rollouts(store: ArtifactStore, run: Run, step: int | None, reached: int, roles: Roles) -> ConfigurationError:
    if step is None:
        return ConfigurationError(f"run {run.run_id!r} has no rollouts yet; train it first")
    if 0 <= step < reached:
        keys = store.list(f"runs/{run.run_id}/steps/")
        kept = sorted({step_of(key) for key in keys if roles[stage_of(key)].writes == "rollouts"})
        return ConfigurationError(
            f"--step {step}: the rollouts of step {step} of run {run.run_id!r} were removed (`troupe gc`, "
            f"retention.rollouts); those of steps {format_ranges(kept) or 'none'} are there"
        )
    known = f"it has steps 0 to {reached - 1}" if reached else "it has no finished step"
    return ConfigurationError(f"--step {step}: run {run.run_id!r} has no rollouts of it; {known}")
