"""Single-agent GRPO by Troupe and by TRL's GRPOTrainer: speed, memory, and samples until the task is learned.

    python -m tests.benchmarks.versus_trl [--repeats 5] [--seeds 5] [--first-seed 0] [--steps N] [--threads 1]
        [--learning-rate R] [--out FOLDER] [--quick]

All arms start from one warm-started model and see the same problems under the same rewards, group size, lengths, temperature,
precision (float32) and thread count. Troupe's step and TRL's tuned one have the same batch, loss, clip, optimizer and learning
rate, and TRL's has the same prompts in the same order. As shipped, TRL has its own defaults but for device, precision, lengths
and number of steps: 8 samples per step, which need less memory, and a learning rate of 1e-6. Troupe runs as a user runs it: the
`train` flow against a Prefect server, which commits every stage and checkpoint to a local store; TRL saves nothing. Neither
tracks. The arms run one at a time, each in a process of its own, in turns whose order alternates; a round is one turn of each,
and has one seed.

The difference that remains: the samplers draw from random streams of their own.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.benchmarks.versus_trl.game import AS_SHIPPED, COMPONENTS, TROUPE, TUNED, Order
from tests.benchmarks.versus_trl.outcomes import Outcome, outcome
from tests.benchmarks.versus_trl.report import table, verdicts, write_raw
from tests.benchmarks.versus_trl.runs import ARMS, Ran, cloned, run

GROUP_SIZE = 8
WARM_START_SUCCESS = 0.5


def main() -> None:
    asked = arguments()
    with tempfile.TemporaryDirectory(prefix="troupe-versus-trl-") as name:
        folder = Path(name)
        first = order_of(asked, folder, arm="warm start", number=0)
        cloning = cloned(first)
        print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}; "
              f"trl {version('trl')}, torch {version('torch')}, transformers {version('transformers')}")  # fmt: skip
        print(f"plan_path, one agent, {asked.problems} problems x {GROUP_SIZE} candidates per step, {asked.steps} steps, "
              f"{asked.threads} thread(s); warm start: success {cloning['success']:.3f}", flush=True)  # fmt: skip
        outcomes, ran = play_rounds(asked, folder)
        print_report(outcomes, ran, asked.arms)
        if asked.out is not None:
            write_raw(outcomes, {key: each.result for key, each in ran.items()}, asked.out)
            facts = {"cloning": cloning, "load": os.getloadavg(), "options": vars(asked) | {"out": str(asked.out)}}
            (asked.out / "machine.json").write_text(json.dumps(facts | {"python": platform.python_version()}, indent=1))
            print(f"\nraw numbers: {asked.out}")


def arguments() -> argparse.Namespace:
    """What was asked for; --quick is one round of a few steps, to see that everything works."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="rounds for speed and memory")
    parser.add_argument(
        "--seeds", type=int, default=5, help="rounds of different seeds; there are as many as the larger"
    )
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument(
        "--as-shipped-steps", type=int, default=120, help="of TRL as shipped, which has 8 samples per step"
    )
    parser.add_argument("--problems", type=int, default=64, help="problems per step")
    parser.add_argument("--threads", type=int, default=1, help="of torch, in every process of every arm")
    parser.add_argument("--learning-rate", type=float, default=1.0e-3, help="of all arms but TRL as shipped")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--out", type=Path, help="folder for raw numbers")
    parser.add_argument("--quick", action="store_true", help="one round of four steps from a weaker start")
    asked = parser.parse_args()
    if asked.quick:
        asked.repeats, asked.seeds, asked.steps, asked.as_shipped_steps = 1, 1, 4, 16
    return asked


def order_of(asked: argparse.Namespace, folder: Path, *, arm: str, number: int) -> Order:
    """What `arm` does in round `number`."""
    return Order(
        arm=arm,
        seed=asked.first_seed + number % asked.seeds,
        num_steps=asked.as_shipped_steps if arm == AS_SHIPPED else asked.steps,
        num_problems=asked.problems,
        group_size=GROUP_SIZE,
        num_threads=asked.threads,
        learning_rate=asked.learning_rate,
        model_folder=str(folder / "model"),
        work_folder=str(folder / f"{arm.replace(' ', '-')}-{number}"),
        gate=0.0 if asked.quick else WARM_START_SUCCESS,
    )


def play_rounds(asked: argparse.Namespace, folder: Path) -> tuple[list[Outcome], dict[tuple[str, int], Ran]]:
    """All rounds, every second one in the opposite order."""
    outcomes, ran = [], {}
    for number in range(max(asked.repeats, asked.seeds)):
        for arm in asked.arms if number % 2 == 0 else reversed(asked.arms):
            order = order_of(asked, folder, arm=arm, number=number)
            ran[arm, number] = each = run(order, folder / "services")
            outcomes.append(outcome(arm, number, order.seed, each.result, each.footprint))
            told = outcomes[-1]
            print(f"round {number}  {arm:24}{told.samples_per_second:7.0f} samples/s {told.pss_mib:7.0f} MiB  "
                  f"success {told.last_success:.3f}  load {os.getloadavg()[0]:.2f}", flush=True)  # fmt: skip
    return outcomes, ran


def print_report(outcomes: list[Outcome], ran: dict[tuple[str, int], Ran], arms: list[str]) -> None:
    """The table, Troupe's seconds by stage, and what is required."""
    print(f"\n{table(outcomes, arms)}\n")
    ours = next((arm for arm in (TROUPE, COMPONENTS) if arm in arms), None)
    if ours == TROUPE:
        print_step(ran)
    for theirs in (TUNED, AS_SHIPPED):
        if ours is not None and theirs in arms:
            print(verdicts(outcomes, ours, theirs))


def print_step(ran: dict[tuple[str, int], Ran]) -> None:
    """Where the seconds of our step go, and what runs beside it."""
    mine = [each for (arm, _), each in ran.items() if arm == TROUPE]
    print(
        f"the Prefect server beside troupe: {statistics.median(each.services_pss_mib for each in mine):.0f} MiB, not counted"
    )
    print(f"troupe's step: {step_seconds([each.result for each in mine])}\n")


def step_seconds(results: list[Mapping[str, Any]]) -> str:
    """**Example** "0.91 s: collect_rollouts 0.20, ..., between stages 0.31", medians over steps after the first."""
    stages = [step for result in results for step in result["stage_seconds"][1:-1]]
    steps = [
        later - earlier
        for result in results
        for earlier, later in zip(result["step_ended_at"][:-2], result["step_ended_at"][1:-1], strict=True)
    ]
    names = [name for name in stages[0] if "evaluate" not in name]
    medians = {name: statistics.median(step[name] for step in stages) for name in names}
    between = statistics.median(steps) - sum(medians.values())
    told = [f"{name.removeprefix('time/').removesuffix('_seconds')} {value:.3f}" for name, value in medians.items()]
    return f"{statistics.median(steps):.3f} s: {', '.join(told)}, between stages {between:.3f}"


if __name__ == "__main__":
    main()
