"""Retention of checkpoints: which have expired, by the keys in a store."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

_UPDATE = re.compile(
    r"runs/(?P<run>[^/]+)/steps/(?P<step>\d+)/update_policy-v\d+/(?P<part>[^/]+)/l(?P<lineage>\d+)-[^/]+/manifest\.json"
)
_EVALUATION = re.compile(r"runs/(?P<run>[^/]+)/steps/(?P<step>\d+)/evaluate_policy-v.*/manifest\.json")

_FEWEST_KEPT = 2


def expired_updates(
    keys: Iterable[str], *, keep_checkpoints: int, restarts: Mapping[str, Iterable[int]]
) -> frozenset[str]:
    """The manifests of `update_policy` whose checkpoints may be removed.

    Of each policy in each lineage of a run the newest `keep_checkpoints` are kept, and at least two, because an iteration that
    is interrupted after its update restarts from the weights before it. Evaluated checkpoints are kept too, and those that a
    restart (`restarts`: run_id -> from_steps) begins with. The policy before training has no update and is kept.

    **Example** updates at steps 0 to 9, keep_checkpoints 2, an evaluation at step 5 (of the weights after 5 updates, written
    by the update at step 4): steps 0 to 7 except 4 are returned.
    """
    known = list(keys)
    updates = [match for key in known if (match := _UPDATE.fullmatch(key))]
    evaluated = {(m["run"], int(m["step"]) - 1) for key in known if (m := _EVALUATION.fullmatch(key))}
    resumed = {(run, step) for run, steps in restarts.items() for start in steps for step in (start - 1, start)}
    steps_by_series: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for update in updates:
        steps_by_series[update.group("run", "part", "lineage")].add(int(update["step"]))
    num_kept = max(_FEWEST_KEPT, keep_checkpoints)
    newest = {series: set(sorted(steps)[-num_kept:]) for series, steps in steps_by_series.items()}
    return frozenset(
        update[0]
        for update in updates
        if int(update["step"]) not in newest[update.group("run", "part", "lineage")]
        and (update["run"], int(update["step"])) not in evaluated | resumed
    )
