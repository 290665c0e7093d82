"""What agents of a population are credited with: closed forms by hand, and a state that folds alike in one call or in many."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.artifacts.codec import decode, encode
from components.config import PopulationMethod
from components.population.credit import CreditedStep, Played, PopulationState, credit_step
from components.population.move_rewards import Move, moves_of
from components.schema import Node
from tests.recorded_rollouts import candidate, episode, node
from tests.sections import choose_algorithm

AGENTS = ("ann", "bob")
BASELINE = {"advantage": "role_baseline"}
PAYS = st.floats(-4, 4, width=16)


def answer(
    agent: str, *rewards: float | None, turn: int = 0, together: int = 0, says: str = "C", **payoffs: float
) -> Node:
    """A node with one candidate a reward; `payoffs` are those of the chosen one, for all agents."""
    return node(
        *(candidate(says, payoffs=payoffs or {agent: each or 0.0}) for each in rewards),
        agent=agent, turn=turn, parallel_index=together,
    )  # fmt: skip


def make_played(*nodes: Node, rewards: Sequence[Sequence[float | None]], together: bool = True) -> Played:
    found = moves_of(episode(*nodes), rewards, agents=AGENTS, acts_together=lambda agents: together)
    counts = tuple(len(each.candidates) for each in nodes)
    return Played(moves=found, num_actions_N=counts, members_A=("first", "second"))


def joint(ann: float, bob: float, *, turn: int = 0, says: str = "CC") -> tuple[Node, Node]:
    paid = {"ann": ann, "bob": bob}
    return (
        answer("ann", ann, turn=turn, says=says[0], **paid),
        answer("bob", bob, turn=turn, together=1, says=says[1], **paid),
    )


def one_step(*turns: tuple[float, float]) -> Played:
    nodes = [each for turn, (ann, bob) in enumerate(turns) for each in joint(ann, bob, turn=turn)]
    return make_played(*nodes, rewards=[[reward] for turn in turns for reward in turn])


def assign(
    *episodes: Played, state: PopulationState | None = None, of: dict[str, Any] | None = None, **mode: Any
) -> CreditedStep:
    """`of` is the advantage with its fields, role_mean unless given."""
    method = PopulationMethod.model_validate({"training_mode": {"type": "cooperative", **mode}})
    algorithm = choose_algorithm(**{"advantage": "role_mean", **(of or {})})
    before = PopulationState() if state is None else state
    return credit_step(before, episodes, agents=AGENTS, method=method, algorithm=algorithm)


def test_who_acts_together_earns_in_one_move_and_who_acts_alone_leaves_payoffs_to_the_others() -> None:
    (move,) = make_played(*joint(1.0, -1.0), rewards=[[0.9], [-1.1]]).moves
    assert move == Move(
        turn=0, nodes=((0, 0), (1, 1)), answers_K_M=(("C", "C"),), rewards_K_A=((0.9, -1.1),), chosen=0
    ), "rewards of the reward stage, with malformed answers and weights, are those of who acted"
    bet, call = answer("ann", 0.0, ann=0.0, bob=0.0), answer("bob", -2.0, turn=1, ann=2.0, bob=-2.0)
    moves = moves_of(
        episode(bet, call), [[0.0], [-1.0]], agents=AGENTS, acts_together=lambda _: False, payoff_weight=0.5
    )
    assert [each.chosen_rewards_A for each in moves] == [(0.0, 0.0), (1.0, -1.0)], "hers is the weighted payoff"
    apart = make_played(*joint(1.0, -1.0), rewards=[[1.0], [-1.0]], together=False)
    assert [each.nodes for each in apart.moves] == [((0, 0),), ((1, 1),)]


def test_continuations_are_no_moves_and_a_failed_sandbox_has_no_rewards() -> None:
    aside = node(candidate(), agent="ann", parent=(0, 0), turn=1)
    (first, second) = moves_of(
        episode(answer("ann", 1.0), aside, answer("bob", None, turn=1)),
        [[1.0], [9.0], [None]], agents=AGENTS, acts_together=lambda _: False,
    )  # fmt: skip
    assert (first.nodes, second.nodes) == (((0, 0),), ((2, 1),))
    assert second.chosen_rewards_A is None


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"cooperation_strength": 0.6}, (0.7, 0.3)),
        ({"cooperation_strength": 0.6, "team_size": 1}, (1.0, 0.0)),
        ({"type": "competitive", "competition_intensity": 0.4}, (1.0, -0.4)),
        ({"type": "mixed"}, (0.85, -0.05)),
        ({"type": "hierarchical", "leader": "bob", "compliance_bonus": 0.0}, (1.0, 0.5)),
        ({"type": "hierarchical", "leader": "bob"}, (1.1, 0.5)),
        ({"type": "hierarchical", "compliance_bonus": 0.0}, (0.5, 0.0)),
    ],
)
def test_one_return_of_one_is_mixed_as_the_mode_says(config: dict[str, Any], wanted: tuple[float, float]) -> None:
    found = assign(one_step((1.0, 0.0)), **config)
    (ann,), (bob,) = found.credits_E_N_K[0]
    assert (ann, bob) == pytest.approx(wanted, abs=1e-12)
    assert found.metrics["population/ann/return"] == 1.0, "raw returns stay raw"
    assert found.state.average_returns == {"ann": 1.0, "bob": 0.0}


def test_returns_of_later_moves_are_discounted_for_each_move_and_bonuses_too() -> None:
    found = assign(one_step((1.0, 0.0), (0.0, 4.0)), cooperation_strength=0.0, of={"discount": 0.5})
    assert found.credits_E_N_K[0] == ((1.0,), (2.0,), (0.0,), (4.0,))
    led = assign(
        one_step((0.0, 0.0), (0.0, 0.0)), type="hierarchical", leader="ann", compliance_bonus=1.0, of={"discount": 0.5}
    )
    assert [each[0] for each in led.credits_E_N_K[0]] == [0.0, 1.5, 0.0, 1.0], "none of it is the leader's"
    assert led.metrics["population/compliance"] == 1.0


def test_a_follower_is_paid_for_the_leaders_last_answer() -> None:
    unlike = joint(0.0, 0.0, says="CD")
    after = (answer("ann", 0.0, says="C"), answer("bob", 0.0, says="C"), answer("bob", 0.0, turn=1, says="C"))
    before = (answer("bob", 0.0, says="C"), answer("ann", 0.0, says="C"))
    for nodes, together, wanted in ((unlike, True, [0, 0]), (after, False, [0, 0.2, 0.1]), (before, False, [0, 0])):
        step = make_played(*nodes, rewards=[[0.0]] * len(nodes), together=together)
        found = assign(step, type="hierarchical", leader="ann")
        assert [each[0] for each in found.credits_E_N_K[0]] == pytest.approx(wanted)


def test_baselines_are_of_agent_and_turn_from_before_the_episode() -> None:
    twice = [one_step((1.0, 0.0), (2.0, 0.0))] * 2
    found = assign(*twice, cooperation_strength=0.0, of=BASELINE | {"baseline_decay": 0.5})
    assert found.credits_E_N_K[0][0::2] == ((3.0,), (2.0,)), "nothing is known of the first episode"
    assert found.credits_E_N_K[1][0::2] == ((1.5,), (1.0,)), "half of the first one's returns"
    assert found.state.baselines.value("turn 0", "ann") == 0.5 * 1.5 + 0.5 * 3.0
    plain = assign(one_step((1.0, 0.0)), state=found.state, cooperation_strength=0.0)
    assert plain.credits_E_N_K[0][0] == (1.0,), "another advantage subtracts its own"


def test_compared_candidates_are_credited_with_what_each_earned_at_once() -> None:
    tree = make_played(answer("ann", 1.0, 3.0, None), answer("bob", 5.0, 5.0, 5.0, turn=1, ann=0.0, bob=5.0),
                  rewards=[[1.0, 3.0, None], [5.0, 5.0, 5.0]], together=False)  # fmt: skip
    found = assign(tree, cooperation_strength=1.0, of=BASELINE | {"discount": 0.5})
    assert found.credits_E_N_K[0][0] == (0.5, 1.5, None), "no later reward and no baseline, but the team's mean"
    assert found.state.average_returns == {"ann": 1.0, "bob": 5.0}, "of the chosen candidates"


def test_a_failed_episode_credits_nothing_and_changes_no_state() -> None:
    nothing = Played(moves=(), num_actions_N=(1, 2), members_A=("first", "second"))
    unscored = make_played(*joint(1.0, 0.0), rewards=[[1.0], [None]])
    found = assign(nothing, unscored)
    assert found.credits_E_N_K == [((None,), (None, None)), ((None,), (None,))]
    assert found.state == PopulationState(num_steps=1)
    assert found.metrics == {}


@given(
    st.lists(st.tuples(PAYS, PAYS), min_size=2, max_size=8),
    st.integers(1, 7),
    st.sampled_from(["mixed", "hierarchical"]),
)
def test_a_state_that_was_stored_between_two_steps_goes_on_to_the_bit(
    returns: list[tuple[float, float]], cut: int, mode: str
) -> None:
    """Each step is one episode, so that cutting the run anywhere cuts it between two steps."""

    def after(state: PopulationState, part: list[tuple[float, float]]) -> tuple[PopulationState, list[Any]]:
        credits = []
        for each in part:
            found = assign(one_step(each), state=state, type=mode, of=BASELINE)
            state, credits = found.state, [*credits, found.credits_E_N_K]
        return state, credits

    whole, wanted = after(PopulationState(), returns)
    half, early = after(PopulationState(), returns[:cut])
    stored = decode(encode(half), PopulationState)
    assert stored == half
    again, late = after(stored, returns[cut:])
    assert (again, early + late) == (whole, wanted)


@given(st.lists(st.tuples(PAYS, PAYS), min_size=1, max_size=8), st.integers(0, 8))
def test_episodes_are_folded_alike_in_one_step_and_in_two(returns: list[tuple[float, float]], cut: int) -> None:
    episodes = [one_step(each) for each in returns]
    whole = assign(*episodes, of=BASELINE)
    half = assign(*episodes[:cut], of=BASELINE)
    rest = assign(*episodes[cut:], state=half.state, of=BASELINE)
    assert half.credits_E_N_K + rest.credits_E_N_K == whole.credits_E_N_K
    assert rest.state.num_steps == 2
    for field in (
        *("num_episodes", "baselines", "correlation", "average_returns", "records", "num_samples", "payoffs"),
        "interactions",
    ):
        assert getattr(rest.state, field) == getattr(whole.state, field)
    assert whole.state.num_samples == {"first": len(returns), "second": len(returns)}
    assert whole.state.interactions.returns["first"]["second"].num_episodes == len(returns)
