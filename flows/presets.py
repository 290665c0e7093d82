"""Presets of the current folder's and Troupe's `prefect.yaml`, files with one configuration, and `--set` overrides."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from components.config import RunConfig, parse_config
from components.config.parsing import list_unread_fields
from components.config.prompts import anchor_prompts
from components.config.types import check_name
from components.environments.registry import anchor_options
from components.errors import ConfigurationError
from components.machine.package_files import package_file
from components.session.publishing import run_params
from components.text.plain_yaml import read_yaml
from components.text.suggestions import did_you_mean
from flows.own_files import with_sources

TRAIN_ENTRYPOINT = "flows.train.train"
POPULATION_ENTRYPOINT = "flows.train.train_population"
HYBRID_ENTRYPOINT = "flows.train.train_hybrid"
TRAINING_ENTRYPOINTS = (TRAIN_ENTRYPOINT, POPULATION_ENTRYPOINT, HYBRID_ENTRYPOINT)
EVALUATE_ENTRYPOINT = "flows.evaluate.evaluate"
PREFECT_YAML = package_file("flows", "prefect.yaml")


def all_preset_values() -> dict[str, dict[str, Any]]:
    """Preset name -> configuration: the presets of the current folder's `prefect.yaml`, if any, before Troupe's own."""
    return _configs(training_deployments())


def training_deployments() -> dict[str, dict[str, Any]]:
    """Preset name -> deployment: those of the current folder, with the pull steps of their file, before Troupe's own."""
    here = Path.cwd() / PREFECT_YAML.name
    own = _deployments(here, is_project=True) if here.is_file() and not here.samefile(PREFECT_YAML) else {}
    return {**own, **{name: each for name, each in _deployments(PREFECT_YAML).items() if name not in own}}


def _files() -> list[Path]:
    """The `prefect.yaml` of the current folder, if there is one, then Troupe's."""
    here = Path.cwd() / PREFECT_YAML.name
    return [PREFECT_YAML] if not here.is_file() or here.samefile(PREFECT_YAML) else [here, PREFECT_YAML]


def suite_values() -> dict[str, dict[str, Any]]:
    """Name -> suite: the `evaluate` deployments of the current folder's `prefect.yaml`, if any, before Troupe's own.

    Raises ConfigurationError for a deployment without a suite.
    """
    found: dict[str, dict[str, Any]] = {}
    for file in reversed(_files()):
        listed = list(_suites(file))
        _check_names(file, [name for name, _ in listed])
        found |= dict(listed)
    return found


def _suites(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    document = _read(path)
    listed = document.get("deployments") if isinstance(document, dict) else None
    for each in listed if isinstance(listed, list) else ():
        if not isinstance(each, dict) or each.get("entrypoint") != EVALUATE_ENTRYPOINT:
            continue
        parameters = each.get("parameters")
        suite = parameters.get("suite") if isinstance(parameters, dict) else None
        if "name" not in each or not isinstance(suite, dict):
            raise ConfigurationError(
                f"{path}: deployment {each.get('name')} needs `name` and `parameters: {{suite: {{environment: ...}}}}`"
            )
        yield str(each["name"]), _anchor(suite, path.absolute().parent)


def all_deployments() -> list[dict[str, Any]]:
    """Every deployment of the current folder's `prefect.yaml`, with its pull steps, before Troupe's own, of any flow.

    Two of one flow and name are one: the folder's. Names of files in prompts and data are absolute. Raises ConfigurationError
    as `training_deployments` does, and for a deployment without a name or an entrypoint.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for file in _files():
        _deployments(file, is_project=file is not PREFECT_YAML)  # a slip in a preset is reported in its own words
        for each in _every_deployment(file):
            found.setdefault((each["entrypoint"], each["name"]), each)
    return list(found.values())


def _every_deployment(path: Path) -> Iterator[dict[str, Any]]:
    document = _read(path)
    values = document if isinstance(document, dict) else {}
    pull = {"pull": values["pull"]} if "pull" in values else {}
    listed = values.get("deployments")
    for number, each in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(each, dict) or "name" not in each or "entrypoint" not in each:
            name = each.get("name") if isinstance(each, dict) else None
            raise ConfigurationError(
                f"{path}: deployment {name or f'number {number + 1}'} needs `name` and `entrypoint: module.flow`"
            )
        parameters = _anchor_within(each.get("parameters") or {}, path.absolute().parent)
        yield {**pull, **each, "name": str(each["name"]), "parameters": parameters}


def _anchor_within(value: Any, folder: Path) -> Any:
    """`value` with each configuration or suite in it, however deep, as `_anchor` leaves it."""
    if isinstance(value, list):
        return [_anchor_within(inner, folder) for inner in value]
    if not isinstance(value, Mapping):
        return value
    if isinstance(value.get("environment"), Mapping):
        return _anchor(value, folder)
    return {key: _anchor_within(inner, folder) for key, inner in value.items()}


def preset_values(path: Path = PREFECT_YAML) -> dict[str, dict[str, Any]]:
    """Preset name -> configuration, of the training deployments in one file.

    Raises ConfigurationError with the file and the line for invalid YAML, and with the name for an invalid deployment.
    """
    return _configs(_deployments(path))


def file_values(path: Path) -> dict[str, Any]:
    """The configuration in a file. Its preset is the name of the file unless it says otherwise. Raises ConfigurationError."""
    if not os.path.exists(path):
        raise ConfigurationError(
            f"no file {path}{'' if path.is_absolute() else ' here'}; `troupe presets` lists presets"
        )
    document = _read(path)
    if isinstance(document, dict) and "deployments" in document:
        presets = ", ".join(_deployments(path, is_project=True)) or "none"
        raise ConfigurationError(
            f"{path} holds deployments, not one configuration; in its folder name one of its presets: {presets}"
        )
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path}: holds no configuration; write its sections, as `environment: {{name: ...}}`")
    values = _anchor(document, path.absolute().parent)
    return values if "preset" in values else {"preset": _name_from(path), **values}


def _name_from(path: Path) -> str:
    try:
        return check_name(path.stem)
    except ValueError as error:
        raise ConfigurationError(
            f"{path}: the file's name is that of the preset, and {path.stem!r} cannot be one: {error}; rename the file, or "
            "write `preset: NAME` into it"
        ) from error


def _configs(deployments: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: deployment["parameters"]["config"] for name, deployment in deployments.items()}


def _deployments(path: Path, *, is_project: bool = False) -> dict[str, dict[str, Any]]:
    """Preset name -> training deployment. A project's file may contain others, or no deployments yet."""
    document = _read(path)
    values = document if isinstance(document, dict) else {}
    listed = values.get("deployments")
    if not isinstance(listed, list):
        if is_project:
            return {}
        raise ConfigurationError(
            f"{path}: `deployments` is not a list; write `deployments:` and below it `- name: ...`"
        )
    found = [(number, each) for number, each in enumerate(listed) if _trains(each, is_project=is_project)]
    pull = {"pull": values["pull"]} if "pull" in values else {}
    named = [_name_deployment(path, *pair) for pair in found]
    _check_names(path, [name for name, _ in named])
    return {name: {**pull, **each} for name, each in named}


def _check_names(path: Path, names: Sequence[str]) -> None:
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise ConfigurationError(f"{path}: two deployments are called {twice}; give each a name of its own")


def _trains(deployment: Any, *, is_project: bool) -> bool:
    entrypoints = (*TRAINING_ENTRYPOINTS, *(() if is_project else (None,)))
    return deployment.get("entrypoint") in entrypoints if isinstance(deployment, dict) else not is_project


def _name_deployment(path: Path, number: int, deployment: Any) -> tuple[str, dict[str, Any]]:
    """The name and the deployment. Raises ConfigurationError if it is invalid."""
    values = deployment if isinstance(deployment, dict) else {}
    name = values.get("name", f"number {number + 1}")
    parameters = values.get("parameters")
    config = parameters.get("config") if isinstance(parameters, dict) else None
    if not ("name" in values and "entrypoint" in values and isinstance(parameters, dict) and isinstance(config, dict)):
        raise ConfigurationError(
            f"{path}: deployment {name} needs `name`, `entrypoint: {TRAIN_ENTRYPOINT}` and `parameters: {{config: ...}}`"
        )
    anchored = _anchor(config, path.absolute().parent)
    return str(name), {**values, "parameters": {**parameters, "config": anchored}}


def _anchor(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A configuration's plain values with the paths of prompts and data absolute, seen from `folder`."""
    values = anchor_prompts(config, folder)
    section = values.get("environment")
    options = section.get("options") if isinstance(section, Mapping) else None
    if not isinstance(section, Mapping) or not isinstance(options, Mapping):
        return values
    return {
        **values,
        "environment": {**section, "options": anchor_options(str(section.get("name")), options, folder)},
    }


def _read(path: Path) -> Any:
    try:
        return read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise ConfigurationError(f"{path}: {reason}; presets are read from there") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ConfigurationError(f"{place}: {_name_problem(error)}; correct that line") from error


def _name_problem(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or error).splitlines()[0]


def preset_config(name: str, overrides: Sequence[str] = (), *, num_steps: int | None = None) -> RunConfig:
    """The configuration of a preset or a file (`mine.yaml`), with `a.b=c` overrides. Raises ConfigurationError."""
    values = with_overrides(find_named_values(name), overrides)
    if num_steps is not None:
        values["num_steps"] = num_steps
    return parse_config(values)


def find_named_values(name: str, *, others: Sequence[str] = ()) -> dict[str, Any]:
    """The plain values of a preset or a file (`mine.yaml`). Raises ConfigurationError, in which `others` are names, too."""
    presets = {name: file_values(Path(name))} if is_file(name) else all_preset_values()
    if name not in presets:
        known = [*others, *presets]
        meant = _find_meant_place(name) or did_you_mean(name, known)
        raise ConfigurationError(f"preset {name!r} does not exist; {meant}presets: {', '.join(known)}")
    return presets[name]


def _find_meant_place(name: str) -> str:
    if os.path.isfile(Path(name) / PREFECT_YAML.name):
        return f"did you mean the project in the folder {name}? `cd {name}` first; "
    file = next((f"{name}{end}" for end in (".yaml", ".yml") if os.path.isfile(f"{name}{end}")), None)
    return f"did you mean the file {file}? " if file else ""


def is_file(name: str) -> bool:
    """Whether a name is that of a file with one configuration."""
    return name.endswith((".yaml", ".yml"))


def with_overrides(values: Mapping[str, Any], overrides: Sequence[str], *, option: str = "--set") -> dict[str, Any]:
    """`values` with each `a.b=c` applied; `c` is read as YAML. Errors name `option`, where the overrides were written.

    An override that chooses another variant of a section leaves out what `values` say of the first alone.

    **Example** `with_overrides({"seed": 0}, ["seed=1", "rollout.mode=single"])` is `{"seed": 1, "rollout": {"mode":
    "single"}}`; `generation.engine=transformers` leaves out `generation.vllm`.
    """
    result: dict[str, Any] = _copy(values)
    for override in overrides:
        _leave_out_unread(result, *override.partition("=")[::2])
    for override in overrides:
        path, separator, text = override.partition("=")
        if not separator or not path:
            raise ConfigurationError(f"{option} {override!r}: write it as key=value, for example training.num_ranks=2")
        *parents, leaf = path.split(".")
        section = result
        for parent in parents:
            section = section.setdefault(parent, {})
            if not isinstance(section, dict):
                raise ConfigurationError(
                    f"{option} {override!r}: {parent!r} holds a value, not a section; set it as {parent}=..."
                )
        try:
            section[leaf] = read_yaml(text)
        except yaml.YAMLError as error:
            raise ConfigurationError(
                f"{option} {override!r}: {text!r} is not a YAML value ({_name_problem(error)}); put text in quotes and close "
                "brackets"
            ) from error
    return result


def _leave_out_unread(values: dict[str, Any], path: str, name: str) -> None:
    *parents, leaf = path.split(".")
    section: Any = values
    for parent in parents:
        section = section.get(parent) if isinstance(section, dict) else None
    if isinstance(section, dict) and section.get(leaf) != name:
        for field in list_unread_fields(parents, section, leaf, name):
            del section[field]


def _copy(value: Any) -> Any:
    return {key: _copy(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value


_log = logging.getLogger(__name__)


def list_changes_from_preset(config: RunConfig) -> dict[str, str]:
    """The parameters of `config` that its preset sets otherwise, by name; empty for one that belongs to no preset.

    **Example** preset tiny with `--set rollout.group_size=8` gives `{"rollout.group_size": "8"}`.
    """
    try:
        values = all_preset_values().get(config.preset)
        if values is None:
            return {}
        preset = run_params(with_sources(parse_config(values)))
    except ConfigurationError as error:
        _log.warning("MLflow will not say what differs from preset %s: %s", config.preset, error)
        return {}
    return {name: value for name, value in run_params(config).items() if preset.get(name) != value}
