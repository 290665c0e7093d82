"""How many programs per second the sandbox runs, beside one `docker run` each, and whether hostile ones disturb the others.

    python -m benchmarks.sandbox [--backend docker] [--repeats 3] [--seconds 2] [--jobs 600]
        [--one-shots 12] [--json]

A tiny job reads numbers, adds them up and prints the sum; each has numbers of its own and each answer is checked. The rates
are medians over the repeats, whose concurrencies take turns; p95 is over all jobs of all repeats. One-shot is `docker run --rm`
of the same image with the same limits, one after the other. The mixed load is jobs of which one in twenty is hostile.
Exit code 1 when an answer is wrong, a box is left or a floor is missed.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import psutil

from components.machine.process_ids import this_process
from components.sandbox.backends import open_sandbox
from components.sandbox.base import Sandbox
from components.sandbox.box import BOX_UID, BoxLimits
from components.sandbox.container_config import container_config
from components.sandbox.daemon import running_daemon
from components.sandbox.docker_api import DockerApi
from components.sandbox.reaper import OWNER_LABEL
from components.schema import ExecutionResult, Limits
from troupe.diagnostics.sandbox import docker_host, state_folder

CONCURRENCIES = (1, 2, 4, 8)
FLOOR_JOBS_PER_SECOND = {1: 200.0, 2: 350.0}
FLOOR_RATIO = 20.0
MIXED_CONCURRENCY = 4
SUM = "print(sum(map(int, input().split())))"
MIXED_LIMITS = Limits(wall_seconds=10.0, cpu_seconds=1.0, memory_mib=128)
HOSTILE = {
    "fork bomb": "import os\nwhile True: os.fork()",
    "memory": "hoard = []\nwhile True: hoard.append(bytearray(1 << 24))",
    "endless": "while True: pass",
    "flood": "while True: print('x' * 4096)",
    "daemons": "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        os.setsid(); time.sleep(60)\n",
    "disk": "file = open('/tmp/full', 'wb')\nwhile True: file.write(bytes(1 << 20))",
    "kills": "import os\nos.kill(1, 9); os.kill(-1, 9)",
}


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Tiny jobs at one concurrency."""

    concurrency: int
    jobs_per_second: float
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """How the mixed load ended."""

    num_jobs: int
    num_hostile: int
    num_wrong: int
    num_unrun: int
    jobs_per_second: float
    hostile_ends: dict[str, int]


def main() -> None:
    """Measure, print, and judge."""
    arguments = parse_arguments()
    limits = BoxLimits.around(Limits())
    sandbox = open_sandbox(
        arguments.backend, state_folder=state_folder(), num_boxes=max(CONCURRENCIES), docker_host=docker_host()
    )
    try:
        description = sandbox.description
        rates = tiny_rates(sandbox, repeats=arguments.repeats, seconds=arguments.seconds)
        one_shot = one_shots_per_second(limits, arguments.one_shots) if description.backend == "docker" else None
        mixed = run_mixed_load(sandbox, arguments.jobs)
    finally:
        sandbox.close()
    left = boxes_left()
    document = {
        "backend": description.backend,
        "image_digest": description.image_digest,
        "num_boxes": description.num_boxes,
        "rates": [asdict(rate) for rate in rates],
        "one_shot_per_second": one_shot,
        "mixed": asdict(mixed),
        "left": left,
    }
    failures = find_failures(rates, one_shot, mixed, left)
    print(
        json.dumps(document, indent=2)
        if arguments.json
        else describe_results(description.backend, rates, one_shot, mixed, left)
    )
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=("docker", "bubblewrap"), default="docker")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--jobs", type=int, default=600, help="of the mixed load")
    parser.add_argument("--one-shots", type=int, default=12, help="runs of `docker run`")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def tiny_rates(sandbox: Sandbox, *, repeats: int, seconds: float) -> list[Rate]:
    """The rates by concurrency. Raises AssertionError for a wrong answer."""
    with ThreadPoolExecutor(max(CONCURRENCIES)) as threads:  # every box has then served
        list(threads.map(lambda _: check_sum(sandbox, [1, 2]), range(4 * max(CONCURRENCIES))))
    per_second: dict[int, list[float]] = {concurrency: [] for concurrency in CONCURRENCIES}
    latencies: dict[int, list[float]] = {concurrency: [] for concurrency in CONCURRENCIES}
    for repeat in range(repeats):
        for concurrency in CONCURRENCIES:
            started = time.perf_counter()
            taken = serve_jobs(sandbox, concurrency, until=started + seconds, seed=repeat)
            per_second[concurrency].append(len(taken) / (time.perf_counter() - started))
            latencies[concurrency] += taken
    return [
        Rate(
            concurrency=concurrency,
            jobs_per_second=statistics.median(per_second[concurrency]),
            p50_ms=1e3 * statistics.median(latencies[concurrency]),
            p95_ms=1e3
            * (statistics.quantiles(taken, n=20)[-1] if len(taken := latencies[concurrency]) > 1 else taken[0]),
        )
        for concurrency in CONCURRENCIES
    ]


def serve_jobs(sandbox: Sandbox, concurrency: int, *, until: float, seed: int) -> list[float]:
    """Seconds that each job took, of as many as `concurrency` callers got answered until then."""
    taken: list[float] = []
    failures: list[BaseException] = []

    def call(caller: int) -> None:
        rng = random.Random(f"{seed} {concurrency} {caller}")
        try:
            while time.perf_counter() < until:
                numbers = [rng.randrange(1000) for _ in range(5)]
                started = time.perf_counter()
                check_sum(sandbox, numbers)
                taken.append(time.perf_counter() - started)
        except BaseException as failure:
            failures.append(failure)

    callers = [threading.Thread(target=call, args=(caller,)) for caller in range(concurrency)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    if failures:
        raise failures[0]
    return taken


def check_sum(sandbox: Sandbox, numbers: Sequence[int]) -> None:
    result = sandbox.run(SUM, stdin=" ".join(map(str, numbers)) + "\n")
    assert (result.status, result.stdout) == ("ok", f"{sum(numbers)}\n"), result


def one_shots_per_second(limits: BoxLimits, num_one_shots: int) -> float:
    """The same job in a container of its own each time, by Docker's own command."""
    daemon = running_daemon(state_folder(), docker_host())
    command = shutil.which("docker")
    assert daemon is not None, "the pool's daemon runs"
    if command is None:
        sys.exit("one-shot `docker run` needs Docker's command: `apt-get install -y docker.io` (or docker-cli)")
    host = container_config("", limits=limits, labels={})["HostConfig"]
    image = subprocess.run(
        [command, "-H", daemon.host, "images", "-q", "troupe-sandbox"],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    ).stdout.split()[0]
    argv = [command, "-H", daemon.host, "run", "--rm", "-i", "--network", "none", "--read-only", "--cap-drop", "ALL"]
    argv += ["--security-opt", "no-new-privileges:true", "--user", f"{BOX_UID}:{BOX_UID}", "--ipc", "none"]
    argv += ["--memory", str(host["Memory"]), "--memory-swap", str(host["MemorySwap"])]
    argv += ["--pids-limit", str(host["PidsLimit"]), "--cpus", str(limits.num_cpus)]
    argv += ["--tmpfs", f"/tmp:{host['Tmpfs']['/tmp']}", "--entrypoint", "/usr/bin/python3", image, "-c", SUM]
    seconds = []
    for number in range(num_one_shots):
        started = time.perf_counter()
        ended = subprocess.run(
            argv, input=f"{number} 2\n", capture_output=True, text=True, check=True, timeout=60, encoding="utf-8"
        )
        seconds.append(time.perf_counter() - started)
        assert ended.stdout == f"{number + 2}\n", ended
    return 1.0 / statistics.median(seconds)


def run_mixed_load(sandbox: Sandbox, num_jobs: int) -> Mixed:
    """Good jobs with known answers among hostile programs of every kind."""
    rng = random.Random(0)
    num_hostile = num_jobs // 20
    kinds = [list(HOSTILE)[index % len(HOSTILE)] for index in range(num_hostile)]
    jobs: list[str | None] = [*kinds, *[None] * (num_jobs - num_hostile)]
    rng.shuffle(jobs)
    ends: Counter[str] = Counter()
    num_wrong = num_unrun = 0
    started = time.perf_counter()
    with ThreadPoolExecutor(MIXED_CONCURRENCY) as threads:
        results = threads.map(lambda numbered: one_of_mixed(sandbox, *numbered), enumerate(jobs))
        for kind, (right, result) in zip(jobs, results, strict=True):
            num_unrun += result.status == "sandbox_error"
            if kind is None:
                num_wrong += not right
            else:
                ends[f"{kind}: {result.status}"] += 1
    return Mixed(
        num_jobs=num_jobs,
        num_hostile=num_hostile,
        num_wrong=num_wrong,
        num_unrun=num_unrun,
        jobs_per_second=num_jobs / (time.perf_counter() - started),
        hostile_ends=dict(sorted(ends.items())),
    )


def one_of_mixed(sandbox: Sandbox, number: int, kind: str | None) -> tuple[bool, ExecutionResult]:
    """Whether the answer is right, and the result."""
    if kind is not None:
        return True, sandbox.run(HOSTILE[kind], limits=MIXED_LIMITS)
    result = sandbox.run(SUM, stdin=f"{number} {number * number}\n", limits=MIXED_LIMITS)
    return (result.status, result.stdout) == ("ok", f"{number + number * number}\n"), result


def boxes_left() -> list[str]:
    """Containers and namespaces of this process, once its pool is closed."""
    left = [f"process {child.pid}" for child in psutil.Process().children(recursive=True) if child.name() == "bwrap"]
    daemon = running_daemon(state_folder(), docker_host())
    if daemon is not None:
        ours = {"label": f"{OWNER_LABEL}={this_process()}"}
        with DockerApi(daemon.host) as api, api.call("containers cannot be listed") as docker:
            left += [f"container {found['Id'][:12]}" for found in docker.containers(all=True, filters=ours)]
    return left


def find_failures(rates: Sequence[Rate], one_shot: float | None, mixed: Mixed, left: Sequence[str]) -> list[str]:
    """What is not as it must be. The floors are those of Docker on two cores."""
    failures = [f"{mixed.num_wrong} wrong answers"] if mixed.num_wrong else []
    failures += [f"{mixed.num_unrun} jobs at which the sandbox failed"] if mixed.num_unrun else []
    failures += [f"left: {', '.join(left)}"] if left else []
    for rate in rates:
        floor = FLOOR_JOBS_PER_SECOND.get(rate.concurrency, 0.0)
        if rate.jobs_per_second < floor:
            failures.append(f"{rate.jobs_per_second:.0f} jobs/s at {rate.concurrency}, below {floor:g}")
    if one_shot is not None and rates[0].jobs_per_second < FLOOR_RATIO * one_shot:
        failures.append(f"{rates[0].jobs_per_second / one_shot:.1f} times one-shot, below {FLOOR_RATIO:g}")
    return failures


def describe_results(
    backend: str, rates: Sequence[Rate], one_shot: float | None, mixed: Mixed, left: Sequence[str]
) -> str:
    """The numbers for people."""
    lines = [f"{backend}: tiny jobs", "  at once   jobs/s   p50 ms   p95 ms"]
    lines += [
        f"  {rate.concurrency:7d} {rate.jobs_per_second:8.0f} {rate.p50_ms:8.1f} {rate.p95_ms:8.1f}" for rate in rates
    ]
    if one_shot is not None:
        lines.append(
            f"one-shot `docker run`: {one_shot:.2f} jobs/s; {rates[0].jobs_per_second / one_shot:.0f} times at 1"
        )
    lines.append(
        f"{mixed.num_jobs} mixed jobs, {mixed.num_hostile} hostile, {MIXED_CONCURRENCY} at once: {mixed.num_wrong} wrong, "
        f"{mixed.num_unrun} not run, {mixed.jobs_per_second:.0f} jobs/s"
    )
    lines += [f"  {count:3d} {end}" for end, count in mixed.hostile_ends.items()]
    lines.append(f"boxes left: {len(left)}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
