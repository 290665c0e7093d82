"""Does a preset learn, and only from its rewards? A run beside its control, whose rewards are shuffled between groups.

    python -m benchmarks.learning [--preset plan-path] [--seeds 3] [--steps N]

Each seed trains twice from the same warm start, once with shuffled rewards, and prints held-out success before and after,
without the tree. Prefect is started in a temporary folder; results are kept there in a local store.
"""

import argparse
import statistics
from typing import Any

from benchmarks.training import services


def gains(summary: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Success before and after, by way of sampling."""
    found: dict[str, list[float]] = {}
    for report in summary["evaluations"]:
        found.setdefault(report["sampling"], []).append(report["success_rate"])
    return {sampling: (rates[0], rates[-1]) for sampling, rates in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="plan-path")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--no-control", action="store_true")
    asked = parser.parse_args()
    with services() as home:
        from flows.presets import preset_config
        from flows.train import train

        print(f"{asked.preset}: held-out success before -> after, without the tree")
        differences: dict[str, list[float]] = {}
        for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
            for arm in ("trained",) if asked.no_control else ("trained", "control"):
                overrides = [f"seed={seed}", "store.kind=local", f"store.root={home / 'store'}", "tracking.kind=none"]
                overrides += [f"rewards.shuffle_rewards={'true' if arm == 'control' else 'false'}"]
                config = preset_config(asked.preset, overrides, num_steps=asked.steps)
                for sampling, (before, after) in gains(train(config, f"{arm}-{seed}")).items():
                    print(
                        f"seed {seed}  {arm:8} {sampling:7} {before:.3f} -> {after:.3f}  {after - before:+.3f}",
                        flush=True,
                    )
                    differences.setdefault(f"{arm:8} {sampling}", []).append(after - before)
        for name, values in differences.items():
            print(f"median gain  {name:17} {statistics.median(values):+.3f}  (least {min(values):+.3f})")


if __name__ == "__main__":
    main()
