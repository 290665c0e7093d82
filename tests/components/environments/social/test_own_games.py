"""The own games as environments: their rules' payoffs, what is best for all, warm-ups, arrivals, and promises."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.registry import family, family_options
from components.environments.social.rules.base import ACTIONS
from components.environments.social.rules.maze import LAYOUTS, MOVES
from components.environments.social.rules.trading import GOODS, Market, Offer, gini, market_step, possible_offers
from components.errors import ConfigurationError
from tests.components.environments.social.games import Line, make_problem, paid

QUIET = {"noise_std": 0.0, "num_steps": 1}
REPEATED: list[tuple[str, dict[str, Any]]] = [
    ("coop_compete", {"num_members": 2, "cooperation_level": 0.2}),
    ("coop_compete", {"num_members": 4, "cooperation_level": 0.8}),
    ("coop_compete", {}),
    ("public_goods", {"share": 0.2}),
    ("public_goods", {"share": 0.8}),
    ("staged", {}),
    ("team_battle", {}),
]


@pytest.mark.parametrize(("name", "options"), REPEATED)
def test_a_game_pays_its_rules_and_is_solved_at_the_greatest_sum(name: str, options: Mapping[str, Any]) -> None:
    """All joint actions of the full game, which test problems play."""
    known, problem = make_problem(name, {**QUIET, **options}, split="test")
    referee = known.referee()
    start = referee.start(problem)
    phase = referee.next_phase(start, known.turn_order)
    assert phase is not None
    assert phase.agents == known.roles
    sums: dict[tuple[str, ...], tuple[float, bool]] = {}
    for answers in product(ACTIONS, repeat=len(known.roles)):
        outcomes, after = referee.advance(start, phase, list(answers))
        wanted = start.state.rules.payoffs(answers, start.state.play.episode)
        earned = [outcome.local["payoff"] for outcome in outcomes]
        assert earned == pytest.approx([max(start.state.rules.lowest_reward, each) for each in wanted])
        sums[answers] = (sum(earned), after.is_solved)
    best = max(total for total, _ in sums.values())
    assert all(total == pytest.approx(best) for total, solved in sums.values() if solved)
    assert sum(solved for _, solved in sums.values()) == 1


def test_early_training_problems_are_a_warm_up_and_test_problems_are_not() -> None:
    known, _ = make_problem("staged", {"warmup_episodes": 3})
    options = family_options("staged", {"warmup_episodes": 3})
    problems = [known.problem(options, split="train", index=index, seed=1) for index in range(8)]
    assert [problem.payload["episode"] for problem in problems] == list(range(8))
    assert known.problem(options, split="test", index=0, seed=1).payload["episode"] == 6
    assert len({problem.payload["seed"] for problem in problems}) == 8
    warm, late = (known.referee().start(problem) for problem in (problems[0], problems[3]))
    assert ", warm-up" in known.referee().observe(warm, "player_0").state
    assert ", adversary" in known.referee().observe(late, "player_1").state
    assert ", adversary" not in known.referee().observe(late, "player_2").state


def test_a_led_game_has_the_warm_up_of_the_game_that_is_led() -> None:
    options = {"game": "team_battle", "options": {"warmup_episodes": 3}, "leader": "player_2"}
    known, _ = make_problem("led", options)
    parsed = family_options("led", options)
    states = [
        known.referee().start(known.problem(parsed, split=split, index=index, seed=5))
        for split, index in (("train", 2), ("train", 3), ("test", 0))
    ]
    assert [", warm-up" in known.referee().observe(state, "player_2").state for state in states] == [True, False, False]


def test_members_remember_as_many_steps_as_they_are_told() -> None:
    known, problem = make_problem("coop_compete", {**QUIET, "num_members": 3, "num_steps": 4, "memory": 2})
    line, answers = Line(known, problem), iter(["cooperate cooperate compete", "compete cooperate compete", "", ""])
    seen = [line.referee.observe(line.position, "player_0").state]
    for phase, _ in line:
        line.advance(phase, (next(answers) or "compete compete compete").split())
        if not line.position.is_done:
            seen.append(line.referee.observe(line.position, "player_0").state)
    assert [text.count("you earn") for text in seen] == [0, 1, 2, 2]
    assert "step 1: you cooperate, 1 of 2 others cooperate, you earn 0.775" in seen[1]


@pytest.mark.parametrize("layout", [*LAYOUTS, "drawn"])
def test_the_shortest_way_has_a_path_length_success_of_one(layout: str) -> None:
    known, problem = make_problem("maze", {"layout": layout})
    line = Line(known, problem)
    maze = line.position.state.game.maze
    ways = {maze.goal: ""}
    queue = [maze.goal]
    for x, y in queue:
        for move, (dx, dy) in MOVES.items():
            cell = (x - dx, y - dy)
            if maze.is_free(cell) and cell not in ways:
                ways[cell] = move
                queue.append(cell)
    for phase, position in line:
        paths_N = position.state.walked.paths_N
        moves = [ways[paths_N[int(agent[-1])][-1]] for agent in phase.agents]
        lagging = position.state.num_steps == 0 and len(moves) == 2
        outcomes = line.advance(phase, [moves[0], "stay"] if lagging else moves)
    assert line.position.is_solved
    assert outcomes[0].team["spl"] == pytest.approx((1 + maze.shortest / (maze.shortest + 1)) / 2)
    assert phase.agents == ("player_1",), "who has arrived acts no more"


def test_a_drawn_maze_decides_its_split_and_all_views_agree() -> None:
    options = {"layout": "drawn", "width": 6, "height": 5}
    drawn = {
        split: {str(make_problem("maze", options, i, split=split)[1].payload["rows"]) for i in range(30)}
        for split in ("train", "test")
    }
    assert len(drawn["train"]) > 20
    assert not drawn["train"] & drawn["test"]
    texts = {}
    for view in ("around", "known", "all"):
        known, problem = make_problem("maze", {**options, "view": view}, 5)
        texts[view] = known.referee().observe(known.referee().start(problem), "player_0").state.splitlines()[2:-1]
    assert [row[:2] for row in texts["known"][:2]] == [row[:2] for row in texts["all"][:2]]
    assert [row[1:] for row in texts["around"][1:]] == [row[:2] for row in texts["all"][:2]]
    assert "?" in "".join(texts["known"])
    assert "?" not in "".join(texts["all"])


MARKET = Market(holdings_N=((4, 9), (5, 2)), taste_N=(0.5, 0.25), num_rounds=2, kept_N=(0, 0), made_N=(0, 0))
OFFER = Offer(giver=0, partner=1, good=1, num_given=3, num_wanted=1)


@pytest.mark.parametrize(
    ("deliveries", "holdings", "kept"),
    [
        (("deliver", "deliver"), ((5, 6), (4, 5)), (1, 1)),
        (("deliver", "keep"), ((4, 6), (5, 5)), (1, 0)),
        (("keep", "deliver"), ((5, 9), (4, 2)), (0, 1)),
        (("keep", "keep"), ((4, 9), (5, 2)), (0, 0)),
    ],
)
def test_a_promise_is_kept_or_not(deliveries: tuple[str, str], holdings: Any, kept: Any) -> None:
    offered = market_step(MARKET, {0: OFFER})
    assert (offered.acting, market_step(offered, {1: "refuse"}).holdings_N) == ((1,), MARKET.holdings_N)
    promised = market_step(offered, {1: "accept"})
    after = market_step(promised, dict(enumerate(deliveries)))
    assert (after.holdings_N, after.kept_N, after.made_N) == (holdings, kept, (1, 1))
    assert (after.round, after.acting) == (1, (1,))
    with pytest.raises(ConfigurationError, match=r"actions of \[0\]: \(0, 1\) act"):
        market_step(promised, {0: "deliver"})
    assert MARKET.utility(0) == pytest.approx(6.0)
    assert MARKET.utility(1) == pytest.approx(5**0.25 * 2**0.75)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.booleans())
def test_trade_moves_goods_and_pays_the_change_of_utility(seed: int, num_members: int, binding: bool) -> None:
    options = {"num_members": num_members, "binding": binding, "num_rounds": 5}
    known, problem = make_problem("social_trading", options, seed)
    line, rng = Line(known, problem), Random(seed)
    first: Market = line.position.state.market
    earned = dict.fromkeys(known.roles, 0.0)
    for phase, position in line:
        market = position.state.market
        offers = possible_offers(market, market.round % num_members) if market.phase == "offer" else ()
        assert len(line.referee.rules.choices(position.state, phase.agents[0]) or ()) == (
            len(offers) + 1 if not market.offer else 2
        )
        outcomes = line.advance(phase, line.drawn(phase, rng))
        for member, amount in paid(outcomes).items():
            earned[member] += amount
    last: Market = line.position.state.market
    for good in (0, 1):
        assert sum(each[good] for each in last.holdings_N) == sum(each[good] for each in first.holdings_N)
    assert min(amount for each in last.holdings_N for amount in each) >= 0
    gains = [last.utility(member) - first.utility(member) for member in range(num_members)]
    assert list(earned.values()) == pytest.approx(gains)
    assert line.position.is_solved == (min(gains) >= 0 and max(gains) > 0)
    assert not binding or last.kept_N == last.made_N
    assert outcomes[0].team["gini"] == pytest.approx(gini([last.utility(member) for member in range(num_members)]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_a_scripted_partner_accepts_what_it_gains_by(seed: int, binding: bool) -> None:
    known, problem = make_problem("social_trading", {"num_scripted": 1, "binding": binding, "num_rounds": 3}, seed)
    assert known.roles == ("player_0",)
    line, rng, promised = Line(known, problem), Random(seed), 0
    for phase, position in line:
        before: Market = position.state.market
        assert before.acting[0] == 0
        if before.phase == "offer":
            offer = rng.choice(possible_offers(before, 0) or (None,))
            good = 0 if offer is None else offer.good
            line.advance(
                phase,
                [
                    "pass"
                    if offer is None
                    else f"give {offer.num_given} {GOODS[good]} get {offer.num_wanted} {GOODS[1 - good]}"
                ],
            )
            if offer is not None:
                holdings = list(before.holdings_N[1])
                holdings[good] += offer.num_given
                holdings[1 - good] -= offer.num_wanted
                apples, pears = holdings
                taste = before.taste_N[1]
                gains = apples**taste * pears ** (1 - taste) > before.utility(1)
                promised += gains
                after: Market = line.position.state.market
                assert after.made_N[1] == promised if binding else (after.phase == "deliver") == gains
        else:
            (outcome,) = line.advance(phase, [rng.choice(["deliver", "keep"])])
            assert set(outcome.payoffs or {}) == {"player_0"}
            assert line.position.state.market.kept_N[1] == promised


TOLD = (
    "You are player_0. Players in turn offer to trade apples and pears. Your goods are worth apples to the power of your taste "
    "for apples, times pears to the power of your taste for pears; the others' tastes are hidden. You earn the change of that "
    "worth. After an offer is accepted, both at once deliver what they promised or keep it; all see who kept promises."
)
EXAMPLES = "`give 1 apples get 2 pears` or `give 2 pears get 1 apples`"
ONE_OF = "one of these and nothing else:"
FEW = [f"give 1 pears get {num} apples" for num in (1, 2, 3)]
SEEN = """player_0, round 1 of 4
you have {} apples {} pears, kept 0 of 0 promises
player_1 has 5 apples {} pears, kept 0 of 0 promises
your taste: apples 0.5, pears 0.5
"""


@pytest.mark.parametrize(
    ("must_offer", "goods", "num_offers", "passes", "asked", "told"),
    [
        (False, (3, 4, 6), 18, True, "offer or pass?", f"an offer such as {EXAMPLES}, or pass, and nothing else."),
        (True, (3, 4, 6), 18, False, "offer?", f"an offer such as {EXAMPLES} and nothing else."),
        (False, (0, 1, 6), 3, True, "offer or pass?", f"{ONE_OF} {FEW[0]}, {FEW[1]}, {FEW[2]} or pass."),
        (True, (0, 1, 6), 3, False, "offer?", f"{ONE_OF} {FEW[0]}, {FEW[1]} or {FEW[2]}."),
        (False, (3, 0, 0), 0, True, "offer or pass?", f"{ONE_OF} pass."),
        (True, (3, 0, 0), 0, True, "pass?", f"{ONE_OF} pass."),
    ],
    ids=["may pass", "must offer", "may pass, few", "must offer, few", "may pass, none", "must offer, none"],
)
def test_who_must_offer_passes_only_where_nothing_can_be_offered(
    must_offer: bool, goods: tuple[int, int, int], num_offers: int, passes: bool, asked: str, told: str
) -> None:
    known, problem = make_problem("social_trading", {"must_offer": must_offer})
    start, rules = known.referee().start(problem), known.referee().rules
    apples, pears, others_pears = goods
    market = replace(
        start.state.market,
        holdings_N=((apples, pears), (5, others_pears)),
        taste_N=(0.5, 0.5),
        kept_N=(0, 0),
        made_N=(0, 0),
    )
    state = replace(start.state, market=market, first=market)
    choices = rules.choices(state, "player_0") or ()
    assert (len(choices) - passes, "pass" in choices) == (num_offers, passes)
    seen = rules.observe(state, "player_0")
    assert (seen.state, seen.instructions) == (SEEN.format(*goods) + asked, f"{TOLD}\nAnswer with {told}")


@pytest.mark.parametrize("answer_format", ["strict", "free"])
def test_a_pass_where_an_offer_is_due_is_malformed(answer_format: Any) -> None:
    """As any other text that is no choice: it costs the same, and the same drawn offer is made instead."""
    options = family_options("social_trading", {"must_offer": True})
    known = family("social_trading", answer_format).under(options)
    problem = known.problem(options, split="train", index=0, seed=7)
    after = []
    for answer in ("pass", "nonsense"):
        line = Line(known, problem)
        phase, _ = next(iter(line))
        (outcome,) = line.advance(phase, [answer])
        assert f"{answer!r} is none of give" in str(outcome.error)
        after.append((outcome.local, line.position.state))
    assert after[0] == after[1]
    assert after[0][0]["malformed"] == 1.0
    assert isinstance(after[0][1].market.offer, Offer)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 3))
def test_nobody_who_must_offer_reads_of_passing(seed: int, num_members: int) -> None:
    known, problem = make_problem(
        "social_trading", {"must_offer": True, "num_members": num_members, "num_rounds": 6}, seed
    )
    line, rng = Line(known, problem), Random(seed)
    for phase, position in line:
        for role in known.roles:
            seen = line.referee.observe(position, role)
            passes = role in phase.agents and "pass" in (line.referee.rules.choices(position.state, role) or ())
            assert ("pass" in seen.state, "pass" in seen.instructions) == (passes, passes)
        line.advance(phase, line.drawn(phase, rng))


def test_a_problem_in_which_members_may_pass_does_not_say_so() -> None:
    _, plain = make_problem("social_trading", {})
    _, told = make_problem("social_trading", {"must_offer": False})
    _, due = make_problem("social_trading", {"must_offer": True})
    assert told == plain
    assert plain.problem_id == "social_trading-c5cdd4664427"
    assert "must_offer" not in plain.payload
    assert due.payload["must_offer"] is True


def test_somebody_must_play() -> None:
    with pytest.raises(ValueError, match=r"num_scripted 2 of num_members 2 leaves nobody"):
        family_options("social_trading", {"num_scripted": 2})


def test_nobody_reads_anothers_taste() -> None:
    texts = set()
    for taste in (0.25, 0.5, 0.75):
        known, problem = make_problem("social_trading", {})
        start = known.referee().start(problem)
        market = Market(holdings_N=((3, 4), (5, 6)), taste_N=(0.5, taste), num_rounds=4, kept_N=(0, 0), made_N=(0, 0))
        object.__setattr__(start.state, "market", market)
        seen = known.referee().observe(start, "player_0")
        texts.add((seen.state, seen.instructions))
        assert f"apples {taste:g}" in known.referee().observe(start, "player_1").state
    assert len(texts) == 1


def test_gini_by_hand() -> None:
    assert (gini([2, 2, 2]), gini([1, 3]), gini([0, 0])) == (0, 0.25, 0)
    assert gini([0] * 99 + [1]) == pytest.approx(0.99)


def test_roles_are_those_of_the_options() -> None:
    assert family("coop_compete").under(family_options("coop_compete", {"num_members": 5})).roles == tuple(
        f"player_{i}" for i in range(5)
    )
