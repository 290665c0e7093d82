"""Runs recorded executions again, to check that the record is true.

A record comes from the host that played a shard, and the reward stage relies on it. A random sample is run again here, and
must give the same status, exit code, standard output and files; times and standard error may differ. Honest records can
differ, too:

- Results that depend on the machine (limits of wall and CPU time, memory, processes) are not sampled: a slower or busier host
  reports them honestly, and a program over a limit earns nothing.
- A program that differs is run again with four times the time, so that a slower machine here refutes nothing.
- A program with two different results here is not deterministic (it draws, reads a clock, prints an address): its record is
  counted as undecided, and stands.
- Only a program with the same other result in `NUM_ATTEMPTS` more runs refutes the record. A result of probability p is
  recorded and then refuted with probability p (1 - p)**21, which is at most 0.017.

The check changes no reward: it passes or raises.
"""

import hashlib
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from components.errors import RecordRefuted
from components.identity import canonical_json
from components.sandbox.base import Sandbox
from components.schema import Execution, ExecutionResult, Limits

NUM_ATTEMPTS = 20
_NUM_TIMEOUTS = 3
"""After this many timeouts at four times the time there are no more attempts: each takes long."""
_TIME_FACTOR = 4.0
_OF_THE_MACHINE = frozenset({"wall_timeout", "cpu_timeout", "memory", "process_limit"})
_TIMEOUTS = frozenset({"wall_timeout", "cpu_timeout"})
_SHOWN_CHARACTERS = 200

Recalled = Mapping[str, tuple[Execution, ExecutionResult]]
"""By the digest of the execution: the execution and its recorded result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCheck:
    """The counts of a check that refuted nothing."""

    num_confirmed: int
    num_undecided: int


def spot_check(
    recalled: Recalled, sandbox: Sandbox, *, limits: Limits, fraction: float, seed: int, title: str
) -> SpotCheck:
    """Run a sample of `recalled` again: `fraction` of what can be checked, rounded up, chosen by `seed`.

    `limits` are for executions without limits of their own; `title` names the record in errors. Raises RecordRefuted or
    SandboxUnavailable.

    **Example** Of 960 executions and a fraction of 0.05, 48 are run again; if a tenth is forged, the check misses it with
    probability 0.9**48 = 0.006.
    """
    keys = sorted(key for key, (_, recorded) in recalled.items() if recorded.status not in _OF_THE_MACHINE)
    sample = random.Random(seed).sample(keys, math.ceil(fraction * len(keys)))
    if not sample:
        return SpotCheck(num_confirmed=0, num_undecided=0)
    check = partial(_is_confirmed, sandbox=sandbox, limits=limits, title=title)
    with ThreadPoolExecutor(sandbox.description.num_boxes, thread_name_prefix="spot-check") as crew:
        confirmed = list(crew.map(lambda key: check(key, *recalled[key]), sample))
    return SpotCheck(num_confirmed=sum(confirmed), num_undecided=len(confirmed) - sum(confirmed))


def _is_confirmed(
    key: str, execution: Execution, recorded: ExecutionResult, *, sandbox: Sandbox, limits: Limits, title: str
) -> bool:
    """Whether the program gave the recorded result; False where that is undecided. Raises RecordRefuted."""
    usual = execution.limits_within(limits)
    patient = replace(
        usual, wall_seconds=_TIME_FACTOR * usual.wall_seconds, cpu_seconds=_TIME_FACTOR * usual.cpu_seconds
    )

    def again(allowed: Limits) -> ExecutionResult:
        return sandbox.run(
            execution.program, stdin=execution.stdin, files=execution.files, outputs=execution.outputs, limits=allowed
        )

    if _end(again(usual)) == _end(recorded):
        return True
    ends: Counter[str] = Counter()
    newest = recorded
    for _ in range(NUM_ATTEMPTS):
        newest = again(patient)
        if newest.status == "sandbox_error":
            return False
        if _end(newest) == _end(recorded):
            return True
        ends[_end(newest)] += 1
        if len(ends) > 1:
            return False
        if newest.status in _TIMEOUTS and ends.total() == _NUM_TIMEOUTS:
            break
    digest = hashlib.sha256(execution.program.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    raise RecordRefuted(
        f"{title}: program {digest} (execution {key}) is recorded as {_describe(recorded)}, and ended {ends.total()} times of "
        f"{ends.total()} here as {_describe(newest)}; the host that played the shard is faulty or hostile: play the step again "
        "without it, as `troupe resume RUN --from-stage collect_rollouts --step STEP`"
    )


def _end(result: ExecutionResult) -> str:
    """A digest of what must be the same on every host. The part of an output over the limit that was kept may differ."""
    if result.status in _TIMEOUTS:
        return "timeout"
    if result.status == "output_limit":
        return result.status
    parts: Sequence[object] = (result.status, result.exit_code, result.stdout, dict(result.files))
    return hashlib.sha256(canonical_json(list(parts))).hexdigest()


def _describe(result: ExecutionResult) -> str:
    stdout = result.stdout if len(result.stdout) <= _SHOWN_CHARACTERS else f"{result.stdout[:_SHOWN_CHARACTERS]}..."
    return f"{result.status}, exit code {result.exit_code}, stdout {stdout!r}"
