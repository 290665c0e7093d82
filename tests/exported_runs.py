"""A run with real weights in its store, made without training: a policy with a model of its own, and an adapter on a base."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import put
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.generation.local.engine import TransformersGenerator
from components.identity import GroupKey
from components.models.adapters import ADAPTER_FOLDER
from components.models.tokenizer import HuggingFaceTokenizer
from components.runs.initial_checkpoints import record_initial_checkpoints
from components.runs.lineages import freeze_config
from components.runs.run import Run
from components.runs.run import stage_key as real_stage_key
from components.runs.stage_protocol import run_stage
from components.runs.steps import finish_step
from components.schema import ActionOutcome, Candidate, Episode, Node, PolicyVersion, Problem, RolloutShard
from components.session.stores import open_store
from components.training.base import MODEL_FOLDER, CheckpointManifest
from components.training.checkpoint import NO_OPTIMIZER, write_manifest
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.committed_runs import commit_evaluation, stage_key
from tests.integration.vllm_servers import SHAPE, save_adapter, save_model
from tests.sections import choose_generation

PROMPTS = {"tool_agent": "AB\nCD ", "plan_agent": "AB\nCD FEED"}
POLICIES = (
    "policies={tool: {base: tiny}, plan: {base: tiny, adapter: {rank: 4, alpha: 8.0}}, judge: {trained: false, prompt_format: "
    "chat, api: {provider: openai, model: gpt}}}"
)
AGENTS = "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan, max_new_tokens: 9}, judge: {policy: judge}}"


@dataclass(frozen=True)
class ExportedRun:
    """`team` in `store`: "tool" has whole weights, "plan" an adapter on the base of seed 0, "judge" is behind an API.

    Two updates are finished. `folders` holds, by policy and step, the folder of the weights as they went in; `versions` their
    names.
    """

    run: Run
    store: ArtifactStore
    folders: dict[tuple[str, int], Path]
    versions: dict[tuple[str, int], PolicyVersion]
    base: Path

    def scores(self, policy: str, step: int, texts: Iterable[tuple[str, str]]) -> list[tuple[float, ...]]:
        """The log-probabilities that our own engine gives to answers after prompts, with the weights of a checkpoint."""
        engine = TransformersGenerator(choose_generation())
        folder, version = self.folders[policy, step], self.versions[policy, step]
        if policy == "plan":
            engine.load(self.base, version, folder)
        else:
            engine.load(folder, version)
        encode = engine.tokenizer.encode
        prompts, answers = zip(*texts, strict=True)
        return engine.score([encode(prompt) for prompt in prompts], [encode(answer) for answer in answers])


def export_run(root: Path) -> ExportedRun:
    """The run, in a store below `root`."""
    local = ("store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none")
    config = preset_config("tiny", [*local, POLICIES, AGENTS, "rollout.temperature=0.8"], num_steps=2)
    store = open_store(config.store)
    run = Run(run_id="team", config=config)
    freeze_config(store, run.run_id, config, PIPELINE)
    save_model(0, root / "base" / MODEL_FOLDER)
    made = ExportedRun(run=run, store=store, folders={}, versions={}, base=root / "base" / MODEL_FOLDER)
    base = store.put_folder(root / "base")
    key = real_stage_key(PIPELINE["warm_start"], run)
    run_stage(store, key, lambda: _checkpoints(made, root, 0, base), dict[str, CheckpointRef])
    record_initial_checkpoints(store, run, PIPELINE)
    for step in range(2):
        _commit_rollouts(made, step)
        finish_step(store, run, step, _checkpoints(made, root, step + 1, base))
    for step in (0, 2):
        commit_evaluation(store, run, step)
    return made


def _checkpoints(made: ExportedRun, root: Path, step: int, base: ArtifactRef) -> dict[str, CheckpointRef]:
    tool, plan = root / f"tool-{step}", root / f"plan-{step}"
    made.versions["tool", step], tool_probe = save_model(step, tool / MODEL_FOLDER, step=step)
    made.versions["plan", step], plan_probe = save_adapter(step + 5, plan / ADAPTER_FOLDER, policy="plan")
    made.folders["tool", step], made.folders["plan", step] = tool / MODEL_FOLDER, plan / ADAPTER_FOLDER
    (tool / "training").mkdir()
    (tool / "training" / "optimizer").write_text("large")
    refs = {}
    for policy, folder, probe in (("tool", tool, tool_probe), ("plan", plan, plan_probe)):
        digest = made.versions[policy, step].weights_digest
        named = {"policy": policy, "step": step, "weights_digest": digest, "optimizer_digest": NO_OPTIMIZER}
        write_manifest(folder, CheckpointManifest(**named, probe=probe))
        refs[policy] = CheckpointRef(
            **named, folder=made.store.put_folder(folder), base=base if policy == "plan" else None
        )
    return refs


def _commit_rollouts(made: ExportedRun, step: int) -> None:
    tokenizer = HuggingFaceTokenizer.from_folder(made.base)
    turns = tuple(
        Node(
            group=GroupKey(problem_id="p", episode=0, turn=0, agent=role),
            policy=made.run.config.agents[role].policy,
            prompt_tokens=tokenizer.encode(prompt),
            candidates=tuple(_candidate(tokenizer, text) for text in ("GG", "FACE")),
            chosen=1,
        )
        for role, prompt in PROMPTS.items()
    )
    problem = Problem(problem_id="p", environment="plan_path", payload={})
    episode = Episode(problem=problem, episode=0, nodes=turns, success=True)
    shard = RolloutShard(step=step, shard=0, policy_versions={}, episodes=(episode,))
    run_stage(
        made.store, stage_key(made.run, step, "collect_rollouts", "0"), lambda: put(made.store, shard), ArtifactRef
    )


def _candidate(tokenizer: HuggingFaceTokenizer, text: str) -> Candidate:
    tokens = (*tokenizer.encode(text), tokenizer.end_token)
    return Candidate(
        tokens=tokens,
        sampler_logprobs=(0.0,) * len(tokens),
        finish_reason="stop",
        text=text,
        outcome=ActionOutcome(team={}, local={}, solves=True, done=True),
        reward=1.0,
    )


assert SHAPE.rank == 4, "the configuration above says the same"
