"""What remembering decisions costs, and what is found in them: planted patterns, and none in random play.

    python -m benchmarks.decision_history [--decisions 100000] [--batch 500]

Decisions are recorded in blocks of 10,000, each followed by the analysis of its episodes; then the patterns are looked for.
Seconds are those of this process: what waits for the disk or for the processor does not count, and stands beside it.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from components.hybrid.decision_history import Decision, DecisionHistory

BLOCK, EPISODE, STATES, ACTIONS, BASE_RATE = 10_000, 50, 50, 9, 0.3
PLANTED = ((7, (4, 0), 0.9), (19, (2,), 0.02))
"""State, actions from it on, and the rate of success there."""


def main() -> None:
    """Print inserts a second, the seconds of each block's analysis, and the patterns of planted and of random play."""
    arguments = _arguments()
    for name, is_planted in (("planted", True), ("random", False)):
        with TemporaryDirectory() as folder, DecisionHistory(Path(folder) / "history.db") as history:
            print_costs(name, history, list(decisions(arguments.decisions, is_planted)), arguments.batch)
            report = history.patterns(minimum_seen=20)
            print(f"{name}: {len(report.patterns)} patterns among {report.num_tested:,}, each at {report.level:.1e}")
            for pattern in report.patterns[:5]:
                print(f"  state {pattern.state_hash}, actions {pattern.actions} {pattern.effect}: {pattern.won}/{pattern.seen}"
                      f" beside {pattern.base_rate:.2f}, p {pattern.p_value:.1e}")  # fmt: skip


def print_costs(name: str, history: DecisionHistory, played: list[Decision], batch: int) -> None:
    """Record and analyse block by block, and print what it cost."""
    inserting, analyses, waited = 0.0, [], time.perf_counter()
    for first in range(0, len(played), BLOCK):
        block = played[first : first + BLOCK]

        def record(block: list[Decision] = block) -> None:
            for start in range(0, len(block), batch):
                history.record(block[start : start + batch])

        inserting += seconds(record)
        analyses.append(seconds(history.analyse))
    waited = time.perf_counter() - waited
    print(
        f"{name}: {len(played) / inserting:,.0f} inserts a CPU second; analysis of a block {analyses[0]:.2f} s first,"
        f" {analyses[-1]:.2f} s last ({analyses[-1] / analyses[0]:.2f} times); {waited:.1f} s by the clock in all"
    )


def seconds(act: Callable[[], object]) -> float:
    """The CPU seconds of a call."""
    start = time.process_time()
    act()
    return time.process_time() - start


def decisions(count: int, is_planted: bool) -> Iterator[Decision]:
    """Random play in episodes of 50 decisions; planted play meets each of `PLANTED` in every third episode."""
    rng = random.Random(0)
    for episode in range(-(-count // EPISODE)):
        states = [rng.randrange(STATES) for _ in range(EPISODE)]
        actions = [rng.randrange(ACTIONS) for _ in range(EPISODE)]
        rates = [BASE_RATE] * EPISODE
        if is_planted and episode % 3 == 0:
            for place, (state, planted, rate) in zip((0, 10), PLANTED, strict=True):
                states = [other if other != state else (other + 1) % STATES for other in states]
                states[place], actions[place : place + len(planted)], rates[place] = state, planted, rate
        for step in range(EPISODE):
            yield Decision(
                episode_id=episode, step_number=step, state_hash=states[step], action=actions[step], source="rl",
                is_success=rng.random() < rates[step], is_last=step == EPISODE - 1,
            )  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=500, help="decisions of a transaction")
    return parser.parse_args()


if __name__ == "__main__":
    main()
