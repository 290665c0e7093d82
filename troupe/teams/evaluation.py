"""The success rate of a subject on a suite."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from components.errors import ConfigurationError
from components.evaluation.subjects import (
    ModelSubject,
    RegisteredSubject,
    RoleMap,
    RunSubject,
    Subject,
    parse_subject,
    subjects_in,
)
from components.methods.open_subjects import ResultsStore
from components.runs.history import Progress
from components.runs.run import Run
from components.schema import EvalReport
from components.session.checkpoint_loading import check_model
from components.session.stores import s3_endpoint
from flows.suites import check_overrides, find_declared_suite, pick_played_overrides, suite_config
from infra.services.client import join_local_services
from troupe.runs.stores import open_named_store, store_config
from troupe.teams.run_team import check_sampling


def evaluate(
    subject: str,
    suite: str | None = None,
    *,
    num_problems: int | None = None,
    num_samples: int = 1,
    seed: int = 0,
    step: int | None = None,
    sampling: str = "greedy",
    overrides: Sequence[str] = (),
    store: str | None = None,
    progress: Progress = lambda done, total: None,
) -> EvalReport:
    """How often a subject succeeds on a suite.

    `subject`: a run as RUN or RUN@STEP, or RUN and `step` (default: all finished updates), a registered model as
    models:/NAME@ALIAS, a model's folder or hub name, openai:MODEL or anthropic:MODEL, "expert", "random", "noop", or a team of
    several as role=subject,role=subject. `suite` is the name of an environment or preset, then /test (default), /train or
    /train_check; None is a run's own, and a hybrid run plays no other. `seed` chooses the problems and the draws of answers,
    `num_samples` is how many answers each problem gets. What was played before is read from the store, not played again.
    `progress(done, total)` is called as problems are finished. Raises ConfigurationError.

    **Example**

    >>> report = evaluate("expert", "plan_path", num_problems=5)
    >>> report.success_rate, report.n, report.suite
    (1.0, 5, 'plan_path/test')
    """
    for name, value in (("num_problems", num_problems), ("num_samples", num_samples)):
        if value is not None and value < 1:
            raise ConfigurationError(f"{name} {value}: ask for at least 1")
    if step is not None:
        subject = _at_step(subject, step)
    draws, parsed = check_sampling(sampling), parse_subject(subject)
    if suite is None and not _has_run(parsed):
        raise ConfigurationError(
            f"--suite: name an environment, a preset or a file for {subject!r}, as --suite plan_path"
        )
    check_overrides(overrides, plays_here=True, may_play_games=_has_run(parsed))
    if suite is not None and isinstance(find_declared_suite(suite), str):
        suite_config(suite, pick_played_overrides(overrides))  # before what takes longer
    for each in subjects_in(parsed):
        if isinstance(each, ModelSubject):
            check_model(each.base)
    from flows.evaluate import evaluate_subject  # imports Prefect

    with results_store(parsed, store) as results:
        return evaluate_subject(
            subject,
            suite,
            sampling=draws,
            num_samples=num_samples,
            seed=seed,
            num_problems=num_problems,
            overrides=overrides,
            results=results,
            find_run=partial(_find_run, store),
            progress=progress,
        )


@contextmanager
def results_store(subject: Subject | RoleMap, uri: str | None) -> Iterator[ResultsStore]:
    """Where play is kept: in the store at `uri`, or that of the local services. A subject that needs neither, and one whose
    store takes no results, has a folder for the length of the block."""
    from flows.evaluate import open_results_store

    join_local_services()
    is_needed = uri is not None or _has_run(subject) or s3_endpoint() is not None
    if is_needed:
        open_named_store(uri)
    with open_results_store(store_config(uri) if is_needed else None) as store:
        yield store


def _has_run(subject: Subject | RoleMap) -> bool:
    return any(isinstance(each, RunSubject | RegisteredSubject) for each in subjects_in(subject))


def _at_step(subject: str, step: int) -> str:
    """**Example** "plan-path" and 100: "plan-path@100"."""
    parsed = parse_subject(subject)
    if not isinstance(parsed, RunSubject):
        raise ConfigurationError(f"--step {step}: only a run has steps, and {subject!r} is none; leave it out")
    if parsed.step is not None:
        raise ConfigurationError(f"--step {step}: {subject!r} names a step already; leave one of them out")
    return f"{subject}@{step}"


def _find_run(uri: str | None, subject: RunSubject | RegisteredSubject) -> tuple[Run, int | None]:
    from flows.evaluate import find_stored_run

    run_id = subject.run_id if isinstance(subject, RunSubject) else None
    open_named_store(uri, run_id)
    return find_stored_run(store_config(uri, run_id), subject)
