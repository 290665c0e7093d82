"""Proof that an engine samples from the requested weights: version, digest, and the trainer's log-probabilities."""

from pathlib import Path

from components.errors import LogprobMismatch, StaleEngine
from components.generation.base import Generator
from components.schema import PolicyVersion
from components.training.base import Probe, worst_mismatch


def refresh(
    generator: Generator,
    *,
    folder: Path,
    version: PolicyVersion,
    probe: Probe,
    tolerance: float,
    adapter: Path | None = None,
) -> float:
    """Make `generator` hold `version`; returns how far engine and trainer are apart on the probe, in nats.

    Loads only when another version is held, but checks version and probe on every call, because an engine may report the
    right version and serve old tensors. Raises StaleEngine (retry), LogprobMismatch, and what `load` raises.
    """
    if generator.version != version:
        generator.load(folder, version, adapter)
    if generator.version != version:
        raise StaleEngine(f"after loading {folder} the engine holds {generator.version} instead of {version}")
    (engine_logprobs,) = generator.score([probe.prompt_tokens], [probe.completion_tokens])
    found = worst_mismatch(probe.trainer_logprobs, engine_logprobs, tolerance)
    if not found.is_allowed:
        raise LogprobMismatch(
            f"policy {version.policy!r} at step {version.step}: on the probe, engine and trainer differ by "
            f"{found.difference:.3g} (tolerance {found.allowed:.3g}) at token {found.position}: "
            f"{engine_logprobs[found.position]:.6f} against {probe.trainer_logprobs[found.position]:.6f}; the engine serves "
            "other tensors than it reports, or computes differently: only if it rounds differently (bfloat16, another device), "
            "raise generation.probe_tolerance"
        )
    return found.difference
