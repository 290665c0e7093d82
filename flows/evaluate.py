"""Evaluates a subject on a suite. What has been played is read, whoever has played it."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Literal

from prefect import runtime

from components.artifacts.base import ArtifactStore
from components.artifacts.format import ensure_format
from components.artifacts.refs import CheckpointRef
from components.config import ResourceConfig, StoreConfig
from components.errors import ConfigurationError, StoreRefused, StoreUnavailable
from components.evaluation.held_out import Sampling, report_from
from components.evaluation.subjects import RegisteredSubject, RunSubject, parse_subject
from components.evaluation.suite_play import SuitePlay, join_plays
from components.evaluation.suites import Suite
from components.machine.scratch import scratch_folder
from components.methods.base import method_for
from components.methods.open_subjects import OpenSubject, ResultsStore, RunFinder, find_team, open_subject
from components.runs.initial_checkpoints import read_initial_checkpoints
from components.runs.run import Run
from components.runs.session_records import effective_run
from components.runs.shared_results import adopt_result
from components.runs.stored_runs import read_run
from components.schema import EvalReport
from components.session.session import Session
from components.session.stores import open_store
from components.session.team_weights import find_run_with
from components.session.trackers import resolve_model
from flows.prefect_runtime.interruptible_flow import interruptible_flow
from flows.prefect_runtime.retrying_transport import retry_prefect_outages
from flows.shards import Progress, play_here, play_in_flow
from flows.suites import games_to_play, overridden, suite_to_play, team_overrides
from tasks.play_suite import SCRIPT, block_calls, is_played, key_block

Play = Callable[..., list[SuitePlay]]
"""`play_here` or `play_in_flow`."""
_NOT_KEPT = "the evaluation is not kept, and will be played again: %s"
_log = logging.getLogger(__name__)


def run_name() -> str:
    """The flow run's name in Prefect. **Example** "plan-path@100 on plan_path/test"."""
    parameters = runtime.flow_run.parameters
    return f"{parameters['subject']} on {Suite.model_validate(parameters['suite']).title}"


@interruptible_flow(name="evaluate", flow_run_name=run_name)
def evaluate(
    subject: str,
    suite: Suite,
    sampling: Literal["sample", "greedy"] = "greedy",
    num_samples: int = 1,
    seed: int = 0,
    overrides: list[str] | None = None,
    store: StoreConfig | None = None,
) -> dict[str, Any]:
    """Evaluate `subject` on `suite` and return the report as plain JSON.

    `subject`: RUN or RUN@STEP, models:/NAME@ALIAS, a model's folder or hub name, openai:MODEL or anthropic:MODEL, expert,
    random, noop, or role=subject,role=subject. `num_samples` episodes of each problem; `seed` decides the draws of answers.
    `overrides` are `a.b=c` lines, as for `--set`; those of `resources` say where blocks of problems are played. The same
    evaluation, by whichever flow or run, is never paid twice.
    """
    retry_prefect_outages(ResourceConfig().prefect_patience_seconds)
    kept = store or StoreConfig()
    with open_results_store(kept) as results:
        report = evaluate_subject(
            subject,
            suite,
            sampling=sampling,
            num_samples=num_samples,
            seed=seed,
            overrides=overrides or (),
            results=results,
            find_run=partial(find_stored_run, kept),
            play=play_in_flow,
        )
    return asdict(report) | {"interval": list(report.interval), "num_solved_P": list(report.num_solved_P)}


def evaluate_subject(
    subject: str,
    suite: str | Suite | None,
    *,
    sampling: Sampling,
    num_samples: int = 1,
    seed: int = 0,
    num_problems: int | None = None,
    overrides: Sequence[str] = (),
    results: ResultsStore,
    find_run: RunFinder,
    play: Play = play_here,
    progress: Progress = lambda done, total: None,
) -> EvalReport:
    """The report of a subject on a suite (see `flows.suites.suite_to_play`), whose play is kept as `results` says.

    A hybrid run plays its own held-out games. `progress(done, total)` counts problems. Raises ConfigurationError before
    anything is played.
    """
    parsed = parse_subject(subject)
    if isinstance(parsed, RunSubject | RegisteredSubject):
        found_run = find_run(parsed)
        team = find_team(parsed, lambda _: found_run, title=subject, may_play_games=True)
        found = games_to_play(
            found_run[0], suite, overrides, num_problems=num_problems, num_samples=num_samples, seed=seed
        )
    else:
        team = find_team(parsed, find_run, title=subject)
        found = None
    found = found or suite_to_play(suite, team.learned, overrides, num_problems=num_problems, seed=seed)
    with open_subject(
        team, found.config, store=results, adjust=lambda config: overridden(config, team_overrides(overrides))
    ) as opened_subject:
        report = contender_report(
            opened_subject, found.suite, sampling, num_samples, seed, play=play, progress=progress
        )
        keep_results(opened_subject.session)
    return report


def contender_report(
    opened_subject: OpenSubject,
    suite: Suite,
    sampling: Sampling,
    num_samples: int,
    seed: int,
    *,
    play: Play = play_here,
    progress: Progress = lambda done, total: None,
) -> EvalReport:
    """The report of a contender in its session; its weights are loaded only if a block is missing."""
    session, versions, weights = opened_subject.session, opened_subject.versions, opened_subject.weights
    evaluation = method_for(session.config).evaluation
    plan = evaluation.plan(session.scenario, suite, sampling=sampling, seed=seed, num_samples=num_samples)
    players = (
        {SCRIPT: opened_subject.script}
        if opened_subject.script
        else evaluation.name_players(session, plan, versions, weights)
    )
    calls = block_calls(session, plan, players, versions, weights)
    if opened_subject.earlier is not None:
        for call in calls:
            adopt_result(session.store, key_block(call), earlier=opened_subject.earlier)
    if not all(map(is_played, calls)):
        opened_subject.load()
    found = join_plays(play(session, calls, title=opened_subject.name, progress=progress))
    step = max((version.step for version in versions.values()), default=0)
    heading = evaluation.head(session.scenario, plan, agent=opened_subject.name, step=step)
    if opened_subject.script:
        heading = replace(heading, sampling="scripted", temperatures=None)
    return report_from(heading, found, evaluation.list_metrics(found))


@contextmanager
def open_results_store(store: StoreConfig | None) -> Iterator[ResultsStore]:
    """Where play is kept: in `store`; a folder for the length of the block if that is None or takes no results, of which a
    warning tells. Play that it holds is read all the same."""
    if store is not None and _takes_results(open_store(store)):
        yield ResultsStore(config=store)
        return
    with TemporaryDirectory(prefix="evaluation-", dir=scratch_folder()) as folder:
        yield ResultsStore(config=StoreConfig(kind="local", root=folder), earlier=store)


def _takes_results(store: ArtifactStore) -> bool:
    try:
        store.probe()
    except (StoreRefused, StoreUnavailable) as error:  # a store that can be read is enough
        _log.warning(_NOT_KEPT, error)
        return False
    return True


def keep_results(session: Session) -> None:
    """Wait until the play is stored; a store that takes none is told in a warning, and the report is given all the same."""
    try:
        ensure_format(session.store.durable)
        session.store.flush()
    except (StoreRefused, StoreUnavailable) as error:
        _log.warning(_NOT_KEPT, error)


def find_stored_run(store: StoreConfig, subject: RunSubject | RegisteredSubject) -> tuple[Run, int | None]:
    """The run in `store` that a subject names; for a registered version as it was when it had that one's weights. Raises
    ConfigurationError if there is none."""
    opened = open_store(store)
    if isinstance(subject, RunSubject):
        return effective_run(opened, read_run(opened, subject.run_id)).bind_to_store(store), subject.step
    version = resolve_model(f"models:/{subject.name}")
    run = effective_run(opened, read_run(opened, version.run_id)).bind_to_store(store)
    first = read_initial_checkpoints(opened, run) or {}
    # A version names members that did not learn in its step as they were at first.
    changed = {
        policy: digest
        for policy, digest in version.weights_digests.items()
        if policy not in first or first[policy].weights_digest != digest
    }
    wanted = changed or version.weights_digests

    def has_weights(team: Mapping[str, CheckpointRef]) -> bool:
        return all(policy in team and team[policy].weights_digest == digest for policy, digest in wanted.items())

    found = find_run_with(opened, run, version.step, has_weights)
    if found is None:
        raise ConfigurationError(
            f"models:/{subject.name}: version {version.version} has other weights than step {version.step} of run "
            f"{version.run_id} in {opened.uri}, or its files are gone; name another version, or the run"
        )
    return found, version.step
