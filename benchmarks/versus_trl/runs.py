"""One run of one arm in a process of its own, watched from outside; services run beside Troupe's alone."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.footprint import Footprint, pss_mib, watch
from benchmarks.versus_trl.order import COMPONENTS, TRL, TROUPE, Order
from benchmarks.versus_trl.registry import TASKS
from infra.services.environment import environment
from infra.services.process import read_record
from infra.services.stack import down, up
from tests.processes import tree

ARMS = {TROUPE: "troupe_arm", COMPONENTS: "components_arm", **dict.fromkeys(TRL, "trl_arm")}
TIMEOUT_SECONDS = 1800.0
_PACKAGE = "benchmarks.versus_trl"
_SETTLED = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore"}
_FOREIGN = ("PREFECT_", "MLFLOW_", "AWS_", "TROUPE_", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run wrote down, what was seen of it, and what the services beside it held at its end."""

    result: Mapping[str, Any]
    footprint: Footprint
    services_pss_mib: float


def run(order: Order, home: Path) -> Ran:
    """Run one arm to its end. Raises RuntimeError with the end of its log when it fails."""
    Path(order.work_folder).mkdir(parents=True)
    with services(home, wanted=order.arm == TROUPE) as found:
        footprint = run_watched(f"{_PACKAGE}.{ARMS[order.arm]}", order, found)
        held = services_memory(home) if found else 0.0
    return Ran(
        result=json.loads(order.result_file.read_text(encoding="utf-8")), footprint=footprint, services_pss_mib=held
    )


def make_start(order: Order) -> Mapping[str, Any]:
    """Make the model that all arms start from; what it is, and how its making went."""
    named = replace(order, arm="start")
    Path(named.work_folder).mkdir(parents=True)
    run_watched(f"{_PACKAGE}.{TASKS[order.task].start_module}", named, {})
    return dict(json.loads(named.result_file.read_text(encoding="utf-8")))


def run_watched(module: str, order: Order, found: Mapping[str, str]) -> Footprint:
    """Run `module` on `order`."""
    folder = Path(order.work_folder)
    order_file, log = folder / "order.json", folder / "log"
    order_file.write_text(json.dumps(order.document()), encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    threads = {"OMP_NUM_THREADS": str(order.num_threads), "MKL_NUM_THREADS": str(order.num_threads)}
    command = [sys.executable, "-m", module, str(order_file)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={**inherited, **_SETTLED, **threads, **found}, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            footprint = watch(process, TIMEOUT_SECONDS)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError(
            f"{order.arm}, seed {order.seed} ended with {process.returncode}:\n{log.read_text(encoding='utf-8')[-3000:]}"
        )
    return footprint


@contextmanager
def services(home: Path, *, wanted: bool) -> Iterator[dict[str, str]]:
    """The environment of a client of a Prefect server that runs inside the block; empty where none is wanted."""
    if not wanted:
        yield {}
        return
    try:
        yield environment(up(home, only=("prefect",)))
    finally:
        down(home)


def services_memory(home: Path) -> float:
    """MiB that the Prefect server holds."""
    record = read_record(home, "prefect")
    assert record is not None, f"no Prefect server was started in {home}"
    return pss_mib(tree(record.pid))
