"""Single-agent GRPO by Troupe and by TRL's GRPOTrainer: speed, memory, and samples until the task is learned.

    python -m benchmarks.versus_trl [--model tiny|smollm2] [--dtype bfloat16 float32] [--repeats N] [--seeds N]
        [--first-seed 0] [--steps N] [--problems N] [--threads 1] [--learning-rate R] [--arms ARM ...] [--out FOLDER] [--quick]

`tiny` is a small model with a warm start that finds paths; `smollm2` an adapter of SmolLM2-135M-Instruct (`make smollm`) that
says sums, in bfloat16 and then in float32.

All arms start from one model and see the same problems under the same rewards, group size, lengths, temperature, precision and
thread count. Troupe's step and TRL's tuned one have the same batch, loss, clip, optimizer and learning
rate, and TRL's has the same prompts in the same order. As shipped, TRL has its own defaults but for device, precision, lengths
and number of steps: 8 samples per step, which need less memory, and a learning rate of 1e-6. Troupe runs as a user runs it: the
`train` flow against a Prefect server, which commits every stage and checkpoint to a local store; TRL saves nothing. Neither
tracks. The arms run one at a time, each in a process of its own, in turns whose order alternates; a round is one turn of each,
and has one seed. Memory is that of an arm's processes and, in the comparison, of the Prefect server beside Troupe's too. Raw
numbers are always written, with the commit and the processor; --out names their folder.

The differences that remain: the samplers draw from random streams of their own; in bfloat16 Troupe's loss also corrects for the
rounding between engine and trainer, and its optimizer keeps the adapter in float32, while the tuned TRL's keeps it in bfloat16,
which needs no casts. smollm2 has two more arms of TRL: PEFT's default, an adapter in float32; and 8 samples per micro-batch,
whose gradients add up to the same step.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.origin import read_origin
from benchmarks.versus_trl.game import TINY
from benchmarks.versus_trl.order import AS_SHIPPED, COMPONENTS, FLOAT32_ADAPTER, TRL, TROUPE, Order
from benchmarks.versus_trl.outcomes import Outcome, outcome
from benchmarks.versus_trl.registry import TASKS
from benchmarks.versus_trl.report import curve, speed, table, verdicts, write_raw
from benchmarks.versus_trl.runs import ARMS, Ran, make_start, run

GROUP_SIZE = 8
WARM_START_SUCCESS = 0.5


def main() -> None:
    asked = arguments()
    task = TASKS[asked.model]
    out: Path = asked.out or Path(tempfile.mkdtemp(prefix="troupe-versus-trl-raw-"))
    with tempfile.TemporaryDirectory(prefix="troupe-versus-trl-") as name:
        folder = Path(name)
        start = make_start(order_of(asked, folder, arm="start", number=0, dtype=asked.dtype[0]))
        print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}; "
              f"trl {version('trl')}, torch {version('torch')}, transformers {version('transformers')}")  # fmt: skip
        print(f"{task.told}, one agent, {asked.problems} problems x {GROUP_SIZE} candidates per step, {asked.steps} steps, "
              f"{asked.threads} thread(s); {start['told']}", flush=True)  # fmt: skip
        for dtype in asked.dtype:
            if len(asked.dtype) > 1:
                print(f"\n{dtype}", flush=True)
            compare(asked, folder, dtype, start, out / dtype if len(asked.dtype) > 1 else out)


def compare(asked: argparse.Namespace, folder: Path, dtype: str, start: Mapping[str, Any], out: Path) -> None:
    """All rounds in one precision, and their report. In float32 an adapter in float32 is the tuned arm."""
    arms = [arm for arm in asked.arms if dtype != "float32" or arm != FLOAT32_ADAPTER]
    asked = argparse.Namespace(**vars(asked) | {"arms": arms})
    outcomes, ran = play_rounds(asked, folder, dtype)
    # First: what was measured outlasts a report that fails.
    write_raw(outcomes, {key: each.result for key, each in ran.items()}, out)
    facts = {"start": start, "load": os.getloadavg(), "options": vars(asked) | {"out": str(out)}}
    facts |= {**read_origin(), "python": platform.python_version()}
    (out / "machine.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    print_report(outcomes, ran, asked)
    print(f"\nraw numbers: {out}")


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What was asked for, with the task's own sizes where nothing was.

    --quick is one round of a few steps, to see that everything works.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=list(TASKS), default=TINY.name)
    parser.add_argument("--dtype", nargs="+", choices=("float32", "bfloat16"), help="one comparison each")
    parser.add_argument("--repeats", type=int, help="rounds for speed and memory")
    parser.add_argument("--seeds", type=int, help="rounds of different seeds; there are as many as the larger")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int)
    parser.add_argument(
        "--as-shipped-steps", type=int, default=120, help="of TRL as shipped, which has 8 samples per step"
    )
    parser.add_argument("--problems", type=int, help="problems per step")
    parser.add_argument("--threads", type=int, default=1, help="of torch, in every process of every arm")
    parser.add_argument("--learning-rate", type=float, help="of all arms but TRL as shipped")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS))
    parser.add_argument("--out", type=Path, help="folder for raw numbers; a new temporary one if left out")
    parser.add_argument("--quick", action="store_true", help="one round of four steps from a weaker start")
    asked = parser.parse_args(given)
    complete(asked, parser)
    return asked


def complete(asked: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Fill in what was left out, and refuse what the task does not have."""
    task, sizes = TASKS[asked.model], TASKS[asked.model].sizes
    for name, value in (
        ("dtype", sizes.dtypes),
        ("repeats", sizes.num_rounds),
        ("seeds", sizes.num_rounds),
        ("steps", sizes.num_steps),
        ("problems", sizes.num_problems),
        ("learning_rate", sizes.learning_rate),
        ("arms", sizes.arms),
    ):
        if getattr(asked, name) is None:
            setattr(asked, name, list(value) if isinstance(value, tuple) else value)
    for option, own in (("dtype", sizes.dtypes), ("arms", sizes.arms)):
        if foreign := [value for value in getattr(asked, option) if value not in own]:
            parser.error(f"--{option} {foreign[0]!r}: the model {task.name} is compared with {', '.join(own)}")
    if asked.quick:
        asked.repeats, asked.seeds, asked.steps, asked.as_shipped_steps = 1, 1, 4, 16


def order_of(asked: argparse.Namespace, folder: Path, *, arm: str, number: int, dtype: str) -> Order:
    """What `arm` does in round `number`."""
    return Order(
        task=asked.model,
        arm=arm,
        seed=asked.first_seed + number % asked.seeds,
        num_steps=asked.as_shipped_steps if arm == AS_SHIPPED else asked.steps,
        num_problems=asked.problems,
        group_size=GROUP_SIZE,
        num_threads=asked.threads,
        learning_rate=asked.learning_rate,
        dtype=dtype,
        model_folder=str(folder / "model"),
        work_folder=str(folder / f"{arm.replace(' ', '-')}-{dtype}-{number}"),
        gate=0.0 if asked.quick else WARM_START_SUCCESS,
    )


def play_rounds(
    asked: argparse.Namespace, folder: Path, dtype: str
) -> tuple[list[Outcome], dict[tuple[str, int], Ran]]:
    """All rounds, every second one in the opposite order."""
    outcomes, ran, goal = [], {}, TASKS[asked.model].goal
    for number in range(max(asked.repeats, asked.seeds)):
        for arm in asked.arms if number % 2 == 0 else reversed(asked.arms):
            order = order_of(asked, folder, arm=arm, number=number, dtype=dtype)
            ran[arm, number] = each = run(order, folder / "services")
            outcomes.append(
                outcome(
                    arm,
                    number,
                    order.seed,
                    each.result,
                    each.footprint,
                    goal=goal,
                    services_pss_mib=each.services_pss_mib,
                )
            )
            told = outcomes[-1]
            print(f"round {number}  {arm:24}{speed(told.samples_per_second):>7} samples/s {told.pss_mib:7.0f} MiB  "
                  f"success {told.last_success:.3f}  load {os.getloadavg()[0]:.2f}", flush=True)  # fmt: skip
    return outcomes, ran


def print_report(outcomes: list[Outcome], ran: dict[tuple[str, int], Ran], asked: argparse.Namespace) -> None:
    """The table, success by step of a short run, Troupe's seconds by stage, and what is required."""
    task, arms = TASKS[asked.model], asked.arms
    print(f"\n{table(outcomes, arms, goal=task.goal)}\n")
    if task.tells_steps:
        print(f"{curve({arm: [each.result for (of, _), each in ran.items() if of == arm] for arm in arms})}\n")
    ours = next((arm for arm in (TROUPE, COMPONENTS) if arm in arms), None)
    if ours == TROUPE:
        print_step(ran)
    for theirs in TRL:
        if ours is not None and theirs in arms:
            print(verdicts(outcomes, ours, theirs, goal=task.goal))


def print_step(ran: dict[tuple[str, int], Ran]) -> None:
    """Where the seconds of our step go."""
    mine = [each for (arm, _), each in ran.items() if arm == TROUPE]
    print(f"troupe's step: {step_seconds([each.result for each in mine])}\n")


def step_seconds(results: list[Mapping[str, Any]]) -> str:
    """**Example** "0.91 s: collect_rollouts 0.20, ..., between stages 0.31", medians over steps but the first and the last."""
    stages = [step for result in results for step in result["stage_seconds"][1:-1]]
    if not stages:
        return "with two steps there is none between the first and the last"
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
