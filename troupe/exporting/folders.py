"""Writes checkpoints from a store into the folders of an export, each with its model card."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.errors import ArtifactCorrupt, ArtifactMissing
from components.exporting.card import CardFacts, Kind, card, vllm_command
from components.exporting.folders import complete_adapter_folder, complete_model_folder
from components.exporting.placing import WHOLE
from components.frozen import Frozen
from components.models.adapters import ADAPTER_FOLDER, read_adapter_config
from components.models.tokenizer import HuggingFaceTokenizer
from components.runs.run import Run
from components.schema import Node
from components.training.base import MODEL_FOLDER
from troupe.exporting.facts import answer_limits, decode_nodes, read_recorded_nodes, show_evaluations, usual_temperature

_BASE = "_base"
"""The folder name of a base; no policy's name begins with an underscore."""


class ExportedPolicy(Frozen):
    """One folder. `base` is the folder beside it that an adapter needs; `num_bytes` excludes the base."""

    policy: str
    weights: Kind
    roles: tuple[str, ...]
    folder: str
    base: str | None
    weights_digest: str
    num_bytes: int
    serve: str
    """The command that serves it with vLLM."""


class FolderWriter:
    """Writes the policies of one step, and a shared base once, into the WHOLE of `work`, which will be `place`."""

    def __init__(self, store: ArtifactStore, run: Run, step: int, *, place: Path, work: Path, is_merged: bool) -> None:
        self._store = store
        self._run = run
        self._step = step
        self._place = place
        self._work = work
        self._is_merged = is_merged
        self._bases: dict[str, tuple[Path, HuggingFaceTokenizer]] = {}
        self.warnings: list[str] = []

    def write(self, policy: str, checkpoint: CheckpointRef) -> ExportedPolicy:
        """Write the policy's folder, and its base's if it needs one."""
        folder = self._work / WHOLE / policy
        if checkpoint.base is None:
            weights = self._own_weights(policy, checkpoint, folder)
        elif self._is_merged:
            weights = self._merge(policy, checkpoint, checkpoint.base, folder)
        else:
            weights = self._adapter(checkpoint, checkpoint.base, folder)
        facts = self._facts(policy, checkpoint, weights)
        (folder / "README.md").write_text(card(facts), encoding="utf-8")
        return ExportedPolicy(
            policy=policy,
            weights=facts.kind,
            roles=tuple(facts.max_new_tokens),
            folder=str(self._place / policy),
            base=None if facts.base_folder is None else str(self._place / facts.base_folder),
            weights_digest=facts.weights_digest,
            num_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
            serve=vllm_command(facts, folder=self._place),
        )

    def _own_weights(self, policy: str, checkpoint: CheckpointRef, folder: Path) -> "_Weights":
        self._fetch(checkpoint.folder, MODEL_FOLDER, folder)
        temperature = usual_temperature(self._run.config, policy)
        return _Weights("model", complete_model_folder(folder, temperature=temperature))

    def _adapter(self, checkpoint: CheckpointRef, base_ref: ArtifactRef, folder: Path) -> "_Weights":
        base, tokenizer = self._base(base_ref)
        self._fetch(checkpoint.folder, ADAPTER_FOLDER, folder)
        complete_adapter_folder(folder, base=base, base_place=self._place / base.name)
        return _Weights("adapter", tokenizer, base_folder=base.name, rank=read_adapter_config(folder).rank)

    def _merge(self, policy: str, checkpoint: CheckpointRef, base_ref: ArtifactRef, folder: Path) -> "_Weights":
        from components.exporting.merging import merge
        from components.training.base import MANIFEST_FILE
        from components.training.checkpoint import read_manifest

        base, tokenizer = self._base(base_ref)
        adapter = self._fetch(checkpoint.folder, ADAPTER_FOLDER, self._work / f"{policy}.adapter")
        whole = self._store.get_folder(checkpoint.folder, self._work / f"{policy}.manifest", under=MANIFEST_FILE)
        config, probe = self._run.config, read_manifest(whole).probe
        assert probe is not None, f"{policy} has an adapter and no probe"
        difference = merge(
            base,
            adapter,
            folder,
            probe=probe,
            tolerance=config.generation.probe_tolerance,
            trained_in=config.training.dtype,
        )
        return _Weights("merged", tokenizer, merge_difference=difference)

    def _base(self, ref: ArtifactRef) -> tuple[Path, HuggingFaceTokenizer]:
        """The folder and the tokenizer of a base; part of the result unless it is merged."""
        if ref.sha256 not in self._bases:
            name = f"{_BASE}-{len(self._bases) + 1}" if self._bases else _BASE
            folder = self._fetch(ref, MODEL_FOLDER, self._work / ("" if self._is_merged else WHOLE) / name)
            tokenizer = complete_model_folder(folder, temperature=self._run.config.rollout.temperature)
            self._bases[ref.sha256] = folder, tokenizer
        return self._bases[ref.sha256]

    def _fetch(self, ref: ArtifactRef, part: str, into: Path) -> Path:
        """`into`, with the files of the stored folder under `part`, each verified by its digest."""
        whole = into.with_name(f"{into.name}.fetched")
        self._store.get_folder(ref, whole, under=f"{part}/")
        (whole / part).rename(into)
        whole.rmdir()
        return into

    def _facts(self, policy: str, checkpoint: CheckpointRef, weights: "_Weights") -> CardFacts:
        config = self._run.config
        settings = config.policies[policy]
        roles = sorted(role for role, agent in config.agents.items() if agent.policy == policy)
        nodes = {role: self._nodes[role] for role in roles if role in self._nodes}
        return CardFacts(
            policy=policy,
            kind=weights.kind,
            run_id=self._run.run_id,
            step=self._step,
            preset=config.preset,
            environment=config.environment.name,
            advantage=config.algorithm.advantage,
            policy_loss=config.loss.policy_loss,
            is_trained=settings.trained and self._step > 0,
            base=settings.base,
            base_folder=weights.base_folder,
            rank=weights.rank,
            merge_difference=weights.merge_difference,
            weights_digest=checkpoint.weights_digest,
            prompt_format=settings.prompt_format,
            temperature=config.rollout.temperature,
            dtype=config.generation.dtype,
            max_new_tokens=answer_limits(config, roles),
            evaluations=self._evaluations,
            nodes=decode_nodes(nodes, weights.tokenizer),
            agents={role: config.agents[role] for role in roles},
            chat_template_arguments=settings.chat_template_arguments,
        )

    @cached_property
    def _evaluations(self) -> tuple[dict[str, Any], ...]:
        return show_evaluations(self._store, self._run, self._step)

    @cached_property
    def _nodes(self) -> dict[str, Node]:
        """A node by role. An unreadable rollout is only a warning, because the weights do not depend on it."""
        try:
            return read_recorded_nodes(self._store, self._run, self._step)
        except (ArtifactCorrupt, ArtifactMissing) as error:
            self.warnings.append(f"the model cards show no prompt: {error}")
            return {}


@dataclass(frozen=True, slots=True)
class _Weights:
    """Facts about a policy's written weights."""

    kind: Kind
    tokenizer: HuggingFaceTokenizer
    base_folder: str | None = None
    rank: int | None = None
    merge_difference: float | None = None
