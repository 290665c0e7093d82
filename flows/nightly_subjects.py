"""Who plays in a night: checkpoints by their names and weights, as found in the store."""

from collections.abc import Iterable, Iterator, Sequence

from components.artifacts.base import ArtifactStore
from components.config import StoreConfig
from components.errors import ArtifactMissing, ConfigurationError
from components.evaluation.nightly import NightlySuite, SuiteNight
from components.evaluation.promotion import Contestant, run_named
from components.evaluation.subjects import RegisteredSubject, RunSubject, parse_subject
from components.runs.run import Run
from components.runs.steps import first_unfinished_step
from components.session.stores import open_store
from components.session.team_weights import digest_team, find_run_with, read_weights
from flows.active_runs import read_newest_step
from flows.evaluate import find_stored_run


def newest_checkpoints(store: ArtifactStore, nightly: NightlySuite, active: Sequence[Run]) -> Iterator[Contestant]:
    """The newest checkpoint of each active run that plays the suite's environment. Players of games have nights of their own,
    and so have populations, which a suite plays only if it names their preset."""
    for run in active:
        is_wanted = (
            run.config.environment.name == nightly.suite.environment.name and run.config.method.nights == "suites"
            if nightly.presets is None
            else run.config.preset in nightly.presets
        )
        if is_wanted and run.config.method.nights != "games":
            step = read_newest_step(store, run)
            if step is not None:
                yield Contestant(name=f"{run.run_id}@{step}", weights=read_weights(store, run, step))


def find_contestant(kept: StoreConfig, subject: str) -> Contestant:
    """A subject of every night, with its weights as they are now if it is a run. Raises ConfigurationError."""
    parsed = parse_subject(subject)
    if not isinstance(parsed, RunSubject | RegisteredSubject):
        return Contestant(name=subject)
    run, step = find_stored_run(kept, parsed)
    store = open_store(kept)
    at = first_unfinished_step(store, run) if step is None else step
    return Contestant(name=f"{run.run_id}@{at}", weights=read_weights(store, run, at))


def is_there(kept: StoreConfig, contestant: Contestant) -> bool:
    """Whether the contestant's weights are still in the store under its name, before a restart or after it."""
    try:
        find_exact_run(kept, contestant.weights, parse_subject(contestant.name))
    except (ArtifactMissing, ConfigurationError):  # its weights, or its run
        return False
    return True


def find_exact_run(kept: StoreConfig, weights: str | None, subject: object) -> tuple[Run, int | None]:
    """The run that a subject names, as it was when it had these weights; as it is now for None.

    Raises ConfigurationError for an unknown run, ArtifactMissing if no such weights are in the store.
    """
    assert isinstance(subject, RunSubject | RegisteredSubject), f"{subject} is no run"
    run, step = find_stored_run(kept, subject)
    if weights is None or step is None:
        return run, step
    found = find_run_with(open_store(kept), run, step, lambda team: digest_team(team) == weights)
    if found is None:
        raise ArtifactMissing(
            f"{run.run_id}@{step}: its weights {weights[:8]} are gone from the store, with a run or a restart that was removed"
        )
    return found, step


def different(contestants: Iterable[Contestant]) -> list[Contestant]:
    """The contestants without those whose weights an earlier one has under the same run."""
    found: list[Contestant] = []
    for each in contestants:
        if not any(each.run == known.run and each.is_same(known) for known in found):
            found.append(each)
    return found


def list_unplayed_runs(store: ArtifactStore, active: Sequence[Run], nights: Sequence[SuiteNight]) -> Iterator[str]:
    """The active runs that no night has played or tried to play, with the reason. **Example** "own (environment guess)"."""
    agents = (agent for night in nights for agent in (*(each.agent for each in night.reports), *night.failures))
    played = {run_named(agent) for agent in agents}
    for run in active:
        if run.run_id not in played:
            is_ready = read_newest_step(store, run) is not None
            why = f"environment {run.config.environment.name}" if is_ready else "no update is finished"
            yield f"{run.run_id} ({why})"
