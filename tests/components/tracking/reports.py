"""Small reports with values that can be computed by hand."""

from typing import Any, Literal

from components.schema import EvalReport, IterationReport
from components.tracking.base import EpisodeTrace, PolicyFiles, TeamCheckpoint, TracedSpan


def iteration(run_id: str, step: int) -> IterationReport:
    """Metrics and timings of `step` that differ from those of every other step."""
    return IterationReport(
        run_id=run_id,
        step=step,
        metrics={"rollout/success_rate": step / 100, "reward/plan_agent/mean": 2.0 + step},
        timings={"time/update_policy_seconds": 0.5},
        checkpoint_digest={"team": f"digest-{step}"},
        optimizer_digest={"team": f"optimizer-{step}"},
    )


def team(step: int, digest: str, *, model: str = "line", folder: str | None = None, **others: str) -> TeamCheckpoint:
    """A team whose policy `team` has these weights, and `others` theirs; in folders of the same names."""
    policies = {"team": PolicyFiles(weights_digest=digest, folder_uri=folder or f"s3://b/folders/{digest}")}
    policies |= {name: PolicyFiles(weights_digest=each, folder_uri=f"s3://b/{each}") for name, each in others.items()}
    return TeamCheckpoint(model=model, step=step, policies=policies)


def trace(key: str, *, step: int = 0, error: str | None = None) -> EpisodeTrace:
    """An episode of one turn, with one answer that called one tool."""
    spans: tuple[dict[str, Any], ...] = (
        {"kind": "episode", "name": "plan_path", "inputs": {"problem": key}, "outputs": {"success": True}},
        {"kind": "turn", "name": "turn 0", "parent": 0},
        {
            "kind": "agent",
            "name": "plan_agent",
            "parent": 1,
            "inputs": {"prompt": f"grid {key}\n:"},
            "outputs": {"answer": "R,R", "reward": 1.5},
            "facts": {"policy": "team"},
            "num_prompt_tokens": 7,
            "num_answer_tokens": 3,
        },
        {"kind": "tool", "name": "program", "parent": 2, "inputs": {"program": "print(1)"}, "error": error},
    )
    made = [TracedSpan(**{"parent": None, "inputs": {}, "outputs": {}, **span}) for span in spans]
    return EpisodeTrace(key=key, step=step, view=f"troupe view r --problem {key}", spans=tuple(made))


def evaluation(step: int, *, num_successes: int = 30, sampling: Literal["sample", "greedy"] = "greedy") -> EvalReport:
    """`num_successes` of 40 problems solved; no proposal needed repair."""
    return EvalReport(
        agent=f"r@{step}",
        suite="plan_path/test",
        suite_digest="5f0c00aa11bb",
        step=step,
        sampling=sampling,
        seed=0,
        num_samples=1,
        num_solved_P=tuple(int(number < num_successes) for number in range(40)),
        n=40,
        num_successes=num_successes,
        success_rate=num_successes / 40,
        interval=(0.598, 0.858),
        mean_reward=1.25,
        keep_rate=1.0,
        repair_rate=None,
        metrics={f"eval/{sampling}/num_generated_tokens": 800.0, f"eval/{sampling}_success_rate": num_successes / 40},
    )
