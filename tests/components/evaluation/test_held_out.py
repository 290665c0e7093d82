"""Held-out play, against real games with scripted players."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from components.config import RewardConfig
from components.environments.registry import family, family_options
from components.errors import TooManyFailedEpisodes
from components.evaluation.held_out import (
    EvalPlan,
    EvalSetting,
    ReportHeader,
    list_answer_metrics,
    play_block,
    report_from,
)
from components.evaluation.statistics import rate_interval
from components.evaluation.suite_play import SuitePlay, join_plays
from components.evaluation.suites import suite_problems
from components.mathematics.intervals import wilson_interval
from components.rewards.rubric import rubric_for
from components.rollout.router import RoleBinding, Router
from components.schema import EvalReport, PolicyVersion
from components.session.scenario import scenario_of
from flows.presets import preset_config
from tests.components.environments.bare import bare
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator
from tests.components.rollout.toy_team import (
    RUBRIC,
    PaidGenerator,
    RecordingGenerator,
    ToyFamily,
    toy_problems,
    toy_router,
)

GAME, OPTIONS = family("plan_path"), family_options("plan_path", {})
VERSION = PolicyVersion(policy="p", step=3, weights_digest="d")


def solutions(problems: Any) -> dict[str, str]:
    """The expert's first answer by the tool agent's and by the board part of the plan agent's prompt."""
    found = {}
    for problem in problems:
        env = GAME.build(problem)
        found[env.observe("tool_agent").state[1:].split(":")[0]] = GAME.expert_action(env.position, "tool_agent")
    return found


def plan(n: int = 40, **values: Any) -> EvalPlan:
    problems = suite_problems("test", bare(GAME), OPTIONS, num_problems=n, seed=0)
    defaults = {
        "split": "test",
        "sampling": "sample",
        "problems": problems,
        "problems_per_block": 16,
        "turn_order": GAME.roles,
        "max_turns": 1,
        "seed": 0,
    }
    return EvalPlan(**{**defaults, **values})


def evaluate(eval_plan: EvalPlan, *, progress: Any = None, **setting: Any) -> EvalReport:
    plays = [play_block(eval_plan, block, EvalSetting(**setting), progress) for block in eval_plan.blocks]
    heading = ReportHeader(
        agent="p@3",
        suite="plan_path/test",
        suite_digest="d",
        step=3,
        sampling=eval_plan.sampling,
        seed=eval_plan.seed,
    )
    play = join_plays(plays)
    return report_from(heading, play, list_answer_metrics(play))


def report(eval_plan: EvalPlan, tool: Any, planner: Any, **options: Any) -> EvalReport:
    known = solutions(eval_plan.problems)

    def respond(prompt: str, seed: int) -> str:
        board, shown = prompt[1:].split(":")
        return (tool if prompt[0] == "T" else planner)(known.get(board, "U"), shown, seed)

    engine = ScriptedGenerator(respond, CharacterTokenizer(GAME.alphabet(OPTIONS)), VERSION)
    seat = RoleBinding(policy="p", prompt_format="compact", max_new_tokens=11)
    router = Router({"p": engine}, seats=dict.fromkeys(GAME.roles, seat), versions={"p": VERSION})
    rubric = rubric_for(GAME, RewardConfig())
    return evaluate(eval_plan, family=bare(GAME), router=router, rubric=rubric, **options)


def answer_nothing(solution: str, shown: str, seed: int) -> str:
    return ""


def expert(solution: str, shown: str, seed: int) -> str:
    return solution


def copying(solution: str, shown: str, seed: int) -> str:
    return shown.split("|")[0].rstrip("-") or "U"


def test_experts_solve_everything_and_keep_every_proposal() -> None:
    told: list[tuple[float, int]] = []
    result = report(plan(), expert, copying, progress=lambda done, total: told.append((done, total)))
    assert (result.n, result.num_successes, result.success_rate) == (40, 40, 1.0)
    assert (result.keep_rate, result.repair_rate) == (1.0, None)
    assert result.interval == wilson_interval(40, 40)
    assert result.mean_reward == pytest.approx(1.0 + 0.2 + 0.1)
    assert told == [(0, 16), (16, 16), (0, 16), (16, 16), (0, 8), (8, 8)]
    assert (result.suite, result.step, result.sampling) == ("plan_path/test", 3, "sample")


def test_a_planner_that_repairs_is_told_from_one_that_copies() -> None:
    def half(solution: str, shown: str, seed: int) -> str:
        return solution if len(solution) % 2 else "U"

    repaired = report(plan(), half, expert)
    assert (repaired.success_rate, repaired.keep_rate, repaired.repair_rate) == (1.0, 1.0, 1.0)
    copied = report(plan(), half, copying)
    assert (copied.keep_rate, copied.repair_rate) == (1.0, 0.0)
    assert 0 < copied.success_rate < 1
    assert copied.metrics["eval/sample/tool_agent/solve_rate"] == copied.success_rate
    assert copied.num_solved_P == tuple(len(each) % 2 == 1 for each in solutions(plan().problems).values())


def test_a_report_has_the_success_of_each_turn_and_of_several_samples() -> None:
    def lucky(solution: str, shown: str, seed: int) -> str:
        return solution if seed % 2 else "U"

    found = report(plan(30, num_samples=4, max_turns=2), lucky, copying)
    assert (found.n, found.num_samples, found.num_successes) == (30, 4, sum(found.num_solved_P))
    assert found.success_rate == pytest.approx(found.num_successes / 120)
    assert found.interval == rate_interval(found.rates_P, num_samples=4)
    by_turn = [found.metrics[f"eval/sample/solved_by_turn/{turn}"] for turn in (1, 2)]
    assert 0 < by_turn[0] < by_turn[1] == found.success_rate
    assert len({*found.num_solved_P}) > 2  # samples of one problem are drawn apart


def test_blocks_add_up() -> None:
    def half(solution: str, shown: str, seed: int) -> str:
        return solution if len(solution) % 2 else "U"

    whole, parts = (replace(report(plan(40, problems_per_block=size), half, expert), metrics={}) for size in (40, 7))
    assert whole == parts
    both = [report(plan(40, problems_per_block=size), half, expert).metrics for size in (40, 7)]
    assert {k: v for k, v in both[0].items() if "seconds" not in k} == {
        k: v for k, v in both[1].items() if "seconds" not in k
    }


def test_a_play_survives_json() -> None:
    adapter = TypeAdapter(SuitePlay)
    block = plan(4)
    seat = RoleBinding(policy="p", prompt_format="compact", max_new_tokens=11)
    engine = ScriptedGenerator(lambda prompt, seed: "U", CharacterTokenizer(GAME.alphabet(OPTIONS)), VERSION)
    router = Router({"p": engine}, seats=dict.fromkeys(GAME.roles, seat), versions={"p": VERSION})
    rubric = rubric_for(GAME, RewardConfig())
    played = play_block(block, block.problems, EvalSetting(family=bare(GAME), router=router, rubric=rubric))
    assert adapter.validate_python(adapter.dump_python(played, mode="json")) == played
    assert played.problems_P == tuple(problem.problem_id for problem in block.problems)
    assert played.agents["tool_agent"].num_tokens == 2 * 4


def test_malformed_answers_are_reported_by_agent() -> None:
    def misspelt(solution: str, shown: str, seed: int) -> str:
        return "T" if len(solution) % 2 else solution

    found = report(plan(), misspelt, copying).metrics
    num_odd = sum(len(each) % 2 for each in solutions(plan().problems).values())
    assert 0 < num_odd < 40
    assert found["eval/sample/tool_agent/malformed_rate"] == num_odd / 40
    assert found["eval/sample/plan_agent/malformed_rate"] == 0.0


def test_reaching_the_last_turn_is_not_success() -> None:
    result = report(plan(max_turns=3), answer_nothing, answer_nothing)
    assert (result.num_successes, result.keep_rate, result.repair_rate) == (0, None, 0.0)
    assert result.interval[0] == 0.0
    assert result.metrics["eval/sample/mean_nodes"] == 6.0


def test_the_last_agent_alone_sees_no_proposal() -> None:
    seen = set()

    def looks(solution: str, shown: str, seed: int) -> str:
        seen.add(shown.split("|")[0])
        return solution

    result = report(plan(turn_order=GAME.roles[-1:]), answer_nothing, looks)
    assert (result.success_rate, result.keep_rate, result.repair_rate) == (1.0, None, None)
    assert seen == {"-" * 10}


def test_one_candidate_a_node_and_greedy_is_temperature_zero() -> None:
    toy, engine = ToyFamily(2), RecordingGenerator()
    problems = tuple(each.problem for each in toy_problems(toy, 5))
    toy_plan = plan(problems=problems, turn_order=toy.roles, max_turns=2)
    for sampling, temperature in (("sample", 1.0), ("greedy", 0.0)):
        engine.calls.clear()
        evaluate(replace(toy_plan, sampling=sampling), family=toy, router=toy_router(toy, engine), rubric=RUBRIC)
        asked = [request for call in engine.calls for request in call]
        assert {(len(request.seeds_K), request.temperature) for request in asked} == {(1, temperature)}


def test_what_an_api_was_used_for_is_part_of_the_report() -> None:
    toy, engine = ToyFamily(2), PaidGenerator()
    problems = tuple(each.problem for each in toy_problems(toy, 5))
    toy_plan = plan(problems=problems, turn_order=toy.roles, max_turns=2, problems_per_block=2)
    metrics = evaluate(toy_plan, family=toy, router=toy_router(toy, engine), rubric=RUBRIC).metrics
    assert metrics["eval/sample/api/p/num_requests"] == metrics["eval/sample/api/p/cost"] == len(engine.calls) > 0


def test_draws_depend_on_split_and_seed_alone() -> None:
    toy = ToyFamily(1)
    problems = tuple(each.problem for each in toy_problems(toy, 5))

    def seeds(**values: Any) -> list[Any]:
        engine = RecordingGenerator()
        toy_plan = plan(problems=problems, turn_order=toy.roles, max_turns=1, **values)
        evaluate(toy_plan, family=toy, router=toy_router(toy, engine), rubric=RUBRIC)
        return [request.seeds_K for call in engine.calls for request in call]

    assert seeds() == seeds(problems_per_block=2)
    assert seeds(split="train") != seeds() != seeds(seed=1)


def test_failed_episodes_raise_unless_they_are_allowed() -> None:
    toy = ToyFamily(1)
    problems = [each.problem for each in toy_problems(toy, 4, done_rate=0.0)]
    problems[2] = replace(problems[2], payload={**problems[2].payload, "unbuildable": True})
    toy_plan = plan(problems=tuple(problems), turn_order=toy.roles)
    with pytest.raises(TooManyFailedEpisodes, match="1 of 4 episodes failed"):
        evaluate(toy_plan, family=toy, router=toy_router(toy), rubric=RUBRIC)
    allowed = evaluate(replace(toy_plan, max_failed_fraction=0.25), family=toy, router=toy_router(toy), rubric=RUBRIC)
    assert (allowed.n, allowed.num_successes, allowed.metrics["eval/sample/num_failed_episodes"]) == (4, 0, 1.0)


def test_an_agents_own_temperature_is_told_unless_greedy() -> None:
    own = scenario_of(preset_config("tiny", ["agents.plan_agent.temperature=0.7"]))
    assert own.own_temperatures("sample") == {"plan_agent": 0.7}
    assert own.own_temperatures("greedy") is scenario_of(preset_config("tiny")).own_temperatures("sample") is None
