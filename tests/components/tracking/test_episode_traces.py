"""Episodes as trees of spans."""

from dataclasses import replace

import pytest

from components.schema import FailedBranch, RolloutShard, ScoredShard
from components.tracking.episode_traces import (
    LONGEST_TEXT,
    ScoredEpisode,
    ToolCallTrace,
    episode_trace,
    sample_episodes,
)
from tests.recorded_rollouts import candidate, episode, node, shard


def score(made: RolloutShard) -> ScoredShard:
    """Rewards that count the candidates of an episode."""
    rewards = tuple(
        tuple(tuple(10.0 * n + k for k in range(len(each.candidates))) for n, each in enumerate(played.nodes))
        for played in made.episodes
    )
    return ScoredShard(step=made.step, shard=made.shard, rewards_E_N_K=rewards)


def test_the_sample_is_spread_over_shards_and_never_larger_than_the_step() -> None:
    shards = [shard(3, number, *(episode(problem=f"{number}{letter}") for letter in "abcd")) for number in (0, 1)]
    scores = [score(each) for each in shards]

    def names(count: int) -> list[str]:
        return [each.episode.problem.problem_id for each in sample_episodes(shards, scores, count)]

    assert (names(0), names(1), names(2)) == ([], ["0a"], ["0a", "1a"])
    assert names(3) == ["0a", "0c", "1b"]
    assert len(set(names(8))) == len(names(100)) == 8


def test_an_episode_is_its_turns_its_answers_and_their_calls() -> None:
    played = episode(
        node(candidate("L"), candidate("ab", reward=9.0), chosen=1),
        node(candidate("never"), parent=(0, 0), is_trained_on=False),
        node(candidate("U", solves=True, done=True), agent="plan_agent"),
        node(candidate("late", unscorable="the box is gone"), turn=1),
        success=True,
    )
    made = shard(4, 1, replace(played, cuts=(FailedBranch(parent=(0, 0), error="cut"),)))
    (sampled,) = sample_episodes([made], [score(made)], 5)
    call = ToolCallTrace(name="program", inputs={"program": "print(1)"}, outputs={"stdout": "1"})
    calls = {(0, 1): [call], (0, 0): [replace(call, name="of an answer that was not taken")]}
    trace = episode_trace(sampled, {"team": lambda tokens: f"prompt {sum(tokens)}"}, calls)
    assert (trace.key, trace.step) == ("4/1/p/0", 4)
    shape = [(each.kind, each.name, each.parent) for each in trace.spans]
    assert shape == [
        ("episode", "plan_path", None),
        ("turn", "turn 0", 0),
        ("agent", "tool_agent", 1),
        ("tool", "program", 2),
        ("agent", "plan_agent", 1),
        ("turn", "turn 1", 0),
        ("agent", "tool_agent", 5),
    ]
    whole, _, first, call_span, _, _, last = trace.spans
    assert whole.outputs == {"success": True, "answer": "U", "reward": 1.0 + 20.0 + 30.0}
    assert (first.inputs, first.outputs) == ({"prompt": "prompt 5"}, {"answer": "ab", "reward": 1.0})
    assert (first.facts["rewards"], first.facts["candidates"], first.facts["taken"]) == ([0.0, 1.0], ["L", "ab"], 1)
    assert (first.num_prompt_tokens, first.num_answer_tokens) == (2, 1 + 2)
    assert (call_span.inputs, call_span.outputs) == ({"program": "print(1)"}, {"stdout": "1"})
    assert last.error == "the box is gone"


@pytest.mark.parametrize("text", ["\x1b[31mred", "half \ud83d", "x" * (LONGEST_TEXT + 1)])
def test_texts_can_be_shown_and_sent_anywhere(text: str) -> None:
    made = replace(episode(node(candidate("U"))), error=text)
    sampled = ScoredEpisode(shard=shard(0, 0, made), episode=made, rewards_N_K=((None,),))
    trace = episode_trace(sampled, {}, {})
    shown = trace.spans[0].error
    assert shown is not None
    assert shown.isprintable()
    assert shown.encode()
    assert len(shown) < LONGEST_TEXT + 100
    assert trace.spans[2].inputs == {}, "the tokenizer of its prompt is gone"
    assert trace.model_dump_json()


def test_an_episode_that_failed_at_once_has_no_answers() -> None:
    made = replace(episode(), error="no engine")
    sampled = ScoredEpisode(shard=shard(0, 0, made), episode=made, rewards_N_K=())
    (whole,) = episode_trace(sampled, {}, {}).spans
    assert (whole.error, whole.outputs) == ("no engine", {"success": False, "answer": None, "reward": 0})
