"""A step's episodes as plain JSON: the tree of each, and the tags by which it is found. All texts are printable."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from statistics import fmean
from typing import Any

from components.escaping import printable
from components.rollout.statistics import keep_and_repair, last_agent_of
from components.schema import Candidate, Episode, Node
from troupe.viewing.prompts import PromptText
from troupe.viewing.recorded import RecordedEpisode, RecordedStep

TAGS = ("solved", "unsolved", "failed", "repaired", "spoiled", "malformed", "unscorable")
"""failed: the episode ended with an error. repaired, spoiled: the last agent's chosen answer solved what the proposal before it
did not, or the other way round. malformed, unscorable: one of the candidates was."""


def step_document(
    recorded: RecordedStep, prompts: Mapping[str, PromptText], *, notes: Sequence[str] = (), problem: str | None = None
) -> dict[str, Any]:
    """The step and its episodes, only those of `problem` if it is given.

    `prompts` are each text once; a node names its own by index.
    """
    last_agent = last_agent_of([each.episode for each in recorded.episodes])
    shown = [each for each in recorded.episodes if problem in (None, each.episode.problem.problem_id)]
    texts = _Texts(prompts)
    return {
        "step": recorded.step,
        "versions": {
            printable(policy, keep=""): {"step": version.step, "digest": printable(version.weights_digest, keep="")}
            for policy, version in sorted(recorded.versions.items())
        },
        "notes": [printable(note, keep="") for note in (*recorded.notes, *notes)],
        "has_advantages": all(each.advantages_N_K is not None for each in shown),
        "is_scored": all(each.is_scored for each in shown),
        "episodes": [_episode_document(each, texts, last_agent) for each in shown],
        "prompts": texts.texts,
    }


def tags_of(episode: Episode, last_agent: str | None) -> list[str]:
    """Those of `TAGS` that apply."""
    chosen = tuple(replace(node, candidates=(node.candidates[node.chosen],), chosen=0) for node in episode.nodes)
    handed = keep_and_repair([replace(episode, nodes=chosen)], last_agent=last_agent)
    outcomes = [candidate.outcome for node in episode.nodes for candidate in node.candidates]
    applies = {
        "solved": episode.success,
        "unsolved": not episode.success,
        "failed": episode.error is not None,
        "repaired": handed.num_repaired > 0,
        "spoiled": handed.num_kept < handed.num_solving,
        "malformed": any(outcome.error is not None for outcome in outcomes),
        "unscorable": any(outcome.unscorable is not None for outcome in outcomes),
    }
    return [tag for tag in TAGS if applies[tag]]


class _Texts:
    """The prompts of a page, each once."""

    def __init__(self, prompts: Mapping[str, PromptText]) -> None:
        self._prompts = prompts
        self._index: dict[tuple[str, tuple[int, ...]], int] = {}
        self.texts: list[str] = []

    def index(self, node: Node) -> int:
        key = (node.policy, node.prompt_tokens)
        if key not in self._index:
            self._index[key] = len(self.texts)
            text = self._prompts.get(node.policy)
            shown = " ".join(map(str, node.prompt_tokens)) if text is None else text(node.prompt_tokens)
            self.texts.append(printable(shown))
        return self._index[key]


def _episode_document(recorded: RecordedEpisode, texts: _Texts, last_agent: str | None) -> dict[str, Any]:
    episode = recorded.episode
    return {
        "problem": printable(episode.problem.problem_id, keep=""),
        "episode": episode.episode,
        "shard": recorded.shard,
        "payload": _printable_tree(episode.problem.payload),
        "success": episode.success,
        "error": None if episode.error is None else printable(episode.error),
        "tags": tags_of(episode, last_agent),
        "num_tokens": episode.num_generated_tokens,
        "cuts": [{"parent": list(cut.parent), "error": printable(cut.error)} for cut in episode.cuts or ()],
        "nodes": [_node_document(recorded, index, texts) for index in range(len(episode.nodes))],
    }


def _node_document(recorded: RecordedEpisode, index: int, texts: _Texts) -> dict[str, Any]:
    node = recorded.episode.nodes[index]
    advantages_K: Sequence[float | None] = (
        (None,) * len(node.candidates) if recorded.advantages_N_K is None else recorded.advantages_N_K[index]
    )
    rows = zip(node.candidates, recorded.rewards_N_K[index], advantages_K, strict=True)
    return {
        "agent": printable(node.group.agent, keep=""),
        "policy": printable(node.policy, keep=""),
        "turn": node.group.turn,
        "repeat": node.group.repeat,
        "parent": None if node.parent is None else list(node.parent),
        "parallel_index": node.parallel_index,
        "is_trained_on": node.is_trained_on,
        "temperature": node.temperature,
        "prompt": texts.index(node),
        "num_prompt_tokens": len(node.prompt_tokens),
        "chosen": node.chosen,
        "chosen_randomly": node.chosen_randomly,
        "candidates": [_candidate_document(*row) for row in rows],
    }


def _candidate_document(candidate: Candidate, reward: float | None, advantage: float | None) -> dict[str, Any]:
    outcome, logprobs = candidate.outcome, candidate.sampler_logprobs
    return {
        "text": printable(candidate.text),
        "reward": _rounded(reward),
        "advantage": _rounded(advantage),
        "logprob": _rounded(sum(logprobs)),
        "mean_logprob": _rounded(fmean(logprobs) if logprobs else None),
        "num_tokens": len(candidate.tokens),
        "finish_reason": candidate.finish_reason,
        "solves": outcome.solves,
        "done": outcome.done,
        "malformed": None if outcome.error is None else printable(outcome.error),
        "unscorable": None if outcome.unscorable is None else printable(outcome.unscorable),
        "components": {
            printable(f"{kind}.{name}", keep=""): _rounded(value)
            for kind, values in (("team", outcome.team), ("local", outcome.local))
            for name, value in values.items()
        },
    }


def _rounded(value: float | None) -> float | None:
    """Six digits, more than a page shows; None for what is no number."""
    return None if value is None or not isfinite(value) else float(f"{value:.6g}")


def _printable_tree(document: Any) -> Any:
    """JSON with printable strings and keys, lines and tabs kept."""
    match document:
        case str():
            return printable(document)
        case Mapping():
            return {printable(str(key), keep=""): _printable_tree(value) for key, value in document.items()}
        case list() | tuple():
            return [_printable_tree(value) for value in document]
        case _:
            return document
