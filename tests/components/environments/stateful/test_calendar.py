"""The calendar: nobody is booked twice, others' meetings stay, and only the requested changes count."""

from random import Random
from typing import Any

import pytest

from components.environments.play import Playthrough
from components.environments.registry import family
from components.environments.stateful.calendar_rules import Meetings
from components.environments.stateful.environment import WorldOptions
from components.environments.stateful.tools import Call, Refusal, call_tool, calls_text, run_calls
from components.schema import Problem
from tests.components.environments.mutations import mutate

FAMILY = family("calendar")
MONDAY: dict[str, Any] = {
    "num_slots": 4,
    "busy": [["ann", [1]], ["bob", []], ["eve", [4]]],
    "meetings": [
        {"title": "demo", "people": ["ann", "bob"], "slot": 2, "own": True},
        {"title": "gym", "people": ["eve"], "slot": 1, "own": False},
        {"title": "plan", "people": ["bob"], "slot": 3, "own": True},
    ],
    "goals": [
        {"do": "meet", "title": "sync", "people": ["ann", "eve"], "first": 1, "last": 3},
        {"do": "cancel", "title": "demo"},
    ],
    "max_steps": 4,
    "max_calls": 4,
    "max_answer_characters": 60,
}


def monday(**changes: Any) -> Playthrough:
    return FAMILY.build(Problem(problem_id="calendar-x", environment="calendar", payload={**MONDAY, **changes}))


def meet(title: str, people: list[str], slot: int) -> Call:
    return {"tool": "meet", "title": title, "people": people, "slot": slot}


def test_the_agents_read_requests_plan_and_calendar() -> None:
    env = monday()
    meetings = "demo@2 ann,bob;gym@1* eve;plan@3 bob"
    assert env.observe("planner").state == f"Pmeet sync ann,eve 1-3;cancel demo|{meetings}|>"
    env.apply("planner", FAMILY.expert_action(env.position, "planner"))
    plan = "cancel demo;meet sync ann,eve 1-3"
    assert env.observe("tool_agent").state == f"T{plan}|ann #o..,bob .oo.,eve o..#|{meetings}|>"
    wanted = [{"tool": "cancel", "title": "demo"}, meet("sync", ["ann", "eve"], 2)]
    assert FAMILY.expert_action(env.position, "tool_agent") == calls_text(wanted)
    assert env.apply("tool_agent", calls_text(wanted)).done


@pytest.mark.parametrize(
    ("calls", "error_type"),
    [
        ([{"tool": "free", "people": ["zoe"]}], "not_found"),
        ([meet("sync", ["ann", "zoe"], 3)], "not_found"),
        ([meet("demo", ["ann"], 3)], "conflict"),
        ([meet("sync", ["ann"], 1)], "conflict"),
        ([meet("sync", ["ann"], 2)], "conflict"),
        ([meet("sync", ["ann"], 5)], "bad_value"),
        ([meet("Sync!", ["ann"], 3)], "bad_value"),
        ([{"tool": "move", "title": "demo", "slot": 2}], "conflict"),
        ([{"tool": "move", "title": "demo", "slot": 3}], "conflict"),
        ([{"tool": "move", "title": "sync", "slot": 3}], "not_found"),
        ([{"tool": "move", "title": "gym", "slot": 2}], "permission"),
        ([{"tool": "cancel", "title": "gym"}], "permission"),
        ([{"tool": "cancel", "title": "plan"}, {"tool": "cancel", "title": "plan"}], "not_found"),
        ([meet(letter * 3, ["bob"], 1 if letter == "a" else 4) for letter in "ab"], "none"),
    ],
)
def test_each_error_has_its_type(calls: list[Call], error_type: str) -> None:
    env = monday()
    state = run_calls(env.position.state.world.tools, env.position.state.state, calls[:-1]).state
    result = call_tool(env.position.state.world.tools, state, calls[-1])
    assert (result.type if isinstance(result, Refusal) else "none") == error_type


def test_people_are_a_set_and_free_slots_are_listed() -> None:
    env = monday()
    env.apply(
        "tool_agent", calls_text([{"tool": "free", "people": ["eve", "ann"]}, meet("sync", ["eve", "ann", "eve"], 3)])
    )
    assert env.observe("tool_agent").state.endswith('|[3],"ok">')
    assert env.position.state.world.distance(env.position.state.state) == 1


@pytest.mark.parametrize(
    ("calls", "solves"),
    [
        ([{"tool": "cancel", "title": "demo"}, meet("sync", ["ann", "eve"], 3)], True),
        ([{"tool": "cancel", "title": "demo"}, meet("sync", ["ann", "bob", "eve"], 2)], False),
        ([{"tool": "cancel", "title": "demo"}, meet("sync", ["ann", "eve"], 2), meet("chat", ["bob"], 4)], False),
        (
            [{"tool": "cancel", "title": "demo"}, meet("sync", ["ann", "eve"], 2), {"tool": "cancel", "title": "plan"}],
            False,
        ),
        ([meet("sync", ["ann", "eve"], 3)], False),
    ],
)
def test_only_the_requested_changes_count(calls: list[Call], solves: bool) -> None:
    assert monday().apply("tool_agent", calls_text(calls)).solves == solves


def test_the_expert_puts_right_what_went_wrong() -> None:
    env = monday()
    wrong = [{"tool": "cancel", "title": "plan"}, meet("sync", ["bob"], 3), meet("chat", ["eve"], 2)]
    env.apply("tool_agent", calls_text(wrong))
    assert FAMILY.expert_action(env.position, "planner") == "cancel chat;cancel demo;cancel sync;meet plan bob 3-3"
    for _ in range(2):
        for role in env.roles:
            env.apply(role, FAMILY.expert_action(env.position, role))
    assert env.success


def is_solved(payload: dict[str, Any], state: Meetings) -> bool:
    """The goal from the payload alone: what each title should look like, and no other title."""
    wanted: dict[str, tuple[list[str], set[int]]] = {
        meeting["title"]: (meeting["people"], {meeting["slot"]}) for meeting in payload["meetings"]
    }
    for goal in payload["goals"]:
        window = {*range(goal.get("first", 0), goal.get("last", 0) + 1)}
        if goal["do"] == "cancel":
            del wanted[goal["title"]]
        elif goal["do"] == "move":
            wanted[goal["title"]] = (wanted[goal["title"]][0], window)
        else:
            wanted[goal["title"]] = (goal["people"], window)
    return {meeting.title for meeting in state} == {*wanted} and all(
        [*meeting.people] == wanted[meeting.title][0] and meeting.slot in wanted[meeting.title][1] for meeting in state
    )


def test_nobody_is_booked_twice_and_the_goal_is_the_oracles_under_any_calls() -> None:
    rng, num_solved = Random(0), 0
    for index in range(30):
        problem = FAMILY.problem(WorldOptions(level=index % 4), split="train", index=index, seed=1)
        env = FAMILY.build(problem)
        busy = {person: {*slots} for person, slots in problem.payload["busy"]}
        world, state = env.position.state.world, env.position.state.state
        others = {meeting for meeting in state if not meeting.own}
        for _ in range(40):
            calls = [world.random_call(state, rng) for _ in range(rng.randint(1, 3))]
            text = mutate(calls, rng) if rng.random() < 0.3 else calls_text(calls)
            env.apply("tool_agent", FAMILY.expert_action(env.position, "tool_agent") if rng.random() < 0.1 else text)
            state = env.position.state.state
            booked = [(person, meeting.slot) for meeting in state for person in meeting.people]
            assert len({*booked}) == len(booked)
            assert all(slot not in busy[person] for person, slot in booked)
            assert len({meeting.title for meeting in state}) == len(state)
            assert others <= {*state}
            assert state == tuple(sorted(state))
            assert env.success == is_solved(problem.payload, state)
            num_solved += env.success
            if env.success:
                break
    assert num_solved > 10
