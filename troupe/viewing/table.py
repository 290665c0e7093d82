"""`troupe rollouts`: the rollouts of a step as a Parquet table, one row per candidate."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from components.artifacts.base import ArtifactStore
from components.errors import ArtifactCorrupt, ConfigurationError
from components.session.prompt_texts import PromptText, prompt_texts
from troupe.viewing.recorded import RecordedEpisode, RecordedStep, read_recorded


def write_rollouts(store: ArtifactStore, run_id: str, file: Path, *, step: int | None = None) -> dict[str, Any]:
    """Write the rollouts of a step (None: the newest) to a Parquet file; `{run_id, step, file, num_rows, notes}`.

    Raises ConfigurationError for an unknown run or step and for a file that cannot be written, ArtifactCorrupt if nothing of
    the step can be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    recorded = read_recorded(store, run_id, step)
    if not recorded.episodes:
        reason = "; ".join(recorded.notes) or "no shard has an episode"
        raise ArtifactCorrupt(f"step {recorded.step} of run {run_id!r} has no rows: {reason}")
    prompts, notes = prompt_texts(store, recorded.run, recorded.step, recorded.config.policies)
    rows = list(rollout_rows(recorded, prompts))
    try:
        pq.write_table(pa.Table.from_pylist(rows, schema=_schema(pa)), file)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"--to {str(file)!r}: {reason}; name a file in a folder that exists") from error
    return {
        "run_id": run_id,
        "step": recorded.step,
        "file": str(file),
        "num_rows": len(rows),
        "notes": [*recorded.notes, *notes],
    }


def rollout_rows(recorded: RecordedStep, prompts: Mapping[str, PromptText]) -> Iterator[dict[str, Any]]:
    """The rows, in the order of shards, episodes, nodes and candidates.

    `node` counts the nodes of an episode; `parent_node` and `parent_candidate` are set off the selected branch alone, where -1
    is the start. `prompt` is None if its tokenizer is not in the store. `reward` and `advantage` are None where there is none;
    `is_scored` is False where the reward is that by which the sampler chose.
    """
    for each in recorded.episodes:
        for index in range(len(each.episode.nodes)):
            yield from _node_rows(recorded, each, index, prompts)


def _node_rows(
    recorded: RecordedStep, each: RecordedEpisode, index: int, prompts: Mapping[str, PromptText]
) -> Iterator[dict[str, Any]]:
    episode, node = each.episode, each.episode.nodes[index]
    version, text = recorded.versions.get(node.policy), prompts.get(node.policy)
    shared = {
        "run_id": recorded.run.run_id,
        "step": recorded.step,
        "shard": each.shard,
        "problem": episode.problem.problem_id,
        "episode": episode.episode,
        "success": episode.success,
        "episode_error": _encodable(episode.error),
        "node": index,
        "turn": node.group.turn,
        "agent": node.group.agent,
        "policy": node.policy,
        "weights_digest": version.weights_digest if version else None,
        "parent_node": node.parent[0] if node.parent else None,
        "parent_candidate": node.parent[1] if node.parent else None,
        "is_trained_on": node.is_trained_on,
        "temperature": node.temperature,
        "prompt": None if text is None else _encodable(text(node.prompt_tokens)),
        "prompt_tokens": list(node.prompt_tokens),
    }
    for k, candidate in enumerate(node.candidates):
        yield {
            **shared,
            "candidate": k,
            "is_taken": k == node.chosen and node.parent is None,
            "answer": _encodable(candidate.text),
            "answer_tokens": list(candidate.tokens),
            "sampler_logprobs": list(candidate.sampler_logprobs),
            "finish_reason": candidate.finish_reason,
            "reward": each.rewards_N_K[index][k],
            "is_scored": each.is_scored,
            "advantage": None if each.advantages_N_K is None else each.advantages_N_K[index][k],
            "solves": candidate.outcome.solves,
            "malformed": _encodable(candidate.outcome.error),
            "unscorable": _encodable(candidate.outcome.unscorable),
        }


def _encodable(text: str | None) -> str | None:
    """`text` with U+FFFD for the halves of surrogate pairs, which no file of text can hold."""
    return None if text is None else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _schema(pa: Any) -> Any:
    """The types of the columns, so that a column of nulls has its type, too."""
    lists = {"ints": pa.list_(pa.int64()), "floats": pa.list_(pa.float64())}
    return pa.schema([(name, lists.get(kind) or pa.type_for_alias(kind)) for name, kind in _COLUMNS.items()])


_COLUMNS = {
    "run_id": "string",
    **dict.fromkeys(("step", "shard"), "int64"),
    "problem": "string",
    "episode": "int64",
    "success": "bool",
    "episode_error": "string",
    **dict.fromkeys(("node", "turn"), "int64"),
    **dict.fromkeys(("agent", "policy", "weights_digest"), "string"),
    **dict.fromkeys(("parent_node", "parent_candidate", "candidate"), "int64"),
    **dict.fromkeys(("is_taken", "is_trained_on"), "bool"),
    "temperature": "double",
    **dict.fromkeys(("prompt", "answer"), "string"),
    "reward": "double",
    "is_scored": "bool",
    "advantage": "double",
    "solves": "bool",
    **dict.fromkeys(("malformed", "unscorable", "finish_reason"), "string"),
    **dict.fromkeys(("prompt_tokens", "answer_tokens"), "ints"),
    "sampler_logprobs": "floats",
}
