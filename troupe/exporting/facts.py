"""Facts about a run for its model cards: evaluations, and examples of its agents' prompts."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import get
from components.artifacts.refs import ArtifactRef
from components.config import RunConfig
from components.environments.registry import FAMILIES
from components.errors import ConfigurationError
from components.exporting.card import RecordedNode
from components.models.tokenizer import HuggingFaceTokenizer
from components.runs.history import read_history
from components.runs.run import Run
from components.runs.session_records import read_roles
from components.runs.step_records import manifest_keys, read_manifest_at, stage_of
from components.schema import Node, RolloutShard
from components.session.scenario import scenario_of


def show_evaluations(store: ArtifactStore, run: Run, step: int) -> tuple[dict[str, Any], ...]:
    """The evaluations before training and the last ones up to `step`, in order."""
    known = [each for each in read_history(store, run, step).evaluations if each["step"] <= step]
    last = max((each["step"] for each in known), default=0)
    return tuple(each for each in known if each["step"] in (0, last))


def answer_limits(config: RunConfig, roles: Sequence[str]) -> dict[str, int | None]:
    """The longest answer of each role in tokens; None if the user's code decides it, which an export does not run."""
    if config.environment.name not in FAMILIES:
        return {role: config.agents[role].max_new_tokens for role in roles}
    seats = scenario_of(config).seats
    return {role: seats[role].max_new_tokens for role in roles}


def usual_temperature(config: RunConfig, policy: str) -> float:
    """The temperature of all roles that the policy plays if it is one, else that of roles without their own."""
    usual = config.rollout.temperature
    found = {agent.temperature or usual for agent in config.agents.values() if agent.policy == policy}
    return found.pop() if len(found) == 1 else usual


def read_recorded_nodes(store: ArtifactStore, run: Run, step: int) -> dict[str, Node]:
    """A node by role, rolled out after `step` updates or else one fewer, from a solved episode if there is one."""
    roles = read_roles(store, run.run_id)
    for at in (step, step - 1) if step else (step,):
        keys = manifest_keys(run, store.list(f"runs/{run.run_id}/steps/{at:06d}/"))
        for key in [each for each in keys if roles[stage_of(each)].writes == "rollouts"]:
            ref = ArtifactRef.model_validate(read_manifest_at(store, key).output)
            episodes = sorted(get(store, ref, RolloutShard).episodes, key=lambda each: not each.success)
            # Of equal keys the last one stays: the first node of the first solved episode.
            if nodes := {node.group.agent: node for each in reversed(episodes) for node in reversed(each.path)}:
                return nodes
    return {}


def decode_nodes(nodes: Mapping[str, Node], tokenizer: HuggingFaceTokenizer) -> dict[str, RecordedNode]:
    """Nodes as texts, decoded with the tokenizer that encoded them."""
    return {role: _decode_node(node, tokenizer) for role, node in nodes.items()}


def _decode_node(node: Node, tokenizer: HuggingFaceTokenizer) -> RecordedNode:
    prompt = tokenizer.decode_with_specials(node.prompt_tokens)
    try:
        is_exact = tokenizer.encode(prompt) == node.prompt_tokens
    except ConfigurationError:  # the text of a special token has characters that a small alphabet lacks
        is_exact = False
    return RecordedNode(prompt=prompt, answer=node.candidates[node.chosen].text, is_exact=is_exact)
