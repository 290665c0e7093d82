"""Environment steps per CPU second of the emulated games, with and without screens, in one and two processes, and their memory.

CPU seconds are those of the processes with the games; the share of this process stands beside them. Play is random among the
allowed buttons, on our own cartridge at 8 frames a step. The rules' twin in NumPy is the last row. Below it: how long one
decision of the hybrid agent takes, by who made it, beside the scripted language model.

    python -m benchmarks.game_boy [--steps 2000] [--games 8] [--processes 1 2] [--repeats 3] [--decisions 1000]
                                  [--soak-minutes 0]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil

from benchmarks.games_in_processes import GamesInProcesses
from benchmarks.markdown import markdown
from benchmarks.scripted_manager import ScriptedLLMManager
from components.hybrid.game_boy.cartridges import homebrew_cartridge
from components.hybrid.twin import Twin
from components.machine.process_variables import read_variables
from flows.api.hybrid.core.adaptive_strategy_system import AdaptiveStrategySystem
from flows.api.hybrid.core.hybrid_agent import HybridAgent
from flows.api.hybrid.testing.benchmarks import benchmark_decision_latency

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """A number of steps of all games together: seconds of the processes with the games, of this process, and of the clock."""

    num_steps: int
    games_seconds: float
    own_seconds: float
    wall_seconds: float


def main() -> None:
    """Print a table, and with `--soak-minutes` the memory over that time."""
    arguments = _arguments()
    rows = [
        _row(arguments, num_processes=processes, renders=renders)
        for processes in arguments.processes
        for renders in (False, True)
    ]
    twin = Twin(arguments.games, seed=0)
    plays = [measure_play(twin, arguments.steps, lambda: 0.0, seed) for seed in range(arguments.repeats)]
    rows.append(["twin", "", _median(plays, lambda play: play.num_steps / play.own_seconds), "", "", ""])
    print(
        markdown(
            ["processes", "screens", "steps per CPU second", "steps per second", "µs a step here", "MiB a process"],
            rows,
        )
    )
    print("\n" + latencies(arguments.decisions), flush=True)
    if arguments.soak_minutes:
        soak(arguments.games, arguments.soak_minutes)


def measure_play(games: Any, num_steps: int, games_seconds: Callable[[], float], seed: int) -> Play:
    """About `num_steps` steps of random allowed buttons, in all games together."""
    rng = np.random.default_rng(seed)
    before = games_seconds(), time.process_time(), time.perf_counter()
    rounds = -(-num_steps // len(games.masks()))
    for _ in range(rounds):
        masks_N_A = games.masks()
        games.step(np.where(masks_N_A, rng.random(masks_N_A.shape), -1).argmax(axis=1))
    after = games_seconds(), time.process_time(), time.perf_counter()
    spent = [late - early for early, late in zip(before, after, strict=True)]
    return Play(num_steps=rounds * len(masks_N_A), games_seconds=spent[0], own_seconds=spent[1], wall_seconds=spent[2])


def latencies(num_decisions: int) -> str:
    """The milliseconds of so many decisions in play on the twin, all and by source."""
    taken = benchmark_decision_latency(HybridAgent(ScriptedLLMManager(), AdaptiveStrategySystem()), num_decisions)
    sources = {"all": taken, **taken["by_source"]}
    body = [
        [source, str(each["samples"]), *(f"{each[name]:.3f}" for name in ("mean_ms", "p50", "p95", "p99"))]
        for source, each in sources.items()
    ]
    return markdown(["who decided", "decisions", "mean ms", "p50", "p95", "p99"], body)


def soak(num_games: int, minutes: float) -> None:
    """Play that long, and print the memory of the process with the games ten times."""
    with _games(num_games, num_processes=1, renders=True) as games:
        process, start, rng = psutil.Process(games.pids[0]), time.monotonic(), np.random.default_rng(0)
        for part in range(1, 11):
            num_steps = 0
            while time.monotonic() < start + minutes * 6 * part:
                games.step(rng.integers(0, 9, num_games))
                games.screens()
                num_steps += num_games
            print(
                f"minute {minutes * part / 10:.1f}: {process.memory_info().rss / MIB:.1f} MiB, {num_steps} steps",
                flush=True,
            )


def _row(arguments: argparse.Namespace, *, num_processes: int, renders: bool) -> list[str]:
    with _games(arguments.games * num_processes, num_processes=num_processes, renders=renders) as games:
        processes = [psutil.Process(pid) for pid in games.pids]

        def games_seconds() -> float:
            return sum(sum(process.cpu_times()[:2]) for process in processes)

        measure_play(games, 10 * games.num_games, games_seconds, seed=99)  # what is first called is slow
        plays = [
            measure_play(games, arguments.steps * num_processes, games_seconds, seed)
            for seed in range(arguments.repeats)
        ]
        memory = statistics.median(process.memory_info().rss for process in processes) / MIB
    return [
        str(num_processes),
        "drawn" if renders else "none",
        _median(plays, lambda play: play.num_steps / play.games_seconds),
        _median(plays, lambda play: play.num_steps / play.wall_seconds),
        _median(plays, lambda play: 1e6 * play.own_seconds / play.num_steps),
        f"{memory:.0f}",
    ]


def _games(num_games: int, *, num_processes: int, renders: bool) -> GamesInProcesses:
    return GamesInProcesses(
        homebrew_cartridge(),
        num_games,
        num_processes=num_processes,
        seed=0,
        environment=read_variables(),
        renders=renders,
    )


def _median(plays: list[Play], value: Callable[[Play], float]) -> str:
    return f"{statistics.median(map(value, plays)):,.0f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--steps", type=int, default=2000, help="of a process and repetition, in all its games together"
    )
    parser.add_argument("--games", type=int, default=8, help="of a process")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--decisions", type=int, default=1000, help="whose latency is measured")
    parser.add_argument("--soak-minutes", type=float, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
