"""The runs behind the table of arms: their settings, their training, and what is kept of a finished one."""

import json
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.kept import row_in, write
from benchmarks.origin import read_origin, start_of_run
from flows.steps import TEAM_PIPELINE as PIPELINE

UNMIXED = ("rollout.random_handoff_probability=0",)
MIXED = ("rollout.random_handoff_probability=0.75",)
GRPO = ("algorithm.advantage=grpo", *UNMIXED)
RUNS: Mapping[str, tuple[str, ...]] = {
    "single": ("rollout.mode=single", *GRPO),
    "team-grpo": ("rollout.mode=independent", *GRPO),
    "at-grpo-greedy": UNMIXED,
    "at-grpo-mixed": MIXED,
    "per-role": MIXED,
    "c3": ("rollout.mode=nested", "algorithm.advantage=c3", *UNMIXED),
}
"""What each run changes in a game's preset; `per-role` also has a policy per role."""
CLAIMED_RUNS = ("single", "team-grpo", "at-grpo-greedy", "at-grpo-mixed")
CLAIMED_GAMES = ("plan-path", "sokoban")
GAMES = (*CLAIMED_GAMES, "stateful-calendar")
SAMPLINGS = ("sample", "greedy")
FIRST_STEPS = 4
NUM_HELD_OUT = 500
DIGITS_OF_KEY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run that the table needs."""

    game: str
    run: str
    seed: int
    budget_tokens: int
    overrides: tuple[str, ...] = ()
    """Beside those of the run."""

    def config(self, store: Path = Path()) -> Any:
        """The run's configuration, with a number of steps that only begins it and without held-out problems."""
        from flows.presets import preset_config

        overrides = [f"seed={self.seed}", "tracking.kind=none", *RUNS[self.run], *self.overrides]
        overrides += ["store.kind=local", f"store.root={store}", "evaluation.every=0", "evaluation.sampling=[]"]
        config = preset_config(self.game, overrides, num_steps=FIRST_STEPS)
        return with_a_policy_per_role(config) if self.run == "per-role" else config

    @property
    def run_id(self) -> str:
        """The name of the run in the store. It depends on all that decides weights, so that changed settings or stages start
        another run; a larger budget continues the same one."""
        return f"{self.game}-{self.run}-{self.seed}-{self._key()}"

    @property
    def row_name(self) -> str:
        """The name of the finished row: it depends on the budget and the evaluation too."""
        from components.identity import fingerprint

        held_out = fingerprint(with_held_out(self.config()).evaluation.model_dump(mode="json"))
        return f"{self.run_id}-{self.budget_tokens}-{held_out[:DIGITS_OF_KEY]}"

    def _key(self) -> str:
        from components.identity import fingerprint

        decisive = {"config": self.config().result_fields(), "stages": versions_of_stages()}
        return fingerprint(decisive)[:DIGITS_OF_KEY]


@cache
def versions_of_stages() -> dict[str, int]:
    """What names of kept rows depend on: results of another version of a stage are other results."""

    return PIPELINE.versions


def with_a_policy_per_role(config: Any) -> Any:
    """`config` with each role played by a policy of its own, which starts like the one that played it."""
    agents = {role: agent.model_copy(update={"policy": role}) for role, agent in config.agents.items()}
    policies = {role: config.policies[agent.policy] for role, agent in config.agents.items()}
    return type(config).model_validate(
        config.model_copy(update={"agents": agents, "policies": policies}).model_dump(mode="json")
    )


def with_held_out(config: Any) -> Any:
    """`config` with held-out problems before the first and after the last step."""
    evaluation = config.evaluation.model_copy(update={"sampling": SAMPLINGS, "num_problems": NUM_HELD_OUT})
    return config.model_copy(update={"evaluation": evaluation})


def add_evaluations(config: Any, num_steps: int) -> Any:
    """`config` with held-out problems before the first and after `num_steps` steps, also of a run that has more."""
    held_out = with_held_out(config)
    evaluation = held_out.evaluation.model_copy(update={"every": num_steps})
    return held_out.model_copy(update={"num_steps": num_steps, "evaluation": evaluation})


def orders(
    games: Sequence[str],
    runs: Sequence[str],
    *,
    budget_tokens: int,
    most_seeds: int | None = None,
    overrides: Sequence[str] = (),
) -> list[Order]:
    """All runs of a table, seed by seed: five seeds for the runs that its claim rests on, three for others."""
    found = [
        Order(game=game, run=run, seed=seed, budget_tokens=budget_tokens, overrides=tuple(overrides))
        for game in games
        for run in runs
        for seed in range(num_seeds(game, run) if most_seeds is None else min(most_seeds, num_seeds(game, run)))
    ]
    return sorted(found, key=lambda order: order.seed)


def num_seeds(game: str, run: str) -> int:
    """How many seeds the table has of a run."""
    return 5 if game in CLAIMED_GAMES and run in CLAIMED_RUNS else 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One finished run: success on held-out problems before and after, by way of sampling, and what it took."""

    game: str
    run: str
    seed: int
    before: Mapping[str, float]
    after: Mapping[str, float]
    num_steps: int
    num_tokens: int
    """Sampled by the rollouts, every candidate counted."""
    num_rows: int
    """Answers that the updates saw."""
    num_rows_with_signal: int
    """Those whose advantage was not 0."""
    num_updates: int
    """Optimizer steps, of all policies."""
    first_role_share: float | None
    """Of the gradient, the mean over steps; None if a single role or several policies are trained."""
    seconds: float
    """Of the steps and the evaluations."""
    start: Mapping[str, str] | None = None
    """The digest of each policy before training; this and the next two are None in a record that has none."""
    processor: str | None = None
    commit: str | None = None


def train_arm(order: Order, home: Path) -> Trained:
    """Train until the rollouts have sampled the budget, and keep the row. What an earlier call did is not done again."""
    from components.artifacts.local import LocalArtifactStore
    from flows.train import train

    store = LocalArtifactStore(home / "store")
    config = order.config(home / "store")
    steps = steps_of_budget(config, order.run_id, store, budget_tokens=order.budget_tokens)
    num_steps = len(steps)
    began = time.monotonic()
    summary = train(add_evaluations(config, num_steps), order.run_id)
    rates = {(report["sampling"], report["step"]): report["success_rate"] for report in summary["evaluations"]}
    row = Trained(
        game=order.game, run=order.run, seed=order.seed,
        before={sampling: rates[sampling, 0] for sampling in SAMPLINGS},
        after={sampling: rates[sampling, num_steps] for sampling in SAMPLINGS},
        seconds=time.monotonic() - began + sum(seconds_of(step) for step in steps),
        start=start_of_run(store, config, order.run_id),
        **read_origin(),
        **dose(steps, list(config.agents)),
    )  # fmt: skip
    keep(row, order, home)
    return row


def steps_of_budget(config: Any, run_id: str, store: Any, *, budget_tokens: int) -> list[Mapping[str, Any]]:
    """Train until the rollouts have sampled the budget; the run's steps up to there.

    They end with the first step at which the budget is reached, however often the run was interrupted: steps beyond it,
    trained because the number needed was only estimated, count nowhere.
    """
    from flows.train import train
    from troupe.runs.documents import run_document

    num_steps = FIRST_STEPS
    while True:
        train(config.model_copy(update={"num_steps": num_steps}), run_id)
        steps: list[Mapping[str, Any]] = run_document(store, run_id)["steps"]
        tokens = [tokens_of(step) for step in steps]
        if sum(tokens) >= budget_tokens:
            return steps[: num_steps_within(tokens, budget_tokens)]
        num_steps = len(steps) + max(1, round((budget_tokens - sum(tokens)) / (sum(tokens) / len(steps))))


def num_steps_within(tokens: Sequence[int], budget_tokens: int) -> int:
    """The first number of steps whose rollouts sampled at least the budget.

    **Example** 40, 50 and 60 tokens: 2 steps for a budget of 90, 3 for one of 91.
    """
    total = 0
    for step, count in enumerate(tokens):
        total += count
        if total >= budget_tokens:
            return step + 1
    raise AssertionError(f"{total} tokens in {len(tokens)} steps, a budget of {budget_tokens}")


def dose(steps: Sequence[Mapping[str, Any]], roles: Sequence[str]) -> dict[str, Any]:
    """The counts of a row. Each metric is summed over the policies, or is that of the only one."""
    from components.metrics import gradient_share

    updates = [_update_metrics(step["metrics"]) for step in steps]
    shares = [update[name] for update in updates if (name := gradient_share(roles[0])) in update]
    return {
        "num_steps": len(steps),
        "num_tokens": sum(tokens_of(step) for step in steps),
        "num_rows": int(sum(update["num_rows"] for update in updates)),
        "num_rows_with_signal": int(sum(update["num_rows_with_signal"] for update in updates)),
        "num_updates": int(sum(update["num_updates"] for update in updates)),
        "first_role_share": statistics.mean(shares) if shares else None,
    }


def _update_metrics(metrics: Mapping[str, float]) -> Counter[str]:
    """The metrics `train/<policy>/<name>` of a step by name, summed over policies."""
    found: Counter[str] = Counter()
    for name, value in metrics.items():
        if name.startswith("train/"):
            found[name.split("/", 2)[2]] += value  # type: ignore[assignment]
    return found


def tokens_of(step: Mapping[str, Any]) -> int:
    """The tokens that a step's rollouts sampled."""
    from components.metrics import NUM_GENERATED_TOKENS

    return int(step["metrics"][NUM_GENERATED_TOKENS])


def seconds_of(step: Mapping[str, Any]) -> float:
    """Wall time of a step."""
    return float(sum(step["timings"].values()))


def keep(row: Trained, order: Order, home: Path) -> None:
    """Write the row of a finished run, as a whole or not at all."""
    write(home / "rows" / f"{order.row_name}.json", json.dumps(asdict(row), indent=1).encode())


def load_row(order: Order, home: Path) -> Trained | None:
    """The row of a finished run, or None."""
    pattern = f"{order.game}-{order.run}-{order.seed}-*-{order.budget_tokens}-*"
    found = row_in(home, order.row_name, pattern=pattern)
    return None if found is None else Trained(**found)


def rows_of(ordered: Iterable[Order], home: Path) -> list[Trained]:
    """The rows of those that are finished."""
    return [row for order in ordered if (row := load_row(order, home)) is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What an unfinished run has done: the share of its budget, and the seconds of its steps."""

    fraction: float = 0.0
    seconds: float = 0.0


def progress_of(order: Order, home: Path) -> Begun:
    """How far an unfinished run is."""
    from components.artifacts.local import LocalArtifactStore
    from components.errors import ConfigurationError
    from troupe.runs.documents import run_document

    try:
        steps = run_document(LocalArtifactStore(home / "store"), order.run_id)["steps"]
    except ConfigurationError:  # not begun
        return Begun()
    fraction = min(1.0, sum(tokens_of(step) for step in steps) / order.budget_tokens)
    return Begun(fraction=fraction, seconds=sum(seconds_of(step) for step in steps))
