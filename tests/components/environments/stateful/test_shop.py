"""The shop: money and goods are conserved, and only the exact order counts."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from components.environments.play import Playthrough
from components.environments.registry import family
from components.environments.stateful.environment import WorldOptions
from components.environments.stateful.shop import ShopWorld
from components.environments.stateful.shop_rules import ShopState
from components.environments.stateful.tools import Call, Refusal, call_tool, calls_text, run_calls
from components.schema import Problem
from tests.components.environments.mutations import mutate

FAMILY = family("shop")
CORNER_SHOP: dict[str, Any] = {
    "offers": [
        {"id": "a1", "name": "pear", "price": 4, "stock": 2, "in_cart": 0},
        {"id": "b2", "name": "pear", "price": 3, "stock": 1, "in_cart": 0},
        {"id": "c3", "name": "fig", "price": 5, "stock": 9, "in_cart": 1},
    ],
    "coupons": [
        {"code": "xy1", "minimum": 7, "off": 2},
        {"code": "zz9", "minimum": 20, "off": 9},
    ],
    "money": 6,
    "wanted": [["pear", 2]],
    "orders": [],
    "max_steps": 6,
    "max_calls": 6,
    "max_answer_characters": 80,
}
"""Two pears are wanted: one of each offer costs 7, with the coupon 5. There is a fig in the cart."""


def corner_shop(**changes: Any) -> Playthrough:
    problem = Problem(problem_id="shop-corner", environment="shop", payload={**CORNER_SHOP, **changes})
    return FAMILY.build(problem)


def read_refusal(env: Playthrough, *calls: Call) -> str:
    """The type of the error of the last call; those before it are made."""
    state = run_calls(env.position.state.world.tools, env.position.state.state, calls[:-1]).state
    result = call_tool(env.position.state.world.tools, state, calls[-1])
    return result.type if isinstance(result, Refusal) else "none"


def add(offer: str, count: int) -> Call:
    return {"tool": "add", "offer": offer, "count": count}


def test_the_agents_read_goal_plan_and_shop() -> None:
    env = corner_shop()
    assert env.observe("planner").state == "P2 pear|6|pear 3|1 fig||>"
    env.apply("planner", "Drop 1 fig;\n buy 2  PEAR; pay coupon")
    tool_view = "a1 pear 4x2,b2 pear 3x1,c3 fig 5x9|c3x1|6|xy1:7-2,zz9:20-9"
    assert env.observe("tool_agent").state == f"Tdrop 1 fig;buy 2 pear;pay coupon|{tool_view}|>"
    assert FAMILY.expert_action(env.position, "tool_agent") == calls_text(
        [{"tool": "remove", "offer": "c3", "count": 1}, add("b2", 1), add("a1", 1), {"tool": "pay", "coupon": "xy1"}]
    )
    assert env.apply("tool_agent", FAMILY.expert_action(env.position, "tool_agent")).done
    assert env.position.state.state.money == 1
    assert env.position.state.state.stock == (1, 0, 9)


def test_what_was_told_is_shown_in_the_next_turn() -> None:
    env = corner_shop()
    env.apply("tool_agent", '[{"tool":"search","name":"fig"},{"tool":"pay"},{"tool":"pay"}]')
    told = '[{"offer":"c3","price":5,"stock":9}],{"order":1,"paid":5},{"error":{"type":"con~>'
    assert env.observe("tool_agent").state.endswith(told)
    assert env.observe("planner").state == "P2 pear|1|pear 3||#1 1 fig|conflict>"


@pytest.mark.parametrize(
    ("calls", "error_type"),
    [
        ([add("d4", 1)], "not_found"),
        ([add("a1", 3)], "out_of_stock"),
        ([add("a1", 2), add("a1", 1)], "out_of_stock"),
        ([add("a1", 10)], "bad_value"),
        ([{"tool": "remove", "offer": "a1", "count": 1}], "conflict"),
        ([{"tool": "remove", "offer": "c3", "count": 1}, {"tool": "pay"}], "conflict"),
        ([add("a1", 1), {"tool": "pay"}], "insufficient_funds"),
        ([{"tool": "pay", "coupon": "xy1"}], "conflict"),
        ([{"tool": "pay", "coupon": "free"}], "not_found"),
        ([{"tool": "cancel", "order": 1}], "not_found"),
        ([{"tool": "pay"}, {"tool": "cancel", "order": 1}, {"tool": "cancel", "order": 1}], "not_found"),
    ],
)
def test_each_error_has_its_type(calls: list[Call], error_type: str) -> None:
    assert read_refusal(corner_shop(), *calls) == error_type


def test_a_coupon_is_good_for_one_live_order_and_comes_back_with_it() -> None:
    env = corner_shop(money=50)
    pay = {"tool": "pay", "coupon": "xy1"}
    first = [add("a1", 1), pay]
    assert read_refusal(env, *first, add("c3", 2), pay) == "conflict"
    assert read_refusal(env, *first, {"tool": "cancel", "order": 1}, add("c3", 2), pay) == "none"


def test_only_the_exact_order_counts() -> None:
    pears = [add("a1", 1), add("b2", 1)]
    for calls, solves in (
        ([{"tool": "remove", "offer": "c3", "count": 1}, *pears, {"tool": "pay"}], True),
        ([*pears, {"tool": "pay"}], False),
        ([{"tool": "remove", "offer": "c3", "count": 1}, add("a1", 2), add("b2", 1), {"tool": "pay"}], False),
        ([{"tool": "remove", "offer": "c3", "count": 1}, *pears], False),
        ([{"tool": "remove", "offer": "c3", "count": 1}, *pears, {"tool": "pay"}, add("c3", 1)], False),
    ):
        assert corner_shop(money=50).apply("tool_agent", calls_text(calls)).solves == solves


def test_progress_counts_goods_and_the_order() -> None:
    env = corner_shop(money=50)
    drop = {"tool": "remove", "offer": "c3", "count": 1}
    assert env.position.state.world.distance(env.position.state.state) == 3
    assert env.apply("tool_agent", calls_text([drop])).team["progress"] == pytest.approx(1 / 3)
    assert env.apply("tool_agent", calls_text([add("a1", 2)])).team["progress"] == pytest.approx(1 / 2)
    assert env.apply("tool_agent", '[{"tool":"pay"}]').team == {"solved": 1.0, "progress": 1.0}


def test_the_expert_begins_anew_where_keeping_costs_too_much() -> None:
    env = corner_shop(money=11)
    env.apply("tool_agent", calls_text([add("a1", 1), {"tool": "pay"}]))
    assert env.position.state.state.money == 2
    assert FAMILY.expert_action(env.position, "planner") == "cancel 1;buy 2 pear;pay"
    for role in env.roles:
        env.apply(role, FAMILY.expert_action(env.position, role))
    assert env.success


def is_solved(payload: dict[str, Any], state: ShopState) -> bool:
    """The goal from the payload alone: the units of all live orders are those wanted, and the cart is empty."""
    units: Counter[str] = Counter()
    for order in state.orders:
        for offer, count in zip(payload["offers"], order.counts, strict=True):
            units[offer["name"]] += count
    return +units == Counter(dict(payload["wanted"])) and not any(state.cart)


def test_money_and_goods_are_conserved_and_the_goal_is_the_oracles_under_any_calls() -> None:
    rng, num_solved = Random(0), 0
    for index in range(30):
        options = WorldOptions(level=index % 4)
        problem = FAMILY.problem(options, split="train", index=index, seed=1)
        env = FAMILY.build(problem)
        world, state = env.position.state.world, env.position.state.state
        assert isinstance(world, ShopWorld)
        money = state.money + sum(order.paid for order in state.orders)
        stock = [*map(sum, zip(state.stock, *(order.counts for order in state.orders), strict=True))]
        for _ in range(40):
            expert = run_and_list(env)
            calls = [world.random_call(state, rng) for _ in range(rng.randint(1, 4))]
            text = mutate(calls, rng) if rng.random() < 0.3 else calls_text(calls)
            env.apply("tool_agent", calls_text(expert) if rng.random() < 0.1 else text)
            state = env.position.state.state
            assert state.money >= 0
            assert state.money + sum(order.paid for order in state.orders) == money
            assert [*map(sum, zip(state.stock, *(order.counts for order in state.orders), strict=True))] == stock
            assert all(0 <= held <= left for held, left in zip(state.cart, state.stock, strict=True))
            assert env.success == is_solved(problem.payload, state)
            num_solved += env.success
            if env.success:
                break
    assert num_solved > 10


def run_and_list(env: Playthrough) -> list[Call]:
    """The expert's calls for its whole plan, limits or not."""
    world, state, calls = env.position.state.world, env.position.state.state, list[Call]()
    for step in world.expert_steps(state):
        calls += (needed := world.calls_for(state, step))
        state = run_calls(world.tools, state, needed).state
    return calls[: world.max_calls]


def test_higher_levels_need_coupons_scarce_goods_and_cancellations() -> None:
    plans = {
        level: [
            FAMILY.expert_action(FAMILY.build(problem).position, "planner")
            for index in range(30)
            for problem in [FAMILY.problem(WorldOptions(level=level), split="test", index=index, seed=0)]
        ]
        for level in (0, 1, 3)
    }
    assert all(plan.startswith("buy ") and plan.endswith(";pay") for plan in plans[0])
    assert 5 < sum(plan.endswith("pay coupon") for plan in plans[1]) < 25
    assert all(plan.startswith("cancel 1;drop ") for plan in plans[3])
