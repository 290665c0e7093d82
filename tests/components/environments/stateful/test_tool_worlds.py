"""What every tool world promises, at every level: solvable, fair, repeatable, robust and bounded."""

import json
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.family import Family
from components.environments.play import Playthrough
from components.environments.registry import family, family_options
from components.environments.stateful.environment import DEFAULT_WEIGHTS, PLANNER, TOOL_AGENT
from components.environments.stateful.tool_world import calls_of_plan
from components.rewards.base import Rubric
from components.schema import Problem
from tests.components.environments.mutations import HOSTILE
from tests.components.environments.newest_rewards import is_solved

WORLDS = ("shop", "calendar", "file_tree")
LEVELS = (0, 1, 2, 3)
EVERY = [(name, level) for name in WORLDS for level in LEVELS]
MOST_CHARACTERS = {"shop": 500, "calendar": 700, "file_tree": 1100}
"""No observation is longer at any level, whatever the agents do, under the default limits."""

PLANS = st.text(max_size=40) | st.text(alphabet="buy pay;move cancel 123 pear,-/\n", max_size=60)


def open_play(name: str, level: int = 1, index: int = 0, split: Any = "train") -> tuple[Family, Playthrough]:
    chosen = family(name)
    problem = chosen.problem(family_options(name, {"level": level}), split=split, index=index, seed=7)
    return chosen, chosen.build(problem)


def play_expert(chosen: Family, env: Playthrough, *, most_turns: int) -> int:
    for turn in range(most_turns):
        for role in env.roles:
            assert env.apply(role, chosen.expert_action(env.position, role)).error is None
        if env.done:
            assert is_solved(env)
            return turn + 1
    raise AssertionError(f"not solved in {most_turns} turns:\n{env.render(color=False)}")


@pytest.mark.parametrize(("name", "level"), EVERY)
@pytest.mark.parametrize("split", ["train", "test"])
def test_expert_play_solves_every_problem(name: str, level: int, split: str) -> None:
    for index in range(20):
        chosen, env = open_play(name, level, index, split)
        assert not is_solved(env)
        play_expert(chosen, env, most_turns=4)
        assert env.team_reward == pytest.approx(1.2)
        assert env.local_reward(TOOL_AGENT) == pytest.approx(0.02)


@pytest.mark.parametrize("name", WORLDS)
def test_two_turns_are_enough_by_default(name: str) -> None:
    for index in range(40):
        assert play_expert(*open_play(name, 1, index), most_turns=2) <= 2


@pytest.mark.parametrize("name", WORLDS)
def test_small_limits_take_more_turns_and_are_kept(name: str) -> None:
    chosen = family(name)
    options = family_options(name, {"level": 2, "max_steps": 2, "max_calls": 3})
    turns = []
    for index in range(10):
        env = chosen.build(chosen.problem(options, split="train", index=index, seed=0))
        assert len(chosen.expert_action(env.position, PLANNER).split(";")) <= 2
        turns.append(play_expert(chosen, env, most_turns=9))
    assert max(turns) > 1


@pytest.mark.parametrize(("name", "level"), EVERY)
def test_idle_agents_and_copied_examples_score_nothing(name: str, level: int) -> None:
    for index in range(8):
        _, probe = open_play(name, level, index)
        examples = [probe.observe(role).instructions.rpartition("Example: ")[2] for role in probe.roles]
        assert all(examples)
        for answers in (
            ("", ""),
            ("", "[]"),
            examples,
            (examples[0], "[]"),
            ("", examples[1]),
            (examples[1], examples[0]),
        ):
            _, env = open_play(name, level, index)
            for _ in range(4):
                for role, answer in zip(env.roles, answers, strict=True):
                    outcome = env.apply(role, answer)
                    assert not outcome.solves
                    assert outcome.team["progress"] <= 0.0
            assert not is_solved(env)


@pytest.mark.parametrize("name", WORLDS)
def test_random_play_of_two_turns_solves_nothing(name: str) -> None:
    rng = Random(4)
    for index in range(80):
        chosen, env = open_play(name, 1, index)
        for _ in range(2):
            for role in env.roles:
                assert env.apply(role, chosen.random_action(env.position, role, rng)).error is None
        assert not is_solved(env)


@pytest.mark.parametrize("name", WORLDS)
def test_the_order_of_a_payloads_keys_does_not_matter(name: str) -> None:
    chosen, env = open_play(name, 3)
    problem = chosen.problem(family_options(name, {"level": 3}), split="train", index=0, seed=7)
    sorted_payload = json.loads(json.dumps(problem.payload, sort_keys=True))
    twin = chosen.build(Problem(problem_id="x", environment=name, payload=sorted_payload))
    assert [twin.observe(role) for role in env.roles] == [env.observe(role) for role in env.roles]
    assert chosen.expert_action(twin.position, PLANNER) == chosen.expert_action(env.position, PLANNER)


@pytest.mark.parametrize(("name", "level"), EVERY)
def test_observations_and_demonstrations_use_the_alphabet_and_answers_keep_their_bound(name: str, level: int) -> None:
    rng = Random(level)
    options = family_options(name, {"level": level})
    for index in range(6):
        chosen, env = open_play(name, level, index)
        alphabet, longest = {*chosen.alphabet(options)}, chosen.max_action_characters(options)
        for noise in (0.0, 0.3, 1.0):
            env.position = chosen.scramble(env.position, rng, env.referee.tools)
            for role in env.roles:
                assert {*env.observe(role).state} <= alphabet
                answer = chosen.noisy_expert_action(env.position, role, noise=noise, rng=rng)
                assert {*answer} <= alphabet
                assert len(answer) <= longest
                assert env.apply(role, answer).error is None
    assert len({*chosen.alphabet(options)}) == len(chosen.alphabet(options)) == 96


FILLING = {
    "shop": [
        [{"tool": "add", "offer": "{offer}", "count": 1}, {"tool": "pay"}],
        [{"tool": "add", "offer": "{offer}", "count": 1}],
    ],
    "calendar": [
        [{"tool": "meet", "title": f"abcdefgh{letter}j", "people": ["{person}"], "slot": slot}]
        for letter in "klmnop"
        for slot in range(1, 10)
    ],
    "file_tree": [
        [{"tool": "write", "file": f"/abcdefghijk{letter}", "text": "x" * 40}]
        for letter in "abcdefghijklmnopqrstuvwxyz"
    ],
}


@pytest.mark.parametrize(("name", "level"), EVERY)
def test_observations_stay_bounded_whatever_the_agents_do(name: str, level: int) -> None:
    for index in range(3):
        _, env = open_play(name, level, index)
        view = env.position.state.world.tool_view(env.position.state.state)
        fillings = {"{offer}": re.findall(r"\w\d(?= )", view), "{person}": re.findall(r"[a-z]+(?= [.#o])", view)}
        for calls in FILLING[name] * 3:
            for place, values in fillings.items():
                for value in values if place in json.dumps(calls) else values[:1]:
                    env.apply(PLANNER, "x" * 3000)
                    env.apply(TOOL_AGENT, json.dumps(calls).replace(place, value))
                    longest = max(len(env.observe(role).state) for role in env.roles)
                    assert longest <= MOST_CHARACTERS[name]
        env.apply(TOOL_AGENT, json.dumps([{"tool": "é" * 60}]))
        assert "unknown_tool" in env.observe(TOOL_AGENT).state
        assert max(len(env.observe(role).state) for role in env.roles) <= MOST_CHARACTERS[name]


@pytest.mark.parametrize("name", WORLDS)
def test_only_the_tool_agent_changes_the_world(name: str) -> None:
    chosen, env = open_play(name)
    before = env.position.state.state
    outcome = env.apply(PLANNER, chosen.expert_action(env.position, PLANNER))
    assert outcome.solves
    assert outcome.team == {"solved": 1.0, "progress": 1.0}
    assert outcome.local == {"clean": 1.0, "malformed": 0.0, "errors": 0.0}
    assert not outcome.done
    assert not is_solved(env)
    assert env.position.state.state == before


@pytest.mark.parametrize("name", WORLDS)
def test_the_tool_agent_reads_the_plan_and_not_the_goal_unless_nobody_planned(name: str) -> None:
    chosen, env = open_play(name, 0)
    assert env.observe(TOOL_AGENT).state.startswith(f"T?{env.position.state.world.goal_text}|")
    plan = chosen.expert_action(env.position, PLANNER)
    env.apply(PLANNER, plan)
    assert env.observe(TOOL_AGENT).state.startswith(f"T{plan}|")
    env.apply(PLANNER, "what about lunch?")
    assert env.observe(TOOL_AGENT).state.startswith("T!|")
    assert chosen.expert_action(env.position, TOOL_AGENT) == "[]"
    env.apply(PLANNER, "")
    assert env.observe(TOOL_AGENT).state.startswith("T|")
    _, alone = open_play(name, 0)
    assert alone.apply(TOOL_AGENT, chosen.expert_action(alone.position, TOOL_AGENT)).done


@pytest.mark.parametrize("name", WORLDS)
def test_an_error_has_a_type_is_shown_next_turn_and_ends_the_list(name: str) -> None:
    chosen, env = open_play(name)
    scene = env.position.state
    good, _ = calls_of_plan(scene.world, scene.state, scene.world.expert_steps(scene.state))
    outcome = env.apply(TOOL_AGENT, json.dumps([good[0], {"tool": "teleport"}, *good[1:]]))
    assert outcome.error is None
    assert outcome.local == {"clean": 0.0, "malformed": 0.0, "errors": 1.0}
    assert not outcome.solves
    assert outcome.team["progress"] < 1.0
    assert env.observe(PLANNER).state.endswith("|unknown_tool>")
    assert '{"error":{"type":"unknown_tool","message":"' in env.observe(TOOL_AGENT).state
    env.apply(TOOL_AGENT, "not json")
    assert env.observe(PLANNER).state.endswith("|malformed>")
    play_expert(chosen, env, most_turns=3)


@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("shop", {"tool": "search", "name": "tea"}),
        ("calendar", {"tool": "free", "people": ["bob"]}),
        ("file_tree", {"tool": "list", "folder": "/"}),
    ],
)
def test_where_all_fail_looking_around_or_doing_nothing_earns_no_more_than_trying(name: str, look: Any) -> None:
    _, env = open_play(name)
    rubric = Rubric(team_weight=1.0, weights=DEFAULT_WEIGHTS)
    tries = [{"tool": "teleport"}]
    earned = []
    for calls in ([look], [], tries):
        outcome = env.apply(TOOL_AGENT, json.dumps(calls))
        assert outcome.error is None
        assert outcome.local["errors"] == (calls is tries), env.observe(TOOL_AGENT).state
        earned.append(rubric.team(outcome) + rubric.local(outcome))
    assert earned == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", WORLDS)
def test_rewards_are_those_of_the_default_rubric(name: str) -> None:
    chosen, env = open_play(name)
    assert env.team_reward == 0.0
    assert [env.local_reward(role) for role in env.roles] == [0.0, 0.0]
    rubric = Rubric(team_weight=1.0, weights=chosen.default_weights)
    assert chosen.default_weights == DEFAULT_WEIGHTS
    for role, action in (("planner", "nonsense"), ("tool_agent", '[{"tool":"x"}]'), ("planner", "prune")):
        outcome = env.apply(role, action)
        assert env.team_reward == rubric.team(outcome)
        assert env.local_reward(role) == rubric.local(outcome)
        assert {f"team.{key}" for key in outcome.team} | {f"local.{key}" for key in outcome.local} == {*DEFAULT_WEIGHTS}


@pytest.mark.parametrize("name", WORLDS)
@settings(max_examples=60, deadline=None)
@given(role=st.sampled_from(["planner", "tool_agent"]), answer=st.text() | PLANS | st.sampled_from(HOSTILE))
def test_no_answer_raises_and_a_malformed_one_changes_nothing(name: str, role: str, answer: str) -> None:
    chosen, env = open_play(name)
    before = env.position.state.state
    assert env.referee.calls(env.position, role, answer) == ()
    outcome = env.apply(role, answer)
    assert -1.0 <= outcome.team["progress"] <= 1.0
    assert outcome.team["progress"] > 0 or not outcome.local["clean"], "correct but useless is no achievement"
    assert {*env.observe(TOOL_AGENT).state} <= {*chosen.alphabet(family_options(name, {}))}
    if outcome.error is not None:
        assert outcome.team == {"solved": 0.0, "progress": 0.0}
        assert outcome.local == {"clean": 0.0, "malformed": 1.0, "errors": 0.0}
        assert not outcome.solves
        assert not outcome.done
    if outcome.error is not None or role == PLANNER:
        assert env.position.state.state == before


@pytest.mark.parametrize(("name", "level"), EVERY)
def test_pictures_are_ascii_with_colour_only_when_asked(name: str, level: int) -> None:
    _, env = open_play(name, level)
    plain, coloured = env.render(color=False), env.render(color=True)
    assert plain.isascii()
    assert "\x1b" not in plain
    assert "\x1b" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize("name", WORLDS)
def test_the_planner_hears_in_the_next_turn_that_its_plan_was_malformed(name: str) -> None:
    chosen, env = open_play(name)
    for answer in ("[]", "not json", '[{"tool":"teleport"}]'):
        assert env.apply(PLANNER, "first, let us think").error
        env.apply(TOOL_AGENT, answer)
        assert env.observe(PLANNER).state.endswith("|bad_plan>")
    assert "bad_plan" in env.observe(PLANNER).instructions
    env.apply(PLANNER, "")
    env.apply(TOOL_AGENT, "[]")
    assert env.observe(PLANNER).state.endswith("|>")
    play_expert(chosen, env, most_turns=2)
