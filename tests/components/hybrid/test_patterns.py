"""Planted patterns are found, random play shows none, and counting in pieces is counting at once."""

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.hybrid.decision_history import Decision, DecisionHistory
from components.hybrid.patterns import LONGEST

Play = list[tuple[int, int, bool]]
"""State, action and success of each step of an episode."""


def decisions(episode: int, play: Play) -> list[Decision]:
    return [
        Decision(episode_id=episode, step_number=step, state_hash=state, action=action, source="rl", is_success=success,
                 is_last=step == len(play) - 1)
        for step, (state, action, success) in enumerate(play)
    ]  # fmt: skip


def history_of(plays: list[Play], episodes_at_once: int = 10**9) -> DecisionHistory:
    history = DecisionHistory()
    for first in range(0, len(plays), episodes_at_once):
        block = enumerate(plays[first : first + episodes_at_once], first)
        history.record([each for episode, play in block for each in decisions(episode, play)])
        history.analyse()
    return history


def counts(history: DecisionHistory) -> set[tuple[int, str, int, int]]:
    select = (
        "SELECT state_hash, actions, sum(seen), sum(won) FROM grams WHERE actions <> '' GROUP BY state_hash, actions"
    )
    return set(history._connection.execute(select))


def first_visits(play: Play) -> Iterator[tuple[int, str, bool]]:
    for step, (state, _, success) in enumerate(play):
        if state not in {earlier for earlier, _, _ in play[:step]}:
            for length in range(1, min(LONGEST, len(play) - step) + 1):
                yield state, ",".join(str(action) for _, action, _ in play[step : step + length]), success


steps = st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans())


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(steps, min_size=1, max_size=6), max_size=8), st.integers(1, 4))
def test_grams_are_those_of_first_visits_in_pieces_or_at_once(plays: list[Play], episodes_at_once: int) -> None:
    seen, won = Counter(), Counter()
    for play in plays:
        for state, actions, success in first_visits(play):
            seen[state, actions] += 1
            won[state, actions] += success
    pieces = history_of(plays, episodes_at_once)
    assert counts(pieces) == {(state, actions, seen[state, actions], won[state, actions]) for state, actions in seen}
    blocks = "SELECT * FROM grams ORDER BY state_hash, length, actions, block"
    assert [*pieces._connection.execute(blocks)] == [*history_of(plays)._connection.execute(blocks)]


def test_open_episodes_wait_until_they_are_closed() -> None:
    history = DecisionHistory()
    one, other = decisions(0, [(1, 1, True)] * 3), decisions(1, [(1, 2, False)] * 2)
    history.record(one[:2])
    assert history.analyse() == 0
    history.record([*other, one[2]])
    assert history.analyse() == 2
    assert history.analyse() == 0
    assert {row for row in counts(history) if "," not in row[1]} == {(1, "1", 1, 1), (1, "2", 1, 0)}


def make_plays(seed: int, num_episodes: int, success: Callable[[random.Random, Play], Play]) -> list[Play]:
    rng = random.Random(seed)
    return [
        success(rng, [(rng.randrange(12), rng.randrange(9), False) for _ in range(15)]) for _ in range(num_episodes)
    ]


def by_chance(rng: random.Random, play: Play) -> Play:
    return [(state, action, rng.random() < 0.3) for state, action, _ in play]


def by_planted_pairs(rng: random.Random, play: Play) -> Play:
    pairs = [(each[1], other[1]) for each, other in zip(play, play[1:] + play[:1], strict=True)]
    rates = [
        0.9 if state == 7 and pair == (4, 0) else 0.02 if state == 3 and pair[0] == 2 else 0.3
        for (state, _, _), pair in zip(play, pairs, strict=True)
    ]
    return [(state, action, rng.random() < rate) for (state, action, _), rate in zip(play, rates, strict=True)]


def by_episode(rng: random.Random, play: Play) -> Play:
    won = rng.random() < 0.5
    return [(state, action, won) for state, action, _ in play[: 3 if won else 15]]


def test_planted_patterns_are_found_and_nothing_else() -> None:
    report = history_of(make_plays(0, 2500, by_planted_pairs)).patterns()
    found = {(pattern.state_hash, pattern.actions, pattern.effect) for pattern in report.patterns}
    assert {(7, (4, 0), "helps"), (3, (2,), "hurts")} <= found
    assert all((state == 7 and actions[:1] == (4,)) or (state == 3 and actions[0] == 2) for state, actions, _ in found)
    for pattern in report.patterns:
        assert pattern.p_value <= report.level == pytest.approx(0.025 / report.num_tested)
        assert pattern.low > pattern.base_rate or pattern.high < pattern.base_rate


@pytest.mark.parametrize("success", [by_chance, by_episode])
def test_random_play_shows_no_pattern(success: Callable[[random.Random, Play], Play]) -> None:
    """20 families at 95%: with the true error rate at its bound, 5 or more false ones have a probability of .003."""
    reports = [history_of(make_plays(seed, 150, success)).patterns() for seed in range(20)]
    assert all(report.num_tested > 50 for report in reports)
    assert sum(bool(report.patterns) for report in reports) < 5


@pytest.mark.parametrize("drift", [lambda f: f, lambda f: float(f > 0.37), lambda f: f * (1 - f) * 4])
def test_an_action_that_comes_as_success_comes_is_no_pattern(drift: Callable[[float], float]) -> None:
    """As while a policy learns: it chooses ever more often what is without effect, and succeeds ever more often."""
    num_found = 0
    for seed in range(4):
        rng = random.Random(seed)
        rises = [drift(episode / 300) for episode in range(300)]
        plays = [
            [(state, int(rng.random() < 0.1 + 0.8 * rise), rng.random() < 0.2 + 0.6 * rise) for state in range(3)]
            for rise in rises
        ]
        num_found += bool(history_of(plays, 50).patterns(minimum_seen=3).patterns)
    assert num_found <= 1


def test_a_better_state_makes_no_action_good() -> None:
    """State 1 is always near the goal, and most play of action 2 is there: the action is no pattern."""
    rng = random.Random(0)
    plays = [[(1, 2 if rng.random() < 0.9 else 3, True), (0, rng.choice([2, 3, 3]), False)] for _ in range(300)]
    assert history_of(plays).patterns().patterns == ()
