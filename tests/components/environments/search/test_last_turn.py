"""What the reasoner's last action earns, over the invented worlds: ending without an answer is never better than an answer."""

from collections import defaultdict
from collections.abc import Mapping
from random import Random
from statistics import fmean
from typing import Any

import pytest

from components.environments.play import Playthrough
from components.environments.search.expert import random_name, random_word, reasoner_line_text, searcher_line_texts
from components.rewards.base import Rubric
from tests.components.environments.search.tables import REASONER, SEARCHER, open_play, options_of, the_family

NUM_TURNS = 3
NUM_PROBLEMS = 16
RUBRIC = Rubric(team_weight=1.0, weights=the_family().default_weights)
ANSWERS = ("expert", "read", "random name", "word of the question")
NO_ANSWERS = ("ask well", "ask at random", "nonsense", "nothing")


def actions(env: Playthrough, rng: Random) -> Mapping[str, str]:
    """Ways to end an episode, answers and others. `read` is an answer from the newest passage."""
    inquiry, question = env.position.state, env.position.state.question
    title, text = inquiry.state.evidence[0]
    name = random_name(inquiry, rng)
    hop = next((hop for hop in question.hops if not hop.is_asked_by(question.text)), question.hops[-1])
    return {
        "expert": f"={question.answers[0]}",
        "read": f"={(text.split() or [title])[-1]}",
        "random name": f"={name}",
        "word of the question": f"={random_word(inquiry, rng)}",
        "ask well": f"?{hop.title}",
        "ask at random": f"?{name}",
        "nonsense": "nonsense",
        "nothing": "",
    }


def compute_earnings(env: Playthrough, rng: Random) -> dict[str, float]:
    """What each way earns in the current state, which stays."""
    before, rewards = env.position, {}
    for name, action in actions(env, rng).items():
        rewards[name] = RUBRIC.reward(env.apply(REASONER, action))
        env.position = before
    return rewards


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("plays_well", [True, False])
def test_ending_without_an_answer_never_earns_more_than_an_answer(level: int, plays_well: bool) -> None:
    """Before the last turn a sub-question that the chain needs earns more than any wrong answer."""
    last, earlier = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for index in range(NUM_PROBLEMS):
        rng = Random(index)
        split: Any = "train" if index % 2 else "test"
        _, env = open_play({"level": level, "num_reasoner_turns": NUM_TURNS}, index, split)
        for turn in range(NUM_TURNS):
            inquiry = env.position.state
            searches_well = plays_well or turn == 0
            lines = searcher_line_texts(inquiry) if searches_well else [f"?{random_name(inquiry, rng)}"]
            env.apply(SEARCHER, "\n".join(lines))
            rewards = compute_earnings(env, rng)
            for name, reward in rewards.items():
                (last if turn == NUM_TURNS - 1 else earlier)[name].append(reward)
            if turn == NUM_TURNS - 1:
                assert max(rewards[name] for name in NO_ANSWERS) <= min(rewards[name] for name in ANSWERS)
            else:
                inquiry = env.position.state
                asked = reasoner_line_text(inquiry, patient=True)
                asks_well = asked.startswith("?") and plays_well
                env.apply(REASONER, asked if asks_well else f"?{random_name(inquiry, rng)}")
    means = {name: fmean(values) for name, values in last.items()}
    assert means["ask well"] == means["ask at random"] == 0.0
    assert means["nonsense"] == means["nothing"] == pytest.approx(-0.1)
    assert means["random name"] < means["expert"] == pytest.approx(1.1)
    before = {name: fmean(values) for name, values in earlier.items()}
    assert before["ask at random"] <= before["ask well"]
    assert before["random name"] < before["expert"]


def test_the_last_action_is_counted_with_malformed_ones_and_is_part_of_a_snapshot() -> None:
    _, env = open_play({"level": 1, "num_reasoner_turns": 2}, index=3)
    question = env.position.state.question
    hidden = next(hop for hop in question.hops if not hop.is_asked_by(question.text))
    start = env.position
    assert env.apply(REASONER, f"?{hidden.title}").local["asked"] > 0
    env.position = start
    env.apply(REASONER, "nonsense")
    assert env.apply(REASONER, f"?{hidden.title}").local["asked"] == 0.0
    env.position = start
    assert env.apply(REASONER, f"?{hidden.title}").local["asked"] > 0


@pytest.mark.parametrize(
    ("turn_order", "num_actions"),
    [
        (None, 3),
        (("searcher", "reasoner"), 3),
        (("searcher", "reasoner", "reasoner"), 6),
        ((("searcher", "reasoner"), "reasoner"), 6),
    ],
)
def test_options_learn_the_number_of_the_reasoners_actions(turn_order: Any, num_actions: int) -> None:
    assert options_of().ending_after(3, turn_order).num_reasoner_turns == num_actions
    assert options_of(num_reasoner_turns=5).ending_after(3, turn_order).num_reasoner_turns == 5
