"""What a model card tells of a run: its evaluations, and prompts that its agents were given."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import get
from components.artifacts.refs import ArtifactRef
from components.config import RunConfig
from components.environments.registry import FAMILIES
from components.errors import ConfigurationError
from components.exporting.card import RecordedNode
from components.generation.tokenizer import HuggingFaceTokenizer
from components.schema import Node, RolloutShard
from tasks.history import read_history
from tasks.run import Run
from tasks.scenario import scenario_of
from tasks.step_records import manifest_keys, read_manifest_at, stage_of


def shown_evaluations(store: ArtifactStore, run: Run, step: int) -> tuple[dict[str, Any], ...]:
    """The evaluations before training and the last ones up to `step`, in order."""
    known = [each for each in read_history(store, run, step).evaluations if each["step"] <= step]
    last = max((each["step"] for each in known), default=0)
    return tuple(each for each in known if each["step"] in (0, last))


def answer_limits(config: RunConfig, roles: Sequence[str]) -> dict[str, int | None]:
    """The longest answer of each role in tokens; None where own code decides it, which an export does not run."""
    if config.environment.name not in FAMILIES:
        return {role: config.agents[role].max_new_tokens for role in roles}
    seats = scenario_of(config).seats
    return {role: seats[role].max_new_tokens for role in roles}


def recorded_nodes(store: ArtifactStore, run: Run, step: int) -> dict[str, Node]:
    """By role a turn of the rollouts that the weights after `step` updates have played, or else those before them.

    Taken from a solved episode where there is one; empty where no rollout is recorded. Raises ArtifactCorrupt and
    ArtifactMissing.
    """
    for at in (step, step - 1) if step else (step,):
        keys = manifest_keys(run, store.list(f"runs/{run.run_id}/steps/{at:06d}/collect_rollouts-"))
        for key in [each for each in keys if stage_of(each) == "collect_rollouts"]:
            ref = ArtifactRef.model_validate(read_manifest_at(store, key).output)
            if turns := _by_role(get(store, ref, RolloutShard)):
                return turns
    return {}


def told_nodes(turns: Mapping[str, Node], tokenizer: HuggingFaceTokenizer) -> dict[str, RecordedNode]:
    """Turns as texts; `tokenizer` is the one that they were encoded with."""
    return {role: _told(turn, tokenizer) for role, turn in turns.items()}


def _told(turn: Node, tokenizer: HuggingFaceTokenizer) -> RecordedNode:
    prompt = tokenizer.spelled(turn.prompt_tokens)
    try:
        is_exact = tokenizer.encode(prompt) == turn.prompt_tokens
    except ConfigurationError:  # a special token that is spelled out has characters that a small alphabet lacks
        is_exact = False
    return RecordedNode(prompt=prompt, answer=turn.candidates[turn.chosen].text, is_exact=is_exact)


def _by_role(shard: RolloutShard) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for episode in sorted(shard.episodes, key=lambda each: not each.success):
        for turn in episode.nodes:
            found.setdefault(turn.group.agent, turn)
    return found
