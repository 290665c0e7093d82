"""A process that has imported everything and forks one training for each line of standard input.

Importing torch, transformers and Prefect takes seconds; a test that kills forty trainings pays for it once. Nothing is
computed before the fork, so each child is a fresh process in all but its imports. Training workers that a child starts are
forked too, by the process behind the socket that is the only argument.
"""

import itertools
import json
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from uuid import UUID

from components.machine.gc_tuning import gc_paused

with gc_paused():
    import torch
    from prefect.flow_engine import load_flow_run, run_flow
    from prefect.logging.configuration import setup_logging
    from transformers import Qwen3ForCausalLM

    import components.models.loading
    import components.training.launcher
    import components.training.trainer
    import components.training.warm_start
    from benchmarks import training
    from components.artifacts.base import ArtifactStore
    from components.config import parse_config
    from components.generation.local.engine import TransformersGenerator
    from components.sandbox.base import Sandbox
    from components.session import publishing, session, toolbox
    from components.session.scenario import scenario_of
    from components.session.stores import open_store
    from flows.presets import preset_config
    from flows.train import flow_for, train
    from tests.forked_workers import forking
    from troupe.cli import main as run_troupe

IMPORTED = (torch, Qwen3ForCausalLM, TransformersGenerator, components.training)


def stop_here() -> None:
    """Stop this process before the calling thread does anything more.

    A signal to the process could be taken by another thread, and this one would go on for a moment.
    """
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


class StoppingStore:
    """A store whose process stops itself (SIGSTOP) once, at one moment, for somebody outside to kill it or let it go on.

    `moment` is "computed" (all payloads are there, the manifest is not) or "committed" (the manifest is there, nobody was
    told); `part` is a part of the manifest's key, with * for anything, as for the version of a stage.
    """

    def __init__(self, store: ArtifactStore, *, part: str, moment: str) -> None:
        self._store, self._part, self._moment, self._has_stopped = store, part, moment, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, key: str, content: bytes) -> bool:
        here = fnmatchcase(key, f"*{self._part}*/manifest.json") and not self._has_stopped
        self._has_stopped |= here
        if here and self._moment == "computed":
            stop_here()
        created = self._store.create(key, content)
        if here and self._moment == "committed":
            stop_here()
        return created


class StoppingAtCalls:
    """A store whose process stops itself when it records each of an agent's calls number `at`: before that ("computed") or
    after it ("committed"). No call is recorded twice."""

    def __init__(self, store: ArtifactStore, *, at: Sequence[int], moment: str) -> None:
        self._store, self._at, self._moment, self._recorded = store, at, moment, itertools.count(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, key: str, content: bytes) -> bool:
        if "/agents/" not in key:
            return self._store.create(key, content)
        here = next(self._recorded) in self._at
        if here and self._moment == "computed":
            stop_here()
        assert self._store.create(key, content), f"{key} was sampled twice"
        if here and self._moment == "committed":
            stop_here()
        return True


class StoppingSandbox:
    """A sandbox whose process stops itself when it is asked for its program number `at`, while others still run."""

    def __init__(self, sandbox: Sandbox, at: int) -> None:
        self._sandbox, self._at, self._asked = sandbox, at, itertools.count(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def run(self, program: str, **wanted: Any) -> Any:
        if next(self._asked) == self._at:
            stop_here()
        return self._sandbox.run(program, **wanted)


class WaitingStore:
    """A store whose run waits with its entries of `part` until `may_go_on`."""

    def __init__(self, store: ArtifactStore, part: str, may_go_on: threading.Event) -> None:
        self._store, self._part, self._may_go_on = store, part, may_go_on

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, key: str, content: bytes) -> bool:
        if self._part in key:
            assert self._may_go_on.wait(300), "nobody let this run go on"
        return self._store.create(key, content)


def run_beside(order: dict[str, Any], shorter: dict[str, Any]) -> None:
    """Train both at a time, each in a thread; the first goes on with its step 1 when the shorter one has ended."""
    shorter_ended = threading.Event()
    waiting_root = preset_config("tiny", order["overrides"]).store.root
    session.open_store = lambda config: (  # type: ignore[assignment]
        WaitingStore(open_store(config), "/steps/000001/", shorter_ended)
        if config.root == waiting_root
        else open_store(config)
    )

    def run_shorter() -> None:
        try:
            run(shorter)
        finally:
            shorter_ended.set()

    with ThreadPoolExecutor(2) as threads:
        for ended in [threads.submit(run, order), threads.submit(run_shorter)]:
            ended.result()


def run_benchmark(arguments: list[str], output: Path) -> None:
    """Run a module of `benchmarks` as `python -m` does, its services those of this process; what it says goes to a file.

    Raises SystemExit with the code that it ends with.
    """

    @contextmanager
    def running(home: Path | None = None, *, only: object = None) -> Iterator[Path]:
        yield home or output.parent

    training.services = running  # type: ignore[assignment]
    with output.open("wb") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    name, *sys.argv[1:] = arguments
    try:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
    finally:
        sys.stdout.flush()


def run_command(arguments: Sequence[str], folder: str, output: Sequence[str]) -> None:
    """Be `troupe`, or a Python program, in a folder: what it says goes to two files, and nothing is on standard input."""
    inputs = os.open(os.devnull, os.O_RDONLY)
    outputs = [os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for file in output]
    for number, file in enumerate((inputs, *outputs)):
        os.dup2(file, number)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"  # as a command says before it imports Prefect
    setup_logging()
    program, *_ = sys.argv[1:] = arguments
    if program.endswith(".py"):
        sys.argv[:1] = []
        runpy.run_path(program, run_name="__main__")
    else:
        sys.path.insert(1, "")
        run_troupe()


def run(order: dict[str, Any]) -> None:
    """Run the ordered command, or train as ordered and write the summary."""
    if benchmark := order.get("benchmark"):
        run_benchmark(benchmark, Path(order["output"]))
        return
    if shorter := order.pop("shorter", None):
        run_beside(order, shorter)
        return
    os.environ.update(order.get("environment", {}))
    if command := order.get("command"):
        run_command(command, order["folder"], order["output"])
        return
    publishing.FLUSH_SECONDS = order.get("flush_seconds", publishing.FLUSH_SECONDS)
    whole = order.get("config")
    config = parse_config(whole) if whole else preset_config(order["preset"], order["overrides"])
    if at := order.get("stop_at_program"):
        stopping = StoppingSandbox(toolbox.Toolbox(scenario_of(config)).sandbox(), at)
        toolbox.new_sandbox = lambda *_: stopping  # type: ignore[assignment,return-value]
    if stop := order.get("stop"):
        opened = open_store(config.store)
        session.open_store = lambda _: StoppingStore(opened, **stop)  # type: ignore[assignment]
    if calls := order.get("stop_at_call"):
        opened = open_store(config.store)
        session.open_store = lambda _: StoppingAtCalls(opened, **calls)  # type: ignore[assignment,return-value]
    if flow_run_id := order.get("flow_run_id"):  # as a worker runs it
        parameters = {"config": config, "run_id": order["run_id"]}
        run_flow(train, flow_run=load_flow_run(UUID(flow_run_id)), parameters=parameters)
        return
    Path(order["summary"]).write_text(json.dumps(flow_for(config)(config, order["run_id"])))


def main() -> None:
    components.training.launcher.subprocess = forking(Path(sys.argv[1]))  # type: ignore[assignment]
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                run(json.loads(line))
                code = 0
            except SystemExit as ended:
                if isinstance(ended.code, str):
                    print(ended, file=sys.stderr)
                code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(json.dumps({"pid": pid}), flush=True)
        while True:
            _, status = os.waitpid(pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
            print(json.dumps({"stopped": pid}), flush=True)
        print(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
