"""Agents alone and teams, prompted and trained, at an equal budget of generated tokens.

    python -m tests.benchmarks.arms [--games plan-path sokoban] [--seeds 3] [--budget-tokens 300000] [--jobs 1] [--home DIR]

Six arms a game and seed. "prompted" is a policy after its warm start alone, which is cloned from noisy play up to the same
success for every arm; "trained" goes on from there until its rollouts have sampled as many tokens as the budget says, every
candidate counted, chosen or not. All arms learn from the preset's rewards with its learning rate and its problems per step.
Success is that of 500 held-out problems, one answer per turn, without a tree; a single agent has as many turns as the team.

Finished runs are kept in --home, so that an interrupted benchmark goes on; it ends with the table in Markdown.
"""

import argparse
import csv
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from tests.benchmarks.intervals import mean_interval
from tests.benchmarks.training import services

UNMIXED = ("rollout.continue_from=best", "rollout.random_handoff_probability=0")
GRPO = ("algorithm.advantage=grpo", *UNMIXED)
PER_ROLE = (
    "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}",
    "policies={tool: {base: tiny}, plan: {base: tiny}}",
)
RUNS: dict[str, tuple[str, ...]] = {
    "single": ("rollout.mode=single", *GRPO),
    "team-grpo": ("rollout.mode=independent", *GRPO),
    "at-grpo-shared": (),
    "at-grpo-per-role": PER_ROLE,
}
ARMS = {
    "single agent, prompted": ("single", "before"),
    "single agent, GRPO": ("single", "after"),
    "team, prompted": ("at-grpo-shared", "before"),
    "team, GRPO": ("team-grpo", "after"),
    "team, AT-GRPO, one policy": ("at-grpo-shared", "after"),
    "team, AT-GRPO, a policy per role": ("at-grpo-per-role", "after"),
}
PAIRS = (
    ("team, AT-GRPO, one policy", "team, GRPO"),
    ("team, AT-GRPO, one policy", "single agent, GRPO"),
    ("team, AT-GRPO, a policy per role", "team, AT-GRPO, one policy"),
)
"""Arms whose difference is told, seed by seed: an arm, and what it is compared with."""
FIRST_STEPS = 10
NUM_HELD_OUT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One run: success on held-out problems before and after, and what it took."""

    game: str
    run: str
    seed: int
    sampling: str
    before: float
    after: float
    num_steps: int
    num_tokens: int


def trained(game: str, run: str, seed: int, *, budget_tokens: int, home: Path) -> list[Trained]:
    """Train one run until its rollouts have sampled the budget; one row for each way of sampling."""
    from components.artifacts.local import LocalArtifactStore
    from components.metrics import NUM_GENERATED_TOKENS
    from flows.presets import preset_config
    from flows.train import train
    from troupe.runs.reading import run_document

    store, run_id = LocalArtifactStore(home / "store"), f"{game}-{run}-{seed}"
    overrides = [f"seed={seed}", "store.kind=local", f"store.root={home / 'store'}", "tracking.kind=none", *RUNS[run]]
    overrides += [f"evaluation.num_problems={NUM_HELD_OUT}"]
    num_steps, num_tokens = FIRST_STEPS, 0
    while True:
        summary = train(preset_config(game, overrides, num_steps=num_steps), run_id)
        steps = run_document(store, run_id)["steps"]
        num_tokens = sum(int(step["metrics"][NUM_GENERATED_TOKENS]) for step in steps)
        if num_tokens >= budget_tokens:
            break
        num_steps = len(steps) + max(1, round((budget_tokens - num_tokens) / (num_tokens / len(steps))))
    reports = [report for report in summary["evaluations"] if report["step"] in (0, num_steps)]
    rates = {(report["sampling"], report["step"]): report["success_rate"] for report in reports}
    return [
        Trained(
            game=game, run=run, seed=seed, sampling=sampling, before=rates[sampling, 0], after=rates[sampling, num_steps],
            num_steps=num_steps, num_tokens=num_tokens,
        )
        for sampling in ("sample", "greedy")
    ]  # fmt: skip


def table(rows: Iterable[Trained]) -> str:
    """Success in percent by arm and game, as Markdown: sampled at temperature 1, and greedy; then differences of arms."""
    found = list(rows)
    games = list(dict.fromkeys(row.game for row in found))
    columns = [(game, sampling) for game in games for sampling in ("sample", "greedy")]
    lines = [
        "| arm | " + " | ".join(f"{game}, {sampling}" for game, sampling in columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for arm in ARMS:
        cells = [_cell(by_seed(found, arm, *column).values(), ".1f") for column in columns]
        lines.append(f"| {arm} | " + " | ".join(cells) + " |")
    for arm, other in PAIRS:
        cells = []
        for column in columns:
            mine, theirs = by_seed(found, arm, *column), by_seed(found, other, *column)
            cells.append(_cell([mine[seed] - theirs[seed] for seed in mine], "+.1f"))
        lines.append(f"| *{arm}*, less *{other}* | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def by_seed(rows: Iterable[Trained], arm: str, game: str, sampling: str) -> dict[int, float]:
    """Success of one arm in percent."""
    run, when = ARMS[arm]
    mine = [row for row in rows if (row.game, row.run, row.sampling) == (game, run, sampling)]
    return {row.seed: 100 * float(getattr(row, when)) for row in mine}


def _cell(values: Iterable[float], spelled: str) -> str:
    mean, half = mean_interval(list(values))
    return f"{mean:{spelled}} ± {half:.1f}"


def results(games: Sequence[str], num_seeds: int, *, budget_tokens: int, home: Path, jobs: int) -> list[Trained]:
    """All runs, those of an earlier call among them; each is told and kept when it is done."""
    file = home / f"runs-{budget_tokens}.csv"
    wanted = [(game, run, seed) for seed in range(num_seeds) for game in games for run in RUNS]
    rows = read(file) if file.exists() else []
    done = {(row.game, row.run, row.seed) for row in rows}
    missing = [each for each in wanted if each not in done]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        futures = [processes.submit(trained, *each, budget_tokens=budget_tokens, home=home) for each in missing]
        for future in futures:
            rows += (new := future.result())
            write(file, rows)
            for row in new:
                print(f"{row.game} {row.run} seed {row.seed} {row.sampling}: {row.before:.3f} -> {row.after:.3f} "
                      f"({row.num_steps} steps, {row.num_tokens} tokens)", flush=True)  # fmt: skip
    return [row for row in rows if (row.game, row.run, row.seed) in wanted]


def read(file: Path) -> list[Trained]:
    """The rows of an earlier call."""
    with file.open() as lines:
        return [
            Trained(
                game=row["game"], run=row["run"], seed=int(row["seed"]), sampling=row["sampling"],
                before=float(row["before"]), after=float(row["after"]), num_steps=int(row["num_steps"]),
                num_tokens=int(row["num_tokens"]),
            )
            for row in csv.DictReader(lines)
        ]  # fmt: skip


def write(file: Path, rows: Sequence[Trained]) -> None:
    """Keep `rows`; the file is replaced as a whole."""
    names = list(Trained.__dataclass_fields__)
    new = file.with_suffix(".new")
    with new.open("w") as lines:
        writer = csv.DictWriter(lines, names)
        writer.writeheader()
        writer.writerows({name: getattr(row, name) for name in names} for row in rows)
    new.replace(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=["plan-path", "sokoban"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget-tokens", type=int, default=300_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--home", type=Path)
    asked = parser.parse_args()
    home: Path = asked.home or Path(tempfile.mkdtemp(prefix="troupe-benchmark-"))
    home.mkdir(parents=True, exist_ok=True)
    with services(home / "services"):
        rows = results(
            asked.games, asked.seeds, budget_tokens=asked.budget_tokens, home=home.resolve(), jobs=asked.jobs
        )
    print(
        f"\nat {asked.budget_tokens} generated tokens, mean of {asked.seeds} seeds and its 95% interval, in percent\n"
    )
    print(table(rows))
    print(f"\nruns: {home}")


if __name__ == "__main__":
    main()
