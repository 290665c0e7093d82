"""Episodes of a step as trees of spans: who was asked what, answered what, and what it earned."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.schema import Episode, Node, RolloutShard, ScoredShard
from components.text.escaping import printable
from components.tracking.base import EpisodeTrace, TracedSpan

LONGEST_TEXT = 20_000
PromptText = Callable[[Sequence[int]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallTrace:
    """A call of a tool: what it was given, and what it gave."""

    name: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]


ToolCalls = Mapping[tuple[int, int], Sequence[ToolCallTrace]]
"""By the indices of node and candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredEpisode:
    """An episode of a shard with the rewards of its candidates. Axes: N nodes, K candidates."""

    shard: RolloutShard
    episode: Episode
    rewards_N_K: Sequence[Sequence[float | None]]


def sample_episodes(
    shards: Sequence[RolloutShard], scores: Sequence[ScoredShard], num_episodes: int
) -> list[ScoredEpisode]:
    """`num_episodes` of a step, evenly spread over its shards and problems; all if there are fewer.

    **Example** 2 of 40 episodes: the first and the 21st.
    """
    scored = [
        ScoredEpisode(shard=shard, episode=episode, rewards_N_K=rewards_N_K)
        for shard, score in zip(shards, scores, strict=True)
        for episode, rewards_N_K in zip(shard.episodes, score.rewards_E_N_K, strict=True)
    ]
    count = min(num_episodes, len(scored))
    return [scored[number * len(scored) // count] for number in range(count)]


def episode_trace(
    scored: ScoredEpisode, prompts: Mapping[str, PromptText], calls: ToolCalls, *, view: str = ""
) -> EpisodeTrace:
    """The trace of an episode's selected branch: a span for the whole, each turn, each answer and each call that it made.

    Prompts of policies that are not in `prompts` are left out. Texts are cut at LONGEST_TEXT characters.
    """
    episode, shard = scored.episode, scored.shard
    spans = [_whole(scored)]
    turns: dict[int, int] = {}
    for n, node in enumerate(episode.nodes):
        if node.parent is not None:
            continue
        turn = node.group.turn
        if turn not in turns:
            turns[turn] = len(spans)
            spans.append(TracedSpan(kind="turn", name=f"turn {turn}", parent=0, inputs={}, outputs={}))
        at = len(spans)
        spans.append(_answer(scored, n, prompts, parent=turns[turn]))
        spans += [
            TracedSpan(
                kind="tool",
                name=each.name,
                parent=at,
                inputs=_format_values(each.inputs),
                outputs=_format_values(each.outputs),
            )
            for each in calls.get((n, node.chosen), ())
        ]
    key = f"{shard.step}/{shard.shard}/{episode.problem.problem_id}/{episode.episode}"
    return EpisodeTrace(key=key, step=shard.step, view=view, spans=tuple(spans))


def _whole(scored: ScoredEpisode) -> TracedSpan:
    episode = scored.episode
    final = None if episode.final is None else episode.nodes[episode.final]
    rewards = [
        rewards_K[node.chosen]
        for node, rewards_K in zip(episode.nodes, scored.rewards_N_K, strict=True)
        if node.parent is None
    ]
    return TracedSpan(
        kind="episode",
        name=printable(episode.problem.environment, keep=""),
        parent=None,
        inputs=_format_values({"problem": episode.problem.problem_id, "payload": dict(episode.problem.payload)}),
        outputs=_format_values(
            {
                "success": episode.success,
                "answer": None if final is None else final.candidates[final.chosen].text,
                "reward": sum(reward or 0.0 for reward in rewards),
            }
        ),
        facts={
            "step": scored.shard.step,
            "shard": scored.shard.shard,
            "episode": episode.episode,
            "num_generated_tokens": episode.num_generated_tokens,
        },
        error=None if episode.error is None else _cut(episode.error),
    )


def _answer(scored: ScoredEpisode, n: int, prompts: Mapping[str, PromptText], *, parent: int) -> TracedSpan:
    node: Node = scored.episode.nodes[n]
    taken, version = node.candidates[node.chosen], scored.shard.policy_versions.get(node.policy)
    text = prompts.get(node.policy)
    return TracedSpan(
        kind="agent",
        name=printable(node.group.agent, keep=""),
        parent=parent,
        inputs={} if text is None else {"prompt": _cut(text(node.prompt_tokens))},
        outputs=_format_values({"answer": taken.text, "reward": scored.rewards_N_K[n][node.chosen]}),
        facts={
            "policy": node.policy,
            "weights_digest": None if version is None else version.weights_digest,
            "candidates": [_cut(candidate.text) for candidate in node.candidates],
            "rewards": _format_value(scored.rewards_N_K[n]),
            "taken": node.chosen,
            "solves": taken.outcome.solves,
            "malformed": None if taken.outcome.error is None else _cut(taken.outcome.error),
        },
        error=None if taken.outcome.unscorable is None else _cut(taken.outcome.unscorable),
        num_prompt_tokens=len(node.prompt_tokens),
        num_answer_tokens=sum(len(candidate.tokens) for candidate in node.candidates),
    )


def _format_values(values: Mapping[str, Any]) -> dict[str, Any]:
    return {printable(str(name), keep=""): _format_value(value) for name, value in values.items()}


def _format_value(value: Any) -> Any:
    match value:
        case str():
            return _cut(value)
        case Mapping():
            return _format_values(value)
        case list() | tuple():
            return [_format_value(each) for each in value]
        case float():
            return float(f"{value:.6g}")  # nobody reads 0.16000000000000003
        case _:
            return value


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= LONGEST_TEXT else f"{shown[:LONGEST_TEXT]}… ({len(shown):,} characters)"
