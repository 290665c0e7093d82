"""How long a person waits for what a store says of a long run: `troupe show`, `troupe runs`, `troupe gc --dry-run`.

The work of the run is made up; its records are committed by the functions that a real run uses. The S3 server is the local one.

    python -m benchmarks.reading [--steps 1000] [--every 10] [--stores local s3] [--repeats 2]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from components.artifacts.base import ArtifactStore
from components.artifacts.local import LocalArtifactStore
from components.artifacts.s3 import S3ArtifactStore
from components.runs.history import STEPS_PER_BLOCK
from components.runs.session_records import begin_session, end_session
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.committed_runs import commit_evaluation, commit_step, started_run
from tests.components.artifacts.weed_server import ACCESS_KEY, BUCKET, SECRET_KEY, WeedServer

COMMANDS = (("show", "long"), ("show", "long", "--json"), ("runs",), ("gc", "--dry-run", "--grace-hours", "0"))


def main() -> None:
    """Build each store once, then time each command in a process of its own, as a person runs it."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="reading-") as name:
        for kind in arguments.stores:
            with _store(kind, Path(name)) as (store, uri, variables):
                started = time.monotonic()
                commit_run(store, num_steps=arguments.steps, every=arguments.every)
                num_objects = sum(1 for _ in store.list(""))
                print(
                    f"{kind}: {num_objects:,} objects of {arguments.steps:,} steps in {time.monotonic() - started:.0f} s"
                )
                for command in COMMANDS:
                    wall, used = seconds_of(command, uri, variables, repeats=arguments.repeats)
                    print(
                        f"{kind}: troupe {' '.join(command):38} {wall:6.2f} s, {used:5.2f} s of a processor", flush=True
                    )


def commit_run(store: ArtifactStore, *, num_steps: int, every: int) -> None:
    """A run of `num_steps` steps, evaluated twice at every `every`. Steps of a block are committed side by side."""
    run = started_run(store, "long", num_steps=num_steps)
    session = begin_session(store, run, PIPELINE)
    with ThreadPoolExecutor(max_workers=16) as pool:
        for first in range(0, num_steps, STEPS_PER_BLOCK):
            *ahead, last = range(first, min(first + STEPS_PER_BLOCK, num_steps))
            evaluated = [step for step in (*ahead, last) if step % every == 0]
            for sampling in ("sample", "greedy"):
                list(pool.map(partial(commit_evaluation, store, run, sampling=sampling), evaluated))
            list(pool.map(partial(commit_step, store, run), ahead))
            commit_step(store, run, last)
    end_session(store, run.run_id, session, None)


def seconds_of(command: tuple[str, ...], uri: str, variables: dict[str, str], *, repeats: int) -> tuple[float, float]:
    """(wall, processor) seconds of one command; the best of `repeats`. On a busy machine the second is what to compare."""
    program = [sys.executable, "-c", "from troupe.cli import main; main()", *command, "--store", uri]
    measured = []
    for _ in range(repeats):
        started, before = time.monotonic(), os.times()
        subprocess.run(program, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        measured.append((time.monotonic() - started, used))
    return min(measured)


@contextmanager
def _store(kind: str, folder: Path) -> Iterator[tuple[ArtifactStore, str, dict[str, str]]]:
    variables = {"TROUPE_HOME": str(folder / "home")}
    if kind == "local":
        (folder / "store").mkdir()
        yield LocalArtifactStore(folder / "store"), (folder / "store").as_uri(), variables
        return
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_EC2_METADATA_DISABLED": "true"}
    os.environ.update(keys)
    server = WeedServer(folder)
    server.spawn()
    try:
        server.wait_ready()
        variables |= {**keys, "AWS_ENDPOINT_URL_S3": server.endpoint_url}
        yield S3ArtifactStore(BUCKET, prefix="long", endpoint_url=server.endpoint_url), f"s3://{BUCKET}/long", variables
    finally:
        server.kill()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--every", type=int, default=10, help="steps between evaluations")
    parser.add_argument("--repeats", type=int, default=2, help="of each command")
    parser.add_argument("--stores", nargs="+", choices=("local", "s3"), default=("local", "s3"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
