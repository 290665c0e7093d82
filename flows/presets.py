"""The presets of `prefect.yaml`, the folder's own and ours, and files of one configuration; the command line's `--set`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from components.config import RunConfig, parse_config
from components.errors import ConfigurationError
from components.nearest import meant
from tasks.shipped import shipped_file

TRAIN_ENTRYPOINT = "flows.train.train"
PREFECT_YAML = shipped_file("flows", "prefect.yaml")


def all_preset_values() -> dict[str, dict[str, Any]]:
    """The presets of the `prefect.yaml` of the current folder, where there is one, before Troupe's own."""
    return _configs(training_deployments())


def training_deployments() -> dict[str, dict[str, Any]]:
    """Preset name -> deployment: those of the current folder before Troupe's own, each with the pull steps of its file."""
    here = Path.cwd() / PREFECT_YAML.name
    own = _own_deployments(here) if here.is_file() and not here.samefile(PREFECT_YAML) else {}
    return {**own, **{name: each for name, each in _shipped_deployments(PREFECT_YAML).items() if name not in own}}


def _own_deployments(path: Path) -> dict[str, dict[str, Any]]:
    """Those of a project's own file, in which other deployments may stand, too, or no list of them yet."""
    document = _read(path)
    deployments = document.get("deployments") if isinstance(document, dict) else None
    pull = {"pull": document["pull"]} if isinstance(document, dict) and "pull" in document else {}
    ours = [
        (number, {**pull, **each})
        for number, each in enumerate(deployments if isinstance(deployments, list) else [])
        if isinstance(each, dict) and each.get("entrypoint") == TRAIN_ENTRYPOINT
    ]
    return dict(_named(path, number, deployment) for number, deployment in ours)


def preset_values(path: Path = PREFECT_YAML) -> dict[str, dict[str, Any]]:
    """Preset name -> the `config` parameter of its training deployment in one file.

    Raises ConfigurationError, with the file and the line, for what is no YAML, and with the deployment for one that is none.
    """
    return _configs(_shipped_deployments(path))


def _shipped_deployments(path: Path) -> dict[str, dict[str, Any]]:
    document = _read(path)
    deployments = document.get("deployments") if isinstance(document, dict) else None
    if not isinstance(deployments, list):
        raise ConfigurationError(f"{path}: `deployments` is no list; write `deployments:` and below it `- name: ...`")
    return dict(_named(path, number, each) for number, each in enumerate(deployments) if _trains(each))


def _configs(deployments: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: deployment["parameters"]["config"] for name, deployment in deployments.items()}


def file_values(path: Path) -> dict[str, Any]:
    """The configuration that a file of its own holds. Its preset is called as the file, unless it says otherwise."""
    document = _read(path)
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path}: holds no configuration; write its sections, as `environment: {{name: ...}}`")
    return {"preset": path.stem, **document}


def _read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text in UTF-8"
        raise ConfigurationError(f"{path}: {reason}; presets are read from there") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{_place(path, error)}: {_slip(error)}; mend that line") from error


def _trains(deployment: Any) -> bool:
    return not isinstance(deployment, dict) or deployment.get("entrypoint") in (TRAIN_ENTRYPOINT, None)


def _named(path: Path, number: int, deployment: Any) -> tuple[str, dict[str, Any]]:
    """A training deployment with its name. Raises ConfigurationError for one that is none."""
    values = deployment if isinstance(deployment, dict) else {}
    name = values.get("name", f"number {number + 1}")
    parameters = values.get("parameters")
    config = parameters.get("config") if isinstance(parameters, dict) else None
    if "name" not in values or "entrypoint" not in values or not isinstance(config, dict):
        raise ConfigurationError(
            f"{path}: deployment {name} needs `name`, `entrypoint: {TRAIN_ENTRYPOINT}` and `parameters: {{config: ...}}`"
        )
    return str(name), values


def _place(path: Path, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)


def _slip(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or error).splitlines()[0]


def preset_config(name: str, overrides: Sequence[str] = (), *, num_steps: int | None = None) -> RunConfig:
    """The configuration of a preset, or of a file (`mine.yaml`), with `a.b=c` overrides.

    Raises ConfigurationError for an unknown name or key.
    """
    is_file = name.endswith((".yaml", ".yml"))
    presets = {name: file_values(Path(name))} if is_file else all_preset_values()
    if name not in presets:
        raise ConfigurationError(f"preset {name!r} does not exist; {meant(name, presets)}presets: {', '.join(presets)}")
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
                raise ConfigurationError(
                    f"--set {override!r}: {parent!r} holds a value, not a section; set it as {parent}=..."
                )
        try:
            section[leaf] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigurationError(
                f"--set {override!r}: {text!r} is not a YAML value; put text in quotes and close brackets"
            ) from error
    return result


def _copied(value: Any) -> Any:
    return {key: _copied(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value
