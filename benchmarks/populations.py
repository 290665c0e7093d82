"""Do populations find what their games and training modes predict? Self-play of adapters by the flow, on the CPU.

    python -m benchmarks.populations --home DIR [--games kuhn "coop_compete, 2"] [--seeds 3] [--steps N] [--set a.b=c] [--list]

Kuhn and Leduc poker: the exploitability of the average of all steps' policies, of the last one beside it, both at each quarter
of the steps, and whether three checkpoints are ordered alike by played games and by OpenSpiel's exact values. Games of one
joint action: the average policy of the last half of the steps, the nearest pure equilibrium, and whether payoffs are within a
band of its. A maze: success weighted by path length. One public good under the four training modes: who cooperates, with
intervals over seeds, beside what closed forms predict. Policies are read from the stored checkpoints of every step, at every
decision of the game.

CPU seconds are those of the training alone, of its process and its trainer. Finished runs are kept in --home under a name that
depends on all that decides them; the same command again does what is missing. --list prints what is there.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from benchmarks.kept import describe_record
from benchmarks.population_report import lines_of
from benchmarks.population_runs import GAMES, POKERS, finish_run, load_row, orders, rows_of_record
from benchmarks.training import services_to_go_on


def main() -> None:
    names = [*POKERS, *GAMES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument(
        "--games", nargs="+", choices=names, default=names, metavar="GAME", help=f"of {', '.join(names)}"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="in all runs")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    print(describe_record(asked.home, only_list=asked.list), end="")
    wanted = partial(orders, asked.games, seeds=asked.seeds, num_steps=asked.steps, overrides=asked.set)
    if not asked.list:
        with services_to_go_on(asked.home):  # before anything is imported that reads Prefect's settings
            for order in wanted():
                if load_row(order, asked.home) is None:
                    row = finish_run(order, asked.home)
                    print(f"{order.run_id}: {row.training_cpu_seconds:.0f} CPU s", file=sys.stderr, flush=True)
    if record := rows_of_record(asked.home):
        print("\n".join(lines_of(record)))
        return
    rows = [row for order in wanted() if (row := load_row(order, asked.home)) is not None]
    print(f"{len(rows)} of {len(wanted())} runs\n")
    print("\n".join(lines_of(rows)))


if __name__ == "__main__":
    main()
