"""Does a pretrained team learn? SmolLM2-135M writes programs and reads their results, before and after training, with controls.

    python -m benchmarks.pretrained --home DIR [--jobs N] [--seeds 3] [--problems 300] [--steps 10] [--list]

The team of preset math-smollm: one tool agent that writes Python, one reasoner that answers from what was printed, both played
by one LoRA adapter of SmolLM2-135M-Instruct, whose weights are compared with a digest. First, what the untrained agents can do:
pass@1 and pass@8. Then the runs: `main` with several seeds, and one run of each control: rewards shuffled between groups; an
adapter per role; the same with one of the roles frozen; and single agents, trained until they have sampled as many tokens as
main. `single` must answer alone, without a program. `single with program` has main's turns and the program tool, under one
prompt for both; it learns by GRPO of whole episodes, and `single with program by turn` by main's AT-GRPO.

Success is that of held-out problems of the test split, never trained on, at the agents' own temperatures (sample) and by their
most likely tokens (greedy). Gains are paired by problem, with 95% intervals (Newcombe's method 10). All teams start as one: an
adapter starts as nothing added to its base. So success before training is played once, with the same draws as after it; lone
agents have their own. `level 1` has four numbers up to 99 and brackets where training had three up to 20; `reworded` has
other instructions for both agents; `roles swapped` gives each role the other's adapter.

Seeds together are given twice: over problems, for these trained teams, and over seeds, by Student's t of their gains. The
verdict asks more: each seed's own lower end must be above 15 points, under both ways of sampling. A run that misses it is
named. An attempt that ends with an error ends no other, is kept with what it had come to, and stands in every later report,
whether the next call, which tries the run again, finishes it or not.

Finished runs and finished evaluations are kept in --home under names that depend on all that decides them. The same command
again does what is missing, and continues a run that was stopped in the middle; Ctrl-C and SIGTERM stop it at once. --list
says what is done.
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path

from benchmarks.ended_together import processes_ended_together
from benchmarks.kept import describe_record
from benchmarks.pretrained_failures import failures_of, keep_failure
from benchmarks.pretrained_play import finish_run
from benchmarks.pretrained_runs import (
    LONE,
    STARTS,
    TRAINED,
    Order,
    Row,
    check_base,
    load_row,
    orders,
    progress_of,
    set_dose,
)
from benchmarks.pretrained_table import (
    comparison_table,
    curves,
    describe_row,
    dose_table,
    gain_table,
    pass_table,
    spell_curve,
    transcripts,
    verdict,
)
from benchmarks.training import services_to_go_on


def run_missing(wanted: Sequence[Order], home: Path, *, jobs: int) -> None:
    """Run what is missing, `jobs` at a time; each is told when it is done, and the error of one that fails is kept.

    Lone agents run after all others: their dose is the tokens of main.
    """
    for wave in ([each for each in wanted if each.arm not in LONE], [each for each in wanted if each.arm in LONE]):
        doses = [given for order in wave if (given := set_dose(order, home)) is not None]
        missing = [order for order in doses if load_row(order, home) is None]
        with processes_ended_together(jobs) as processes:
            of_order = {processes.submit(finish_run, order, home): order for order in missing}
            for future in as_completed(of_order):
                order, error = of_order[future], future.exception()
                if error is None:
                    print(describe_row(future.result()), flush=True)
                    continue
                print(f"{order.name} FAILED: {keep_failure(order, home, error).reason}", flush=True)


def rows_of(wanted: Sequence[Order], home: Path) -> list[Row]:
    """The rows of those that are finished."""
    given = [set_dose(order, home) for order in wanted]
    return [row for order in given if order is not None and (row := load_row(order, home)) is not None]


def list_orders(wanted: Sequence[Order], home: Path, *, jobs: int) -> str:
    """What is done, what is missing, and about how long that takes by what was measured."""
    lines, left_seconds, num_unknown = [], 0.0, 0
    trained = [row for row in rows_of(wanted, home) if row.arm not in STARTS]
    for order in wanted:
        given = set_dose(order, home)
        if given is not None and (row := load_row(given, home)) is not None:
            lines.append(f"done     {describe_row(row)}")
            continue
        begun = progress_of(given or order, home)
        failed = failures_of(given, home) if given is not None else []
        why = "; waits for the tokens of main" if given is None else f"; {failed[-1].reason}" if failed else ""
        lines.append(f"missing  {order.name}: {begun.fraction:.0%} of the training{why}")
        if order.arm in STARTS:
            continue
        if begun.fraction > 0:
            left_seconds += begun.seconds * (1 / begun.fraction - 1)
        elif trained:
            left_seconds += statistics.median(row.training_seconds for row in trained)
        else:
            num_unknown += 1
        if trained:
            left_seconds += statistics.median(row.evaluation_seconds for row in trained)
    unknown = f"{num_unknown} runs of which nothing is measured yet"
    if num_unknown and not left_seconds:
        return "\n".join([*lines, f"left: {unknown}"])
    lines.append(f"about {left_seconds / jobs / 60:.0f} minutes left with --jobs {jobs}")
    return "\n".join(lines) + (f", and {unknown}" if num_unknown else "")


def failures(wanted: Sequence[Order], home: Path) -> str:
    """Every attempt that ended with an error, how far it had come, and whether the run was finished later."""
    lines = []
    for order in [given for each in wanted if (given := set_dose(each, home)) is not None]:
        later = "finished later" if load_row(order, home) is not None else "not finished"
        for failure in failures_of(order, home):
            done = f"after {failure.num_steps} steps, {failure.num_tokens} tokens; {later}"
            lines.append(f"{order.name}: {failure.reason} ({done})")
            lines += [f"  {agent} {spell_curve(rates)}" for agent, rates in failure.solve_rates.items()]
    return "\n".join(lines) or "none"


def report(rows: Sequence[Row], failed: str, *, num_seeds: int) -> str:
    """All tables, curves and transcripts, the attempts that failed, and the verdict."""
    parts = {
        "Untrained agents, in percent with 95% intervals:": pass_table(rows),
        "Success in percent and paired gains with 95% intervals:": gain_table(rows),
        "Differences after training in points, held-out problems, paired:": comparison_table(rows),
        "Doses:": dose_table(rows),
        "Share of candidates that solve, step by step:": curves(rows),
        "Transcripts, by the most likely tokens:": transcripts(rows),
        "Attempts that ended with an error:": failed,
        "Verdict:": verdict(rows, num_seeds=num_seeds),
    }
    return "\n\n".join(f"{title}\n\n{text}" for title, text in parts.items())


def at_least_one(text: str) -> int:
    """A number of an argument. Raises ArgumentTypeError below 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: use a number of at least 1")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--arms", nargs="+", default=list(TRAINED), choices=list(TRAINED))
    parser.add_argument("--seeds", type=at_least_one, default=3, help="of main; each control has one")
    parser.add_argument("--problems", type=at_least_one, default=300, help="held-out ones of each suite")
    parser.add_argument("--steps", type=at_least_one, default=10)
    parser.add_argument("--jobs", type=at_least_one, default=1)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="beside the preset, in all runs"
    )
    parser.add_argument("--list", action="store_true", help="tell what is done and what is missing")
    asked = parser.parse_args()
    home: Path = (asked.home or Path(tempfile.mkdtemp(prefix="troupe-benchmark-"))).resolve()
    wanted = orders(
        asked.arms, num_seeds=asked.seeds, num_steps=asked.steps, num_problems=asked.problems, overrides=asked.set
    )
    print(f"SmolLM2-135M-Instruct, SHA-256 {check_base()}, as pinned", flush=True)
    print(describe_record(home, only_list=asked.list), end="")
    if not asked.list:
        with services_to_go_on(home):
            run_missing(wanted, home, jobs=asked.jobs)
    print(list_orders(wanted, home, jobs=asked.jobs))
    if rows := rows_of(wanted, home):
        print(f"\n{report(rows, failures(wanted, home), num_seeds=asked.seeds)}")
    print(f"\nkept in {home}")


if __name__ == "__main__":
    main()
