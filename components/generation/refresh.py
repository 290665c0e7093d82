"""Proof that an engine samples from the requested weights: version, digest, and the trainer's log-probabilities."""

from pathlib import Path

from components.errors import LogprobMismatch, StaleEngine
from components.generation.base import Generator
from components.schema import PolicyVersion
from components.training.base import Probe


def refresh(
    generator: Generator,
    *,
    folder: Path,
    version: PolicyVersion,
    probe: Probe,
    tolerance: float,
    adapter: Path | None = None,
) -> float:
    """Make `generator` hold `version`; returns the largest |engine - trainer| log-probability on the probe, in nats.

    Loads only when another version is held, but checks version and probe on every call, because an engine may report the
    right version and serve old tensors. Raises StaleEngine (retry), LogprobMismatch, and what `load` raises.
    """
    if generator.version != version:
        generator.load(folder, version, adapter)
    if generator.version != version:
        raise StaleEngine(f"after loading {folder} the engine holds {generator.version} instead of {version}")
    (engine_logprobs,) = generator.score([probe.prompt_tokens], [probe.completion_tokens])
    assert len(engine_logprobs) == len(probe.trainer_logprobs), (len(engine_logprobs), len(probe.trainer_logprobs))
    differences = [abs(e - t) for e, t in zip(engine_logprobs, probe.trainer_logprobs, strict=True)]
    largest = max(differences)
    if not largest <= tolerance:
        position = differences.index(largest)
        raise LogprobMismatch(
            f"policy {version.policy!r} at step {version.step}: on the probe, engine and trainer differ by {largest:.3g} "
            f"(tolerance {tolerance:.3g}) at token {position}: {engine_logprobs[position]:.6f} against "
            f"{probe.trainer_logprobs[position]:.6f}; the engine serves other tensors than it reports, or computes differently"
        )
    return largest
