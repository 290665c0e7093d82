"""Judges that several attacks share. None counts an attack as stopped unless the results show that it was tried."""

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


def expect_refused(*names: str, by: Collection[str] | None = None, ended: Collection[ExecutionStatus] = ()) -> Judge:
    """The only program made every attempt in `names`, and none succeeded.

    `by` is the closed set of acceptable reasons: another error means that the attempt got deeper than it should.
    A program that ended with one of the statuses `ended` before it reported anything counts as stopped, too.
    """

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        (result,) = results
        told = report(result)
        if told is None:
            return Verdict(stopped=result.status in ended, by=ending(result))
        return all_refused(told, names, by)

    return judge


def all_refused(told: Report, names: Collection[str], by: Collection[str] | None = None) -> Verdict:
    """The verdict on one report."""
    missing = [name for name in names if name not in told.got and name not in told.refused]
    if missing:
        return Verdict(stopped=False, by=f"not tried: {', '.join(missing)}")
    if told.got:
        through = [f"{name} ({value[:80]})" for name, value in told.got.items()]
        return Verdict(stopped=False, by=f"got through: {_list(through)}")
    odd = {name: why for name, why in told.refused.items() if by is not None and why not in by}
    if odd:
        return Verdict(stopped=False, by="got too far: " + reasons(odd))
    return Verdict(stopped=True, by=reasons(told.refused))


def expect_ended(*statuses: ExecutionStatus, within_seconds: float, within_cpu_seconds: float = math.inf) -> Judge:
    """Every program ended with one of `statuses` (any limit when none is given), within these wall and CPU seconds."""
    allowed = frozenset(statuses) or ENDED

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        in_time = all(
            result.wall_seconds <= within_seconds and result.cpu_seconds <= within_cpu_seconds for result in results
        )
        by = "; ".join(ending(result) for result in results)
        return Verdict(stopped=in_time and all(result.status in allowed for result in results), by=by)

    return judge


def nothing_left(*names: str) -> Judge:
    """Every look made every attempt in `names` and found nothing that the first job left, in its own box or in a new one."""

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        planted, *looks = results
        first, found = report(planted), [report(look) for look in looks]
        verdicts = [
            Verdict(stopped=False, by=ending(look)) if told is None else all_refused(told, names)
            for look, told in zip(looks, found, strict=True)
        ]
        failed = [verdict for verdict in verdicts if not verdict.stopped]
        if failed or not verdicts:
            return failed[0] if failed else Verdict(stopped=False, by="nobody looked")
        if first is None:
            how = "" if planted.status == "ok" else f"{ending(planted)}; "
            return Verdict(stopped=True, by=f"{how}nothing left: {verdicts[0].by}")
        if first.refused and not first.got:
            return Verdict(stopped=True, by=f"at the start: {reasons(first.refused)}")
        return Verdict(stopped=True, by=f"{where(first, found)}, nothing left: {verdicts[0].by}")

    return judge


def where(first: Report, found: Collection[Report | None]) -> str:
    """Whether one of the reports `found` comes from the box of the first one, in words."""
    met = any(each is not None and each.box == first.box for each in found)
    return "the same box" if met else "its box was replaced"


def heard(*names: str) -> Judge:
    """Of two concurrent programs, the second listened while the first spoke, and every attempt in `names` was refused."""

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        speaking, listening = results
        told = report(listening)
        if told is None or report(speaking) is None:
            return Verdict(stopped=False, by=f"{ending(speaking)}; {ending(listening)}")
        return all_refused(told, names)

    return judge


def expect_undisturbed(*works: str, hog_tells: Collection[str] = ()) -> Judge:
    """Of two concurrent programs, the first used up what it could, and the second did each of `works`.

    `hog_tells` are notices that the first one must have made at its end.
    """

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        hog, neighbour = results
        used, told = report(hog), report(neighbour)
        notices = used.refused if used else {}
        if told is None or neighbour.status != "ok" or not notices.keys() >= set(hog_tells):
            return Verdict(stopped=False, by=f"the hog: {ending(hog)}; the neighbour: {ending(neighbour)}")
        held = told.got.keys() == set(works) and not told.refused
        by = f"did {', '.join(told.got)} in {neighbour.wall_seconds:.1f} s, was refused {', '.join(told.refused) or 'nothing'}"
        return Verdict(stopped=held, by=f"the neighbour {by}; the hog: {', '.join(notices.values()) or ending(hog)}")

    return judge


def exits_as(code: int, *, within_seconds: float = math.inf, stdout: str = "") -> Judge:
    """The reported exit code is the program's own, in this time, and `stdout` is part of its output."""

    def check(result: ExecutionResult) -> bool:
        is_true = result.status == "nonzero_exit" and result.exit_code == code
        return is_true and result.wall_seconds <= within_seconds and stdout in result.stdout

    return comes_back(check)


def comes_back(check: Callable[[ExecutionResult], bool]) -> Judge:
    """The result of the only program passes `check`."""

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        (result,) = results
        sizes = f"{len(result.stdout)} characters of output, {len(result.stderr)} of errors, {len(result.files)} files"
        return Verdict(stopped=check(result), by=f"{ending(result)}; came back: {sizes}")

    return judge


def reasons(refused_because: Mapping[str, str]) -> str:
    """The reasons of refusals, and what each one refused, in one line.

    **Example** `{"mount": "EPERM", "setns": "EPERM", "bpf": "ENOSYS", "key": "none", "size": "3 MiB"}` is
    "EPERM: mount, setns; ENOSYS: bpf; none: key; size: 3 MiB".
    """
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, why in refused_because.items():
        names[why].append(name)
    listed = {why: _list(found) for why, found in names.items()}
    return "; ".join(f"{why}: {each}" if why.isidentifier() else f"{each}: {why}" for why, each in listed.items())


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:LONGEST_LIST])
    return shown if len(names) <= LONGEST_LIST else f"{shown} and {len(names) - LONGEST_LIST} more"
