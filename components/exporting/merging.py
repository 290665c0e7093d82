"""An adapter merged into its base: one model folder, checked to answer as base and adapter did."""

from pathlib import Path

from components.errors import LogprobMismatch
from components.generation.vllm.folders import merge_into_folder
from components.training.base import Probe, worst_mismatch
from components.training.checkpoint import compute_probe, load_model

_ROUNDED_TOLERANCE = 0.1
"""For log-probabilities of weights in 16 bits, each of which a merge rounds again."""


def merge(base: Path, adapter: Path, into: Path, *, probe: Probe, tolerance: float, trained_in: str) -> float:
    """Write the merged model to `into`; how far its log-probabilities are from the trainer's on the probe, in nats.

    Raises LogprobMismatch above `tolerance`, which is larger unless weights and trainer (`trained_in`) are float32.
    """
    merge_into_folder(base, adapter, into)
    model = load_model(into)
    found = compute_probe(model).trainer_logprobs
    is_exact = trained_in == "float32" and next(model.parameters()).element_size() >= 4
    allowed = tolerance if is_exact else max(tolerance, _ROUNDED_TOLERANCE)
    worst = worst_mismatch(probe.trainer_logprobs, found, allowed)
    if not worst.is_allowed:
        raise LogprobMismatch(
            f"merged into its base the adapter answers differently: log-probabilities differ by {worst.difference:.3g} on the "
            f"checkpoint's probe (tolerance {worst.allowed:.3g}); export it as an adapter, without --merged"
        )
    return worst.difference
