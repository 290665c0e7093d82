"""The arithmetic of the tables of arms, and which runs are kept for which settings."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import arm_runs
from benchmarks.arm_runs import (
    GAMES,
    RUNS,
    SAMPLINGS,
    Order,
    Trained,
    dose,
    keep,
    load_row,
    num_steps_within,
    train_arm,
)
from benchmarks.arm_table import difference_table, success_table
from benchmarks.power import detectable_difference


@pytest.fixture(autouse=True)
def _versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages of fixed versions: reading the real ones imports all stages."""
    monkeypatch.setattr(arm_runs, "versions_of_stages", lambda: {"collect_rollouts": 1})


def ran(run: str, seed: int, before: float, after: float, *, game: str = "plan-path") -> Trained:
    return Trained(
        game=game, run=run, seed=seed, before={"sample": before, "greedy": before},
        after={"sample": after, "greedy": after}, num_steps=1, num_tokens=100 + seed, num_rows=10, num_rows_with_signal=4,
        num_updates=2, first_role_share=None if run == "single" else 0.25, seconds=60.0 * (seed + 1),
    )  # fmt: skip


def cells(table: str) -> dict[str, list[str]]:
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    return {line[0]: line[1:] for line in lines}


def test_differences_are_of_one_seed_whatever_the_order() -> None:
    rows = [ran(run, seed, 0.1 * seed, 0.1 * seed + 0.2) for run in RUNS if run != "team-grpo" for seed in range(3)]
    rows += [ran("team-grpo", seed, 0.1 * seed, 0.1 * seed + 0.1) for seed in (2, 0, 1)]
    success = cells(success_table(rows))
    assert success["team, AT-GRPO, best handed on"] == ["30.0 ± 24.8", "30.0 ± 24.8", "93.0", "96.0"]
    assert success["team, prompted"] == ["10.0 ± 24.8", "10.0 ± 24.8", "71.0", "16.0"]
    found = cells(difference_table(rows))
    handed_on, grpo = "*team, AT-GRPO, best handed on*", "*team, GRPO*"
    assert found[f"{handed_on}, less {grpo}"][0] == "**+10.0 ± 0.0** (0.0)"
    assert found[f"{handed_on}, less *single agent, GRPO*, from starts of their own"][0] == "+0.0 ± 0.0 (0.0)"


def test_each_difference_says_what_so_many_seeds_could_have_seen_and_pairs_only_seeds_that_both_have() -> None:
    rows = [ran("at-grpo-greedy", seed, 0.0, after) for seed, after in enumerate((0.51, 0.52, 0.53, 0.9))]
    rows += [ran("team-grpo", seed, 0.0, 0.5) for seed in range(3)]
    cell = cells(difference_table(rows))["*team, AT-GRPO, best handed on*, less *team, GRPO*"][0]
    assert cell == f"+2.0 ± 2.5 ({detectable_difference([1.0, 2.0, 3.0]):.1f})"
    without_a_common_seed = rows[3:5]
    assert list(cells(difference_table(without_a_common_seed))) == ["points, 95% interval (could have seen)", "---"]


def test_counts_are_sums_over_steps_and_policies_and_the_share_is_a_mean_over_steps_that_have_one() -> None:
    def step(**updates: float) -> dict[str, dict[str, float]]:
        named = {name.replace("__", "/"): value for name, value in updates.items()}
        return {"metrics": {"rollout/num_generated_tokens": 50.0, **named}}

    one = {"train/a/num_rows": 8.0, "train/a/num_rows_with_signal": 3.0, "train/a/num_updates": 2.0}
    other = {"train/b/num_rows": 4.0, "train/b/num_rows_with_signal": 0.0, "train/b/num_updates": 1.0}
    found = dose([step(**one, **other), step(**one, **{"train/a/gradient_share/first": 0.4})], ["first", "last"])
    assert found == {
        "num_steps": 2, "num_tokens": 100, "num_rows": 20, "num_rows_with_signal": 6, "num_updates": 5,
        "first_role_share": 0.4,
    }  # fmt: skip


@pytest.mark.parametrize(("budget", "steps"), [(1, 1), (40, 1), (41, 2), (90, 2), (91, 3), (150, 3)])
def test_a_run_ends_with_the_first_step_at_which_the_budget_is_reached(budget: int, steps: int) -> None:
    assert num_steps_within([40, 50, 60], budget) == steps


class Interrupted(Exception):
    """What ends a training in the middle."""


@dataclass
class FakeRun:
    """A run whose steps sample known numbers of tokens, and which stops before steps that it is told to stop before."""

    stops: list[int]
    steps: list[dict[str, Any]] = field(default_factory=list)
    num_trained: int = 0
    asked: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def train(self, config: Any, run_id: str) -> dict[str, Any]:
        self.asked.append((config.num_steps, config.evaluation.sampling))
        for step in range(len(self.steps), config.num_steps):
            if step in self.stops:
                self.stops.remove(step)
                raise Interrupted
            updates = {
                "train/team/num_rows": 9.0,
                "train/team/num_rows_with_signal": step,
                "train/team/num_updates": 2.0,
            }
            metrics = {"rollout/num_generated_tokens": 40 + 7 * step, **updates}
            self.steps.append({"metrics": metrics, "timings": {"time/update_policy_seconds": 1.0}})
            self.num_trained += 1
        reports = [
            {"sampling": sampling, "step": step, "success_rate": step / 1000}
            for sampling in config.evaluation.sampling
            for step in (0, config.num_steps)
        ]
        return {"evaluations": reports}


@pytest.mark.parametrize("stops", [[], [0], [2, 3], [4], [7, 7], [8], [10]])
def test_a_run_interrupted_anywhere_trains_no_step_twice_and_ends_with_the_same_row(
    stops: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import flows.train
    import troupe.runs.documents

    run = FakeRun(stops=list(stops))
    monkeypatch.setattr(flows.train, "train", run.train)
    monkeypatch.setattr(troupe.runs.documents, "run_document", lambda store, run_id: {"steps": run.steps})
    monkeypatch.setattr(arm_runs, "start_of_run", lambda store, config, run_id: {"team": f"start of {run_id}"})
    order = Order(game="tiny", run="team-grpo", seed=0, budget_tokens=550)
    row = None
    while row is None:
        try:
            row = train_arm(order, tmp_path)
        except Interrupted:
            assert load_row(order, tmp_path) is None
    # 40, 47, 54... tokens: 516 after 8 steps, 612 after 9. By the mean of the first steps it would take 11.
    assert (row.num_steps, row.num_tokens, row.num_updates, row.num_rows_with_signal) == (9, 612, 18, 36)
    assert row.after == {"sample": 0.009, "greedy": 0.009}
    assert load_row(order, tmp_path) == row
    assert row.start == {"team": f"start of {order.run_id}"}
    assert row.processor is not None
    assert row.commit is not None
    assert run.num_trained == len(run.steps) <= 11
    assert [sampling for _, sampling in run.asked if sampling] == [SAMPLINGS]  # held-out problems are played once


def test_a_row_is_found_only_for_the_settings_the_budget_and_the_stages_that_it_was_computed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order(game="plan-path", run="at-grpo-greedy", seed=0, budget_tokens=1000)
    row = ran("at-grpo-greedy", 0, 0.1, 0.3)
    keep(row, order, tmp_path)
    assert load_row(order, tmp_path) == row
    others = [
        replace(order, budget_tokens=2000),
        replace(order, seed=1),
        replace(order, run="at-grpo-mixed"),
        replace(order, overrides=("training.learning_rate=0.1",)),
    ]
    assert [load_row(other, tmp_path) for other in others] == [None] * 4
    assert replace(order, budget_tokens=2000).run_id == order.run_id  # a larger budget continues the run
    other_evaluation = replace(order, overrides=("evaluation.problems_per_block=100",))
    assert other_evaluation.run_id == order.run_id
    assert load_row(other_evaluation, tmp_path) is None
    assert len({order.run_id, *(other.run_id for other in others[1:])}) == 4
    monkeypatch.setattr(arm_runs, "versions_of_stages", lambda: {"collect_rollouts": 2})
    assert load_row(order, tmp_path) is None


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("run", list(RUNS))
def test_every_run_of_the_table_is_a_valid_configuration_with_a_valid_name(game: str, run: str) -> None:
    from components.identity import check_run_id

    order = Order(game=game, run=run, seed=0, budget_tokens=1)
    config = order.config()
    assert check_run_id(order.run_id) == order.run_id
    assert config.evaluation.every == 0  # held-out problems are played at the beginning and at the end only
    assert len({agent.policy for agent in config.agents.values()}) == (2 if run == "per-role" else 1)
    assert (config.rollout.random_handoff_probability > 0) == (run in ("at-grpo-mixed", "per-role"))
