"""The wall time of ten steps with `rollout.overlap=one_step` over that without, where rollout and update take about as long.

    python -m benchmarks.overlap [--steps 10] [--repeats 3] [--epochs N] [--problems 128]

The rollout is computed in this process and the update in its worker, with one thread each, so that two cores are two separate
resources; where cores are only two threads of one, or share the memory's bandwidth, they are not, and the seconds of the stages
say by how much. Both ways train the same preset from one warm start, taking turns, with the correction that overlap needs
(`loss.importance_cap`, one more forward pass in the update): they differ in the overlap alone. Without it an iteration takes
the sum of both stages and more, with it no less than the longer one.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.training import services, watch_iterations

REQUIRED_RATIO = 0.75
PRESET = "plan-path"
PROBLEMS_PER_BLOCK = 8
"""So few at once that playing takes about as long as the update."""
WAYS = ("none", "one_step")


def train_once(
    way: str, root: Path, run_id: str, *, num_steps: int, epochs: int, num_problems: int
) -> tuple[float, dict[str, float]]:
    """Wall seconds of all steps, and the median seconds of the two stages."""
    from components.artifacts.local import LocalArtifactStore
    from components.metrics import seconds
    from flows.presets import preset_config
    from flows.train import train
    from troupe.runs.documents import run_document

    overrides = [
        "store.kind=local", f"store.root={root}", "tracking.kind=none", f"training.num_epochs={epochs}",
        "warm_start={max_steps: 100, min_success: 0.0, max_success: 1.0, num_check_problems: 8}",
        f"rollout.num_problems={num_problems}", f"rollout.problems_per_block={PROBLEMS_PER_BLOCK}", f"rollout.overlap={way}",
        "loss.importance_cap=2.0", "evaluation={num_problems: 8, sampling: [greedy]}",
    ]  # fmt: skip
    config = preset_config(PRESET, overrides, num_steps=num_steps)
    marks: list[float] = []

    @contextmanager
    def mark_step(step: int) -> Iterator[None]:
        marks.append(time.perf_counter())
        yield
        marks.append(time.perf_counter())

    with watch_iterations(mark_step):
        train(config, run_id)
    steps = run_document(LocalArtifactStore(root), run_id)["steps"]
    stages = ("collect_rollouts", "update_policy")
    medians = {name: statistics.median(step["timings"][seconds(name)] for step in steps[1:]) for name in stages}
    return marks[-1] - marks[0], medians


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--problems", type=int, default=128, help="of each step")
    asked = parser.parse_args()
    ratios = []
    with services(), tempfile.TemporaryDirectory(prefix="troupe-benchmark-") as folder:
        for repeat in range(asked.repeats):
            seconds = {}
            for way in WAYS:
                run_id = f"{way}-{repeat}"
                seconds[way], stages = train_once(
                    way, Path(folder), run_id,
                    num_steps=asked.steps, epochs=asked.epochs, num_problems=asked.problems,
                )  # fmt: skip
                print(f"{way:9} {seconds[way]:7.2f} s for {asked.steps} steps; rollout {stages['collect_rollouts']:.2f} s, "
                      f"update {stages['update_policy']:.2f} s (medians)", flush=True)  # fmt: skip
            ratios.append(seconds["one_step"] / seconds["none"])
    ratio = statistics.median(ratios)
    print(f"\nwith overlap over without: {ratio:.2f} (median of {asked.repeats}); required: at most {REQUIRED_RATIO}: "
          f"{'held' if ratio <= REQUIRED_RATIO else 'MISSED'}")  # fmt: skip
    raise SystemExit(0 if ratio <= REQUIRED_RATIO else 1)


if __name__ == "__main__":
    main()
