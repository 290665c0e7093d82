"""The presets of `prefect.yaml` as configurations, and the command line's `--set`."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from components.config import RunConfig, parse_config
from components.errors import ConfigurationError

TRAIN_ENTRYPOINT = "flows.train.train"
PREFECT_YAML = Path(__file__).resolve().parent.parent / "prefect.yaml"


def preset_values(path: Path = PREFECT_YAML) -> dict[str, dict[str, Any]]:
    """Preset name -> the `config` parameter of its training deployment."""
    deployments = yaml.safe_load(path.read_text())["deployments"]
    return {d["name"]: d["parameters"]["config"] for d in deployments if d["entrypoint"] == TRAIN_ENTRYPOINT}


def preset_config(name: str, overrides: Sequence[str] = (), *, num_steps: int | None = None) -> RunConfig:
    """The configuration of a preset with `a.b=c` overrides. Raises ConfigurationError for an unknown name or key."""
    presets = preset_values()
    if name not in presets:
        nearest = difflib.get_close_matches(name, presets, n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        raise ConfigurationError(f"preset {name!r} does not exist; {hint}presets: {', '.join(presets)}")
    values = with_overrides(presets[name], overrides)
    if num_steps is not None:
        values["num_steps"] = num_steps
    return parse_config(values)


def with_overrides(values: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """`values` with each `a.b=c` applied; `c` is read as YAML.

    **Example** `with_overrides({"seed": 0}, ["seed=1", "rollout.mode=single"])` is `{"seed": 1, "rollout": {"mode":
    "single"}}`.
    """
    result: dict[str, Any] = _copied(values)
    for override in overrides:
        path, separator, text = override.partition("=")
        if not separator or not path:
            raise ConfigurationError(
                f"--set {override!r}: write it as key=value, for example --set training.num_ranks=2"
            )
        *parents, leaf = path.split(".")
        section = result
        for parent in parents:
            section = section.setdefault(parent, {})
            if not isinstance(section, dict):
                raise ConfigurationError(f"--set {override!r}: {parent!r} holds a value, not a section")
        try:
            section[leaf] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigurationError(f"--set {override!r}: {text!r} is not a YAML value") from error
    return result


def _copied(value: Any) -> Any:
    return {key: _copied(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value
