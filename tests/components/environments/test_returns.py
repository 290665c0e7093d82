"""The return of a failed episode depends on where it ended alone, and a solver's value gains add up along an episode."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import inf
from random import Random
from typing import Any

import pytest

from components.config import RewardConfig
from components.environments.games.towers import arrangement_of, fewest_moves, move_block
from components.environments.play import Playthrough, Position
from components.environments.registry import family, family_options
from components.environments.shared.progress import LEAST_VALUE, value_gain
from components.rewards.rubric import rubric_for
from components.schema import ActionOutcome

PUZZLES = [
    ("plan_path", {}),
    ("sokoban", {"size": 5, "min_distance": 3, "max_distance": 8, "max_moves": 8}),
    ("sudoku", {"size": 4, "num_blanks": 6}),
    ("blocksworld", {"num_blocks": 4, "max_distance": 6}),
    ("eight_queens", {"size": 6, "num_free": 4}),
]
WORLDS: list[tuple[str, dict[str, Any]]] = [
    ("shop", {"level": 2}),
    ("calendar", {"level": 2}),
    ("file_tree", {"level": 2}),
]
NUM_PROBLEMS, NUM_WORLD_PROBLEMS, NUM_EPISODES, NUM_TURNS = 8, 3, 20, 3


def random_episodes(name: str, options: dict[str, Any]) -> Iterator[list[tuple[Any, list[ActionOutcome]]]]:
    """For each problem some random episodes: the environment at the end, and its outcomes."""
    chosen: Any = family(name)
    checked, rng = family_options(name, options), Random(7)
    for index in range(NUM_PROBLEMS if chosen.has_solver_value else NUM_WORLD_PROBLEMS):
        problem = chosen.problem(checked, split="train", index=index, seed=0)
        episodes = []
        for _ in range(NUM_EPISODES):
            env = Playthrough(chosen.referee(measures_value=chosen.has_solver_value), problem)
            outcomes: list[ActionOutcome] = []
            for _ in range(rng.randint(1, NUM_TURNS)):
                for role in env.roles:
                    if not env.done:
                        answers = [
                            chosen.noisy_expert_action(env.position, role, noise=rng.choice((0.4, 0.9)), rng=rng),
                            chosen.random_action(env.position, role, rng),
                            "nonsense!",
                        ]
                        outcomes.append(env.apply(role, rng.choice(answers)))
            episodes.append((env, outcomes))
        yield episodes


def distance_of(env: Any) -> float:
    """The distance from solved of a puzzle's board, or of a world's scene."""
    played = env.position.state
    distance: float = (played.game if hasattr(played, "game") else played.world).distance(played.state)
    return distance


@pytest.mark.parametrize(("name", "options"), [*PUZZLES, *WORLDS])
def test_of_two_failed_episodes_of_a_problem_the_nearer_one_is_never_paid_less(
    name: str, options: dict[str, Any]
) -> None:
    chosen: Any = family(name)
    of_episodes, of_nodes = (rubric_for(chosen, RewardConfig(), from_start=flag) for flag in (True, False))
    num_inverted_by_node = num_lost = 0
    for episodes in random_episodes(name, options):
        ended = sorted((distance_of(env), n) for n, (env, _) in enumerate(episodes) if not env.success)
        for (nearer, one), (farther, other) in pairwise(ended):
            last, next_last = episodes[one][1][-1], episodes[other][1][-1]
            assert of_episodes.reward(last) >= of_episodes.reward(next_last), (nearer, last, farther, next_last)
            num_inverted_by_node += of_nodes.reward(last) < of_nodes.reward(next_last)
            num_lost += farther == inf
            if farther == inf:
                assert of_episodes.reward(next_last) == pytest.approx(-0.2)
        solved = [of_episodes.reward(outcomes[-1]) for env, outcomes in episodes if env.success]
        assert all(each == pytest.approx(1.2) for each in solved)
    assert num_inverted_by_node > 0, "the rewards of last actions alone would have done"
    assert (num_lost > 0) == (name == "sokoban")


def test_an_unreadable_last_answer_does_not_take_away_what_the_program_passes() -> None:
    chosen: Any = family("code")
    env = chosen.build(chosen.problem(family_options("code", {}), split="train", index=0, seed=0))
    draft = env.position.state
    num_hidden = len(draft.problem.hidden)
    for num_passed, solved in ((num_hidden, 1.0), (num_hidden - 1, 0.0)):
        env.position = Position(state=replace(draft, work=replace(draft.work, num_hidden_passed=num_passed)))
        outcome = env.apply("tester", "no test at all")
        assert outcome.error is not None
        assert outcome.team == {"solved": 0.0, "passed": 0.0}
        assert outcome.team_of_episode == {"solved": solved, "passed": num_passed / num_hidden}


def test_named_weights_hold_in_returns_too() -> None:
    config = RewardConfig(weights={"local.malformed": -0.3})
    rubric = rubric_for(family("plan_path"), config, from_start=True)
    assert (rubric.weights["local.malformed"], rubric.weights["local.clean"]) == (-0.3, 0.0)
    assert rubric_for(family("math"), RewardConfig(), from_start=True).weights == dict(
        rubric_for(family("math"), RewardConfig()).weights
    )


@pytest.mark.parametrize(("name", "options"), PUZZLES)
def test_the_value_gains_of_deciding_actions_add_up_to_the_change_of_the_optimal_distance(
    name: str, options: dict[str, Any]
) -> None:
    for episodes in random_episodes(name, options):
        for env, outcomes in episodes:
            board = env.position.state
            start, end = map(board.game.optimal_distance, (board.game.start, board.state))
            gains = [outcome.value_gain for outcome in outcomes[1::2]]
            assert sum(gains) == pytest.approx(max(LEAST_VALUE, -end / start) + 1)


@pytest.mark.parametrize(("name", "options"), PUZZLES)
def test_optimal_distances_fall_by_one_along_a_best_move_and_never_by_more(name: str, options: dict[str, Any]) -> None:
    chosen: Any = family(name)
    rng = Random(3)
    for index in range(6):
        env = chosen.build(chosen.problem(family_options(name, options), split="train", index=index, seed=0))
        game, state = env.position.state.game, env.position.state.state
        for _ in range(12):
            moves = [game.random_move(state, rng) for _ in range(6)]
            after = [game.optimal_distance(game.play(state, (move,)).state) for move in moves]
            here = game.optimal_distance(state)
            assert all(there >= here - 1 for there in after)
            best = game.expert_move(state, None)
            if best is None:
                assert here in (0, inf)
                break
            if name != "blocksworld":  # whose expert is not always optimal
                assert game.optimal_distance(game.play(state, (best,)).state) == here - 1
            state = game.play(state, (rng.choice([*moves, best]),)).state


def test_the_fewest_moves_of_towers_are_those_of_a_plain_search() -> None:
    goal = arrangement_of(["bca", "ed"])
    moves = [block + onto for block in "abcde" for onto in "abcde0"]
    distances, queue = {goal: 0}, [goal]
    for state in queue:  # moves can be taken back, so distances from the goal are those to it
        for there in (move_block(state, *move) for move in moves):
            if there is not None and there not in distances:
                distances[there] = distances[state] + 1
                queue.append(there)
    assert len(distances) == 501
    assert all(fewest_moves(state, goal) == distance for state, distance in distances.items())


def test_values_are_measured_only_where_asked_for_and_simulated_for_a_proposal() -> None:
    chosen: Any = family("plan_path")
    env = chosen.build(chosen.problem(family_options("plan_path", {}), split="train", index=0, seed=0))
    expert = chosen.expert_action(env.position, "tool_agent")
    assert env.apply("tool_agent", expert).value_gain is None
    env.referee = chosen.referee(measures_value=True)
    assert env.apply("tool_agent", expert).value_gain == 1.0
    assert env.apply("plan_agent", "nonsense!").value_gain == 0.0
    assert env.apply("plan_agent", expert).value_gain == 1.0


def test_value_gains_of_dead_ends() -> None:
    assert value_gain(8, 6, 8) == 0.25
    assert value_gain(6, inf, 8) == -1.25
    assert value_gain(inf, inf, 8) == 0.0
    assert value_gain(8, 40, 8) == -1.0
