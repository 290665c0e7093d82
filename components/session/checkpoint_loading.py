"""Loads weights into a session's engines: those of checkpoints, and those of model folders."""

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.artifacts.refs import CheckpointRef
from components.config import PolicyConfig
from components.errors import ArtifactCorrupt, ConfigurationError
from components.evaluation.subjects import is_model_folder, models_in
from components.generation.refresh import refresh
from components.models.adapters import ADAPTER_FOLDER, compute_adapted_digest, load_adapter, read_adapter_config
from components.schema import PolicyVersion
from components.session.checkpoint_cache import CheckpointCache
from components.session.session import Session
from components.training.base import MODEL_FOLDER

_ADAPTER_CONFIG = "adapter_config.json"
_PLAIN_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")
"""Values of init_lora_weights under which PEFT leaves the base as it is."""
_PLAIN_LORA: Mapping[str, Callable[[Any], bool]] = {
    "peft_type": lambda value: value == "LORA",
    "target_modules": lambda value: isinstance(value, list),
    "init_lora_weights": lambda value: value in _PLAIN_STARTS,
    **dict.fromkeys(("use_rslora", "use_dora", "alpha_pattern", "rank_pattern", "modules_to_save"), operator.not_),
}
"""What an adapter's configuration may say, so that alpha / rank * B A on the target layers is all that it adds."""


def load_checkpoint(
    session: Session, checkpoint: CheckpointRef, copies: CheckpointCache | None = None
) -> tuple[PolicyVersion, float]:
    """Load `checkpoint` into its engine; its version, and the largest probe difference. `copies`: None means the session's."""
    from components.training.checkpoint import read_manifest  # imports torch

    folder = (copies or session.copies).path(checkpoint)
    probe = read_manifest(folder).probe
    if probe is None:
        raise ConfigurationError(
            f"policy {checkpoint.policy}: it presses buttons and is no language model, so no engine can hold it"
        )
    version = PolicyVersion(policy=checkpoint.policy, step=checkpoint.step, weights_digest=checkpoint.weights_digest)
    difference = refresh(
        session.engines.of(checkpoint.policy),
        folder=folder / MODEL_FOLDER,
        version=version,
        adapter=folder / ADAPTER_FOLDER if checkpoint.base is not None else None,
        probe=probe,
        tolerance=session.config.generation.probe_tolerance,
    )
    return version, difference


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """A model in a folder of this machine, perhaps with an adapter on it, and the digest of its weights."""

    folder: Path
    adapter: Path | None
    weights_digest: str

    def version(self, policy: str) -> PolicyVersion:
        """Its version as that of `policy`."""
        return PolicyVersion(policy=policy, step=0, weights_digest=self.weights_digest)

    def load(self, session: Session, policy: str) -> None:
        """Load it into the engine of `policy`."""
        engine, version = session.engines.of(policy), self.version(policy)
        if engine.version != version:
            engine.load(self.folder, version, self.adapter)


def model_settings(base: str) -> PolicyConfig:
    """The policy of a model by its name or folder: chat, or compact for a folder without a chat template."""
    folder = Path(_adapter_base(Path(base)) or base)
    is_compact = folder.is_dir() and not _has_chat_template(folder)
    return PolicyConfig(base=str(folder), prompt_format="compact" if is_compact else "chat")


def check_model(base: str) -> None:
    """Raise ConfigurationError or ServiceMissing if there is no model called `base`. Loads nothing."""
    from components.models.base_checks import check_base

    if not is_model_folder(Path(base)) and (models := models_in(Path(base))):
        raise ConfigurationError(
            f"{base!r}: holds the models {', '.join(models)}; name one, as {Path(base) / models[0]}, or one for each role, as "
            f"ROLE={Path(base) / models[0]}; a run of this name is RUN@STEP"
        )
    check_base("team", model_settings(base))


def local_model(base: str, *, into: Path) -> LocalModel:
    """The model called `base`, written into the folder `into`: a model folder, an adapter's folder, a hub name, or
    "smollm2-135m". Raises ConfigurationError or ServiceMissing."""
    check_model(base)
    from components.models.digests import model_digest
    from components.models.loading import copy_folder, prepare_model_folder
    from components.training.checkpoint import load_model

    settings, is_adapter = model_settings(base), _adapter_base(Path(base)) is not None
    model_folder = into / MODEL_FOLDER
    if prepare_model_folder(settings, alphabet="", seed=0, into=model_folder):
        raise ConfigurationError(f"{base!r}: a tiny model knows nothing before a run has trained it; name a run")
    model = load_model(model_folder)
    digest = model_digest(model)
    if not is_adapter:
        return LocalModel(folder=model_folder, adapter=None, weights_digest=digest)
    adapter = into / ADAPTER_FOLDER
    copy_folder(base, adapter)
    try:
        read_adapter_config(adapter)
        digest = compute_adapted_digest(digest, load_adapter(model, "team", adapter))
    except ArtifactCorrupt as error:
        raise ConfigurationError(f"{base}: {error}; name a LoRA adapter's folder in PEFT's format") from error
    return LocalModel(folder=model_folder, adapter=adapter, weights_digest=digest)


def _adapter_base(folder: Path) -> str | None:
    """The base that an adapter's folder names; None if the folder is no adapter's. Raises ConfigurationError."""
    file = folder / _ADAPTER_CONFIG
    if not file.is_file():
        return None
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        base = values.get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{file}: no adapter's configuration ({error}); write it again") from error
    if not isinstance(base, str) or not base:
        raise ConfigurationError(
            f"{file}: base_model_name_or_path is {base!r}; set it to the model that it was trained on"
        )
    for name, is_plain in _PLAIN_LORA.items():
        if name in values and not is_plain(values[name]):
            raise ConfigurationError(
                f"{file}: {name} is {values[name]!r}, and only plain LoRA is computed here; merge the adapter into its base "
                "(PEFT's merge_and_unload) and name the merged folder"
            )
    return base


def _has_chat_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").exists() or (folder / "chat_template.json").exists():
        return True
    file = folder / "tokenizer_config.json"
    try:
        return bool(json.loads(file.read_text(encoding="utf-8")).get("chat_template")) if file.exists() else True
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{file}: is not JSON ({error}); export the model again") from error
