"""Agents alone and teams, prompted and trained, at about the same budget of generated tokens: no run's last step is cut.

    python -m benchmarks.arms [--games plan-path sokoban stateful-calendar] [--jobs 2] [--home DIR]

Nine arms a game. "prompted" is a policy after its warm start alone, which is cloned from noisy play; "trained" goes on from
there until its rollouts have sampled as many tokens as the budget says, every candidate counted, chosen or not, continuations
too. All arms learn from the preset's rewards with its learning rate and its problems per step. AT-GRPO hands on the best
candidate, as in its paper, or a random one with probability .75, as our presets of games do; with a policy per role it does
the latter. C3 plays nested trees. Success is that of 500 held-out problems, one answer per turn, without a tree, at the
beginning and at the end; a single agent has as many turns as the team.

How it counts, where it could be done otherwise: an episode's return, which GRPO and C3 learn from, counts progress from the
episode's start and not from before its last action; handing on the best is an arm of its own beside the presets' random one;
KL and entropy are averaged over the tokens that the loss is averaged over, not diluted by groups without a signal; a
candidate that could not be scored is no row and counts in no denominator. Tables that count otherwise are not comparable with
this one.

Equal tokens are not equal doses: an arm whose step samples fewer tokens takes more optimizer steps, and C3's continuations
are sampled but are no rows. So rows and optimizer steps are told beside success. Each difference is told seed by seed, with
the true difference that so many seeds would have found in four of five repetitions (`power.py`), and bold if it survives
Holm's correction for all comparisons of the table.

Weights cloned on another kind of processor are other weights. So a row has the digest of its start, the processor and the
commit, and seeds of two arms that began elsewhere are left out, and counted; rows of a record without digests began alike if
they had equal success before training. A single agent and a policy per role are cloned on their own by design: their seeds are
compared by number, and also by what each gained over its start. Sentences below the tables are made from the rows.

Finished runs are kept in --home under a name that depends on all that decides them: settings, budget, and the versions of the
stages. The same command again does what is missing, and continues a run that was stopped in the middle; Ctrl-C and SIGTERM
stop it at once. --list says what is done, and prints a record (`measured/`) as an earlier version measured it.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from benchmarks.arm_claims import claims
from benchmarks.arm_runs import GAMES, RUNS, Begun, Order, Trained, load_row, orders, progress_of, rows_of, train_arm
from benchmarks.arm_table import difference_table, dose_table, success_table
from benchmarks.ended_together import as_they_end, processes_ended_together
from benchmarks.kept import describe_record
from benchmarks.training import services_to_go_on


def train_missing(wanted: Sequence[Order], home: Path, *, jobs: int) -> None:
    """Train what is missing, `jobs` runs at a time; each is told when it is done.

    A run that raises stops no other; all that did are raised at the end. A killed process stops all.
    """
    missing = [order for order in wanted if load_row(order, home) is None]
    failures = []
    with processes_ended_together(jobs) as processes:
        of_order = {processes.submit(train_arm, order, home): order for order in missing}
        for future in as_they_end(of_order):
            if (failure := future.exception()) is None:
                print(describe_row(future.result()), flush=True)
                continue
            if isinstance(failure, BrokenProcessPool):
                raise failure
            failures.append(failure)
            print(f"{of_order[future].run_id} failed: {failure}", file=sys.stderr, flush=True)
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(missing)} runs failed", failures)


def describe_row(row: Trained) -> str:
    """One line about a finished run."""
    success = ", ".join(f"{sampling} {row.before[sampling]:.3f} -> {row.after[sampling]:.3f}" for sampling in row.after)
    counts = f"{row.num_steps} steps, {row.num_tokens} tokens, {row.num_rows} rows, {row.num_updates} updates"
    return f"{row.game} {row.run} seed {row.seed}: {success} ({counts}, {row.seconds:.0f} s)"


def list_orders(wanted: Sequence[Order], home: Path, *, jobs: int) -> str:
    """What is done, what is missing, and about how long that takes by what was measured."""
    lines, left_seconds, num_unknown = [], 0.0, 0
    finished = rows_of(wanted, home)
    for order in wanted:
        if (row := load_row(order, home)) is not None:
            lines.append(f"done     {describe_row(row)}")
            continue
        begun = progress_of(order, home)
        lines.append(f"missing  {order.game} {order.run} seed {order.seed}: {begun.fraction:.0%} of the tokens")
        seconds = estimate_seconds(order, begun, finished)
        num_unknown += seconds is None
        left_seconds += seconds or 0.0
    unknown = f"{num_unknown} runs of games of which nothing is measured yet"
    if num_unknown == len(wanted) - len(finished) > 0:
        return "\n".join([*lines, f"left: {unknown}"])
    lines.append(f"about {left_seconds / jobs / 60:.0f} minutes left with --jobs {jobs}, warm starts not counted")
    return "\n".join(lines) + (f", and {unknown}" if num_unknown else "")


def estimate_seconds(order: Order, begun: Begun, finished: Sequence[Trained]) -> float | None:
    """The seconds left of a run: by its own pace, else by the median of finished ones of the same game and arm, else of the
    same game; None without one."""
    if begun.fraction > 0:
        return begun.seconds * (1 / begun.fraction - 1)
    same_game = [row for row in finished if row.game == order.game]
    like = [row for row in same_game if row.run == order.run] or same_game
    return statistics.median(row.seconds for row in like) if like else None


def tables(rows: Sequence[Trained], *, budget_tokens: int) -> str:
    """All three tables, and what they say."""
    parts = {
        "Success in percent, mean over seeds and its 95% interval:": success_table(rows),
        "Differences seed by seed:": difference_table(rows),
        "Doses, means over seeds:": dose_table(rows),
        "What the rows say:": claims(rows, budget_tokens=budget_tokens),
    }
    return "\n\n".join(f"{title}\n\n{text}" for title, text in parts.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=list(GAMES), help="presets")
    parser.add_argument("--runs", nargs="+", default=list(RUNS), choices=list(RUNS))
    parser.add_argument("--seeds", type=int, help="at most; otherwise five for the claim's runs and three for others")
    parser.add_argument("--budget-tokens", type=int, default=300_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--home", type=Path)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="beside the preset, in all runs"
    )
    parser.add_argument("--list", action="store_true", help="tell what is done and what is missing")
    asked = parser.parse_args()
    home: Path = (asked.home or Path(tempfile.mkdtemp(prefix="troupe-benchmark-"))).resolve()
    wanted = orders(
        asked.games, asked.runs, budget_tokens=asked.budget_tokens, most_seeds=asked.seeds, overrides=asked.set
    )
    print(describe_record(home, only_list=asked.list), end="")
    if not asked.list:
        with services_to_go_on(home):
            train_missing(wanted, home, jobs=asked.jobs)
    print(list_orders(wanted, home, jobs=asked.jobs))
    if rows := rows_of(wanted, home):
        print(f"\nAt {asked.budget_tokens} generated tokens. {tables(rows, budget_tokens=asked.budget_tokens)}")
    print(f"\nruns: {home}")


if __name__ == "__main__":
    main()
