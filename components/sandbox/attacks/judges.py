"""Judges that several attacks share. Each makes a `Judge`; none calls an attack stopped that did not show itself tried."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from components.sandbox.attacks.base import Judge, Report, Verdict, ending, report
from components.schema import ExecutionResult, ExecutionStatus

ENDED: frozenset[ExecutionStatus] = frozenset(
    {"wall_timeout", "cpu_timeout", "memory", "output_limit", "process_limit"}
)
GRACE_SECONDS = 2.0
"""How much later than its limit a program may end: cores are shared, and a box full of processes is slow to empty."""
LONGEST_LIST = 6


def refused(*names: str, by: Collection[str] | None = None, ended: Collection[ExecutionStatus] = ()) -> Judge:
    """The only program made every attempt in `names` and none got through.

    `by` closes the set of reasons that count: an error from deeper in means that the attempt got deeper than it should.
    Ending with one of the statuses `ended` before telling anything counts as well.
    """

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        (result,) = results
        told = report(result)
        if told is None:
            return Verdict(stopped=result.status in ended, by=ending(result))
        return all_refused(told, names, by)

    return judge


def all_refused(told: Report, names: Collection[str], by: Collection[str] | None = None) -> Verdict:
    """The verdict over one report."""
    missing = [name for name in names if name not in told.got and name not in told.refused]
    if missing:
        return Verdict(stopped=False, by=f"not tried: {', '.join(missing)}")
    if told.got:
        through = [f"{name} ({value[:80]})" for name, value in told.got.items()]
        return Verdict(stopped=False, by=f"got through: {_listed(through)}")
    odd = {name: why for name, why in told.refused.items() if by is not None and why not in by}
    if odd:
        return Verdict(stopped=False, by="got too far: " + reasons(odd))
    return Verdict(stopped=True, by=reasons(told.refused))


def ended(*statuses: ExecutionStatus, within_seconds: float, within_cpu_seconds: float = math.inf) -> Judge:
    """Every program was ended with one of `statuses` (any limit when none is given), within these wall and CPU seconds."""
    allowed = frozenset(statuses) or ENDED

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        in_time = all(
            result.wall_seconds <= within_seconds and result.cpu_seconds <= within_cpu_seconds for result in results
        )
        by = "; ".join(ending(result) for result in results)
        return Verdict(stopped=in_time and all(result.status in allowed for result in results), by=by)

    return judge


def nothing_left(*names: str) -> Judge:
    """The job left nothing that a look in any box could find under `names`, whether the box is the same one or a new one."""

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        planted, *looks = results
        first, found = report(planted), [report(look) for look in looks]
        verdicts = [Verdict(stopped=False, by=ending(looks[i])) if each is None else all_refused(each, names)
                    for i, each in enumerate(found)]  # fmt: skip
        failed = [verdict for verdict in verdicts if not verdict.stopped]
        if failed or not verdicts:
            return failed[0] if failed else Verdict(stopped=False, by="nobody looked")
        if first is None:
            how = "" if planted.status == "ok" else f"{ending(planted)}; "
            return Verdict(stopped=True, by=f"{how}nothing left: {verdicts[0].by}")
        if first.refused and not first.got:
            return Verdict(stopped=True, by=f"at the start: {reasons(first.refused)}")
        met = any(each is not None and each.box == first.box for each in found)
        where = "the same box" if met else "its box was replaced"
        return Verdict(stopped=True, by=f"{where}, nothing left: {verdicts[0].by}")

    return judge


def heard(*names: str) -> Judge:
    """Of two programs at once, the second one, which listened while the first one spoke, heard nothing."""

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        speaking, listening = results
        told = report(listening)
        if told is None or report(speaking) is None:
            return Verdict(stopped=False, by=f"{ending(speaking)}; {ending(listening)}")
        return all_refused(told, names)

    return judge


def exits_as(code: int, *, by: str) -> Judge:
    """The program's own exit code was reported, whatever it did to forge another one."""

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        (result,) = results
        true = result.status == "nonzero_exit" and result.exit_code == code
        return Verdict(stopped=true, by=by if true else f"reported {ending(result)}, in truth exit code {code}")

    return judge


def judged_by(check: Callable[[ExecutionResult], Verdict]) -> Judge:
    """A judge of a single program."""

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        (result,) = results
        return check(result)

    return judge


def reasons(refused_because: Mapping[str, str]) -> str:
    """What refused what, in one line.

    **Example** `{"mount": "EPERM", "setns": "EPERM", "bpf": "ENOSYS", "key": "none", "size": "3 MiB"}` is
    "EPERM: mount, setns; ENOSYS: bpf; none: key; size: 3 MiB".
    """
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, why in refused_because.items():
        names[why].append(name)
    return "; ".join(_clause(why, _listed(found)) for why, found in names.items())


def _clause(why: str, names: str) -> str:
    return f"{why}: {names}" if why.isidentifier() else f"{names}: {why}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:LONGEST_LIST])
    return shown if len(names) <= LONGEST_LIST else f"{shown} and {len(names) - LONGEST_LIST} more"
