"""Small reports with values that can be computed by hand."""

from components.schema import EvalReport, IterationReport


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


def evaluation(step: int) -> EvalReport:
    """30 of 40 problems solved; no proposal needed repair."""
    return EvalReport(
        agent=f"r@{step}",
        suite="plan_path/test",
        suite_digest="5f0c00aa11bb",
        step=step,
        sampling="greedy",
        seed=0,
        num_samples=1,
        num_solved_P=(1,) * 30 + (0,) * 10,
        n=40,
        num_successes=30,
        success_rate=0.75,
        interval=(0.598, 0.858),
        mean_reward=1.25,
        keep_rate=1.0,
        repair_rate=None,
        metrics={"eval/greedy/num_generated_tokens": 800.0, "eval/greedy/success_rate": 0.75},
    )
