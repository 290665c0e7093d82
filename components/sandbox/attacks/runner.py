"""Carries out attacks on a pool, each followed by a good job in every box."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from components.errors import ConfigurationError
from components.frozen import Frozen
from components.sandbox.attacks.base import Attack, Verdict, ending
from components.sandbox.base import Sandbox
from components.schema import Execution, ExecutionResult, Limits

GOOD_JOB = Execution(
    program="""
import json, math, time
count = int(input())
time.sleep(0.03)
with open("squares", "w") as file:
    json.dump([index * index for index in range(count)], file)
print(math.fsum(index * index for index in range(count)))
""",
    stdin="1000\n",
    outputs=("squares",),
    limits=Limits(wall_seconds=10.0, cpu_seconds=4.0),
)
GOOD_ANSWER = "332833500.0\n"
"""n (n - 1) (2n - 1) / 6 for n = 1000."""
MOST_LATE_SECONDS = 8.0
"""How much longer than its wall limit a job may take on a busy machine: less than in a frozen box."""


class AttackReport(Frozen):
    """The outcome of one attack. `next_job_ok` says whether a good job in every box gave the right answer afterwards."""

    name: str
    theme: str
    tries: str
    stopped: bool
    stopped_by: str
    next_job_ok: bool
    next_job: str
    seconds: float

    @property
    def held(self) -> bool:
        """Whether the attack was stopped and the pool works as before."""
        return self.stopped and self.next_job_ok


def carry_out(attack: Attack, sandbox: Sandbox) -> AttackReport:
    """Run an attack and the good jobs. Raises SandboxUnavailable when no box can be made."""
    started = time.monotonic()
    verdict = _verdict(attack, sandbox)
    answers = in_every_box(GOOD_JOB, sandbox)
    wrong = [answer for answer in answers if not _is_right(answer)]
    return AttackReport(
        name=attack.name,
        theme=attack.theme,
        tries=attack.tries,
        stopped=verdict.stopped,
        stopped_by=" ".join(verdict.by.split()),
        next_job_ok=not wrong,
        next_job=ending(wrong[0]) if wrong else "right",
        seconds=time.monotonic() - started,
    )


def in_every_box(job: Execution, sandbox: Sandbox) -> list[ExecutionResult]:
    """The results of the job, run once per box, all at once."""
    return _at_once([job] * sandbox.description.num_boxes, sandbox)


def _verdict(attack: Attack, sandbox: Sandbox) -> Verdict:
    try:
        jobs = attack.jobs
        started = time.monotonic()
        results = _at_once(jobs, sandbox) if attack.at_once else [_run(job, sandbox) for job in jobs]
        seconds = time.monotonic() - started
        if attack.look is not None:
            results += in_every_box(attack.look, sandbox)
    except ConfigurationError as error:
        return Verdict(stopped=True, by=f"refused before it ran: {error}")
    failed = [result for result in results if result.status == "sandbox_error"]
    if failed:
        # A program that breaks the sandbox escapes its reward: it cannot be scored.
        return Verdict(stopped=False, by=f"the sandbox failed at it: {failed[0].detail}")
    if seconds > _most_seconds(attack):
        return Verdict(stopped=False, by=f"it held a box for {seconds:.1f} s; {ending(results[0])}")
    return attack.judge(results)


def _most_seconds(attack: Attack) -> float:
    """The most seconds that its jobs may take in all."""
    walls = [job.limits_within(Limits()).wall_seconds + MOST_LATE_SECONDS for job in attack.jobs]
    return max(walls) if attack.at_once else sum(walls)


def _at_once(jobs: Sequence[Execution], sandbox: Sandbox) -> list[ExecutionResult]:
    with ThreadPoolExecutor(max_workers=len(jobs)) as threads:
        return list(threads.map(lambda job: _run(job, sandbox), jobs))


def _run(job: Execution, sandbox: Sandbox) -> ExecutionResult:
    return sandbox.run(
        job.program, stdin=job.stdin, files=job.files, outputs=job.outputs, limits=job.limits_within(Limits())
    )


def _is_right(answer: ExecutionResult) -> bool:
    squares = answer.files.get("squares", "")
    return (answer.status, answer.stdout) == ("ok", GOOD_ANSWER) and squares.endswith(" 998001]")
