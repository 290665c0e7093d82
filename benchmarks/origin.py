"""Where a measured row comes from: the weights its run began with, the processor, and the commit."""

from functools import cache
from pathlib import Path
from typing import Any

CPU_FACTS = Path("/proc/cpuinfo")


def start_of_run(store: Any, config: Any, run_id: str) -> dict[str, str]:
    """The digest of each policy's weights before training, of a run that has started. Equal digests are equal starts."""
    from components.runs.initial_checkpoints import initial_checkpoints
    from components.runs.run import Run

    checkpoints = initial_checkpoints(store, Run(run_id=run_id, config=config))
    return {policy: checkpoint.weights_digest for policy, checkpoint in checkpoints.items()}


@cache
def read_origin() -> dict[str, str]:
    """The processor of this process and its commit, as a row has them; weights cloned on other processors are other weights.

    **Example** {"processor": "AMD EPYC 7B13, AVX2", "commit": "9f2c…-dirty"}.
    """
    import torch

    from components.runs.provenance import checkout

    commit, is_dirty = checkout()
    return {
        "processor": f"{model_name(CPU_FACTS.read_text(encoding='utf-8'))}, {torch.backends.cpu.get_cpu_capability()}",
        "commit": "no checkout" if commit is None else f"{commit}-dirty" if is_dirty else commit,
    }


def model_name(facts: str) -> str:
    """The processor's name in the text of /proc/cpuinfo; "unnamed" where the kernel gives none."""
    for line in facts.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return "unnamed"
