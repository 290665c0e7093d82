"""The arithmetic of the table of arms."""

from tests.benchmarks.arms import RUNS, Trained, table


def ran(run: str, seed: int, before: float, after: float) -> list[Trained]:
    return [
        Trained(game="g", run=run, seed=seed, sampling=how, before=before, after=after, num_steps=1, num_tokens=1)
        for how in ("sample", "greedy")
    ]


def test_differences_are_of_one_seed_whatever_the_order() -> None:
    rows = [
        row
        for run in RUNS
        if run != "team-grpo"
        for seed in range(3)
        for row in ran(run, seed, 0.1 * seed, 0.1 * seed + 0.2)
    ]
    rows += [row for seed in (2, 0, 1) for row in ran("team-grpo", seed, 0.1 * seed, 0.1 * seed + 0.1)]
    cells = {line.split(" | ")[0]: line.split(" | ")[1] for line in table(rows).splitlines() if " | " in line}
    assert cells["| team, AT-GRPO, one policy"] == "30.0 ± 24.8"
    assert cells["| team, prompted"] == "10.0 ± 24.8"
    assert cells["| *team, AT-GRPO, one policy*, less *team, GRPO*"] == "+10.0 ± 0.0"
    assert cells["| *team, AT-GRPO, one policy*, less *single agent, GRPO*"] == "+0.0 ± 0.0"
