"""`troupe view`: the rollouts of a step, as a document and as a page."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from components.artifacts.base import ArtifactStore
from components.errors import ArtifactCorrupt, ConfigurationError
from components.runs.session_records import effective_run
from components.runs.stored_runs import read_run
from components.session.prompt_texts import prompt_texts
from components.text.escaping import printable
from components.text.suggestions import did_you_mean
from troupe.viewing.documents import TAGS, step_document
from troupe.viewing.hybrid import hybrid_document
from troupe.viewing.hybrid_page import hybrid_page
from troupe.viewing.page import view_page
from troupe.viewing.recorded import RecordedStep, read_recorded
from troupe.viewing.tool_results import program_runs

PlayedBy = Callable[[RecordedStep, int], RecordedStep]
"""The problems of a step as played by the weights after so many updates."""


def view_document(
    store: ArtifactStore,
    run_id: str,
    *,
    step: int | None = None,
    problem: str | None = None,
    against: int | None = None,
    play: PlayedBy | None = None,
) -> dict[str, Any]:
    """What the page shows, as plain JSON: the episodes of `step` (None: the newest), only those of `problem` if it is given,
    and beside them those of the step `against` on the same problems: the recorded ones, or what `play` makes of them. Of a
    hybrid run, its course and games: see `hybrid_document`.

    Raises ConfigurationError for an unknown run, step or problem, and if the two steps share no problem; ArtifactCorrupt if
    nothing of the step can be read.
    """
    run = effective_run(store, read_run(store, run_id))
    if not run.config.method.writes_answers:
        if problem is not None or against is not None:
            raise ConfigurationError(
                f"run {run_id!r} played games, whose problems are seeds: leave out --problem and --against"
            )
        return hybrid_document(store, run, step=step)
    recorded = read_recorded(store, run_id, step)
    if not recorded.episodes:
        reason = "; ".join(recorded.notes) or "no shard has an episode"
        raise ArtifactCorrupt(f"step {recorded.step} of run {run_id!r} shows nothing: {reason}")
    known = _problems(recorded)
    if problem is not None and problem not in known:
        nearest = did_you_mean(problem, known, cutoff=0.6).rstrip() or f"it has {len(known)}, as {next(iter(known))}"
        raise ConfigurationError(f"--problem {problem!r}: not in step {recorded.step} of run {run_id!r}; {nearest}")
    other = None
    if against is not None:
        other = read_recorded(store, run_id, against) if play is None else play(recorded, against)
        _check_shared(recorded, other)
    return {
        "run_id": run_id,
        "preset": printable(recorded.config.preset or "", keep=""),
        "environment": printable(recorded.config.environment.name, keep=""),
        "store": store.uri,
        "tags": [tag for tag in TAGS if tag not in _foreign_tags(recorded)],
        "main": _document(store, recorded, problem),
        "against": None if other is None else _document(store, other, problem),
    }


def is_of_games(document: Mapping[str, Any]) -> bool:
    """Whether the document is that of a hybrid run."""
    return document.get("kind") == "hybrid"


def write_page(document: Mapping[str, Any], file: Path) -> None:
    """Write the page. Raises ConfigurationError if the file cannot be written."""
    try:
        file.write_text(hybrid_page(document) if is_of_games(document) else view_page(document), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"--to {str(file)!r}: {error.strerror}; name a file in a folder that exists"
        ) from error


def _document(store: ArtifactStore, recorded: RecordedStep, problem: str | None) -> dict[str, Any]:
    prompts, prompt_notes = prompt_texts(store, recorded.run, recorded.step, recorded.config.policies)
    runs, run_notes = program_runs(recorded)
    return step_document(recorded, prompts, runs=runs, notes=(*prompt_notes, *run_notes), problem=problem)


def _foreign_tags(recorded: RecordedStep) -> tuple[str, ...]:
    """The tags that no episode of such a run can have."""
    return ("past self",) if not recorded.config.method.learns_from_credits else ("repaired", "spoiled")


def _check_shared(recorded: RecordedStep, other: RecordedStep) -> None:
    if not _problems(recorded) & _problems(other):
        raise ConfigurationError(
            f"--against {other.step}: no problem of step {recorded.step} is among those of step {other.step}; each step draws "
            "fresh problems until those of its environment are used up; add --play to play them with the weights of that step"
        )


def _problems(recorded: RecordedStep) -> set[str]:
    return {each.episode.problem.problem_id for each in recorded.episodes}
