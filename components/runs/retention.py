"""Retention of checkpoints and rollouts: which have expired, by the keys in a store and the results of evaluations."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from components.config import RetentionConfig
from components.frozen import Frozen
from components.runs.step_records import RESULT
from components.stage_roles import Retention, Roles

FEWEST_KEPT = 2


class Collected(Frozen):
    """What one garbage collection removed of a run: the keys of manifests of checkpoints."""

    manifests: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """An evaluation of the weights after `step` updates; `success_rate` is None if its report is unknown."""

    step: int
    what: tuple[str, ...] = ()
    """Compared are evaluations of the same: suite and way of sampling."""
    success_rate: float | None = None


def list_expired_updates(
    keys: Iterable[str],
    *,
    retention: Callable[[str], RetentionConfig],
    evaluations: Mapping[str, Iterable[Evaluated]],
    restarts: Mapping[str, Iterable[int]],
    needed: Mapping[tuple[str, int], Iterable[int]] = MappingProxyType({}),
    roles: Callable[[str], Roles] = lambda run_id: Roles(),
) -> frozenset[str]:
    """The manifests of updates, and of what a population made of them, whose checkpoints may be removed.

    `retention`, `evaluations`, `restarts` (from_steps) and `roles` are by run_id; `needed`, by run_id and step, are the steps
    before which policies must be known to go on after that step: those of past selves and of references. Of each policy in each
    lineage the newest are kept, and at least two, because an iteration that is interrupted after its update restarts from the
    weights before it; also those that `retention` names, those that a restart begins with, and what a kept step needs. The
    policy before training has no update and is kept.

    **Example** updates at steps 0 to 9, newest 2, an evaluation at step 5 (of the weights after 5 updates, written by the
    update at step 4): steps 0 to 7 except 4 are returned; with `every` 3, the updates at steps 2 and 5 stay, too.
    """
    updates = [match for match in _match_expiring(keys, "checkpoints", roles) if match["name"] == "manifest.json"]
    kept = {run: retention(run) for run in {update["run"] for update in updates}}
    evaluated = {
        (run, step - 1)
        for run in kept
        for step in _find_kept_evaluations(evaluations.get(run, ()), kept[run].evaluated)
    }
    resumed = {(run, step) for run, steps in restarts.items() for start in steps for step in (start - 1, start)}
    steps_by_series: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for update in updates:
        steps_by_series[update.group("run", "stage", "part", "lineage")].add(int(update["step"]))
    newest = {
        series: set(sorted(steps)[-max(FEWEST_KEPT, kept[series[0]].newest) :])
        for series, steps in steps_by_series.items()
    }

    def is_named(update: re.Match[str]) -> bool:
        run, step = update["run"], int(update["step"])
        every, series = kept[run].every, update.group("run", "stage", "part", "lineage")
        return step in newest[series] or (run, step) in evaluated | resumed or bool(every and (step + 1) % every == 0)

    named = {update[0]: (update["run"], int(update["step"])) for update in updates if is_named(update)}
    wanted = {(run, step - 1) for run, after in named.values() for step in needed.get((run, after), ())}
    return frozenset(
        update[0] for update in updates if update[0] not in named and (update["run"], int(update["step"])) not in wanted
    )


def list_expired_rollouts(
    keys: Iterable[str],
    *,
    retention: Callable[[str], RetentionConfig],
    num_finished: Callable[[str], int],
    roles: Callable[[str], Roles] = lambda run_id: Roles(),
) -> frozenset[str]:
    """The records of rollouts, rewards and batches that may be removed.

    `retention`, `roles` and `num_finished`, the number of finished steps since the newest restart, are by run_id. A step that
    is not finished loses nothing: its resume reads what it has.

    **Example** 10 finished steps, rollouts 3: the records of steps 0 to 6, and none of steps 7 to 10.
    """
    found = list(_match_expiring(keys, "rollouts", roles))
    first_kept = {run: _first_kept(retention(run), num_finished, run) for run in {match["run"] for match in found}}
    return frozenset(match[0] for match in found if int(match["step"]) < first_kept[match["run"]])


def _match_expiring(
    keys: Iterable[str], retention: Retention, roles: Callable[[str], Roles]
) -> Iterator[re.Match[str]]:
    """The records of stages whose results expire with this."""
    known: dict[str, Roles] = {}
    for key in keys:
        if match := RESULT.fullmatch(key):
            run = match["run"]
            if run not in known:
                known[run] = roles(run)
            if known[run][match["stage"]].expires_with == retention:
                yield match


def _first_kept(retention: RetentionConfig, num_finished: Callable[[str], int], run: str) -> int:
    return 0 if retention.rollouts is None else num_finished(run) - retention.rollouts


def _find_kept_evaluations(evaluations: Iterable[Evaluated], which: str) -> set[int]:
    """The steps whose checkpoints an evaluation keeps. One without a known report keeps its own."""
    found = list(evaluations)
    best: dict[tuple[str, ...], float] = {}
    for each in found:
        if each.success_rate is not None:
            best[each.what] = max(each.success_rate, best.get(each.what, 0.0))
    return {
        each.step
        for each in found
        if which == "all" or each.success_rate is None or each.success_rate >= best[each.what]
    }
