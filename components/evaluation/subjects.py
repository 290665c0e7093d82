"""Who can be evaluated, by name."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components.errors import ConfigurationError
from components.evaluation.scripted_play import SCRIPTED

_API = re.compile(r"(openai|anthropic):(.+)")
_REGISTERED = re.compile(r"models:/(.+)")
_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STEP = re.compile(r"[0-9]{1,9}")
BUILT_IN_MODEL = "smollm2-135m"
_MODEL_FILES = ("config.json", "adapter_config.json")
_LONGEST_NAME = 255
"""Of a file, in bytes."""


@dataclass(frozen=True, slots=True)
class ScriptedSubject:
    """The expert, a random or an idle player in every role."""

    name: str


@dataclass(frozen=True, slots=True)
class RunSubject:
    """The team of a run after `step` updates; None: all that are finished."""

    run_id: str
    step: int | None = None


@dataclass(frozen=True, slots=True)
class RegisteredSubject:
    """A version of a registered model: "plan-path@best" or "plan-path/3"."""

    name: str


@dataclass(frozen=True, slots=True)
class ModelSubject:
    """A model in every role: a folder, an adapter's folder that names its base, a hub name, or "smollm2-135m"."""

    base: str


@dataclass(frozen=True, slots=True)
class ApiSubject:
    """A model behind an API in every role."""

    provider: str
    model: str


Subject = ScriptedSubject | RunSubject | RegisteredSubject | ModelSubject | ApiSubject
RoleMap = Mapping[str, Subject]


def parse_subject(text: str) -> Subject | RoleMap:
    """The subject called `text`. Raises ConfigurationError.

    **Example** "plan-path@100" is a run after 100 updates, "models:/plan-path@best" a registered model, "openai:gpt-4o" one
    behind an API, "out/model" a folder, "expert" a script, and "tool_agent=a@3,plan_agent=b" a team of two runs.
    """
    if "=" in text and _ROLE.fullmatch(text.partition("=")[0]):
        return _parse_roles(text)
    if text in SCRIPTED:
        return ScriptedSubject(text)
    if found := _REGISTERED.fullmatch(text):
        return RegisteredSubject(found[1])
    if found := _API.fullmatch(text):
        return ApiSubject(found[1], found[2])
    if text == BUILT_IN_MODEL or "/" in text or _has_models(text):  # a run has no slash
        return ModelSubject(text)
    return parse_run(text, argument="subject")


def parse_run(text: str, *, argument: str) -> RunSubject:
    """The run and the step in RUN or RUN@STEP. Raises ConfigurationError that names `argument`."""
    name, at, step = text.partition("@")
    if at and not _STEP.fullmatch(step):
        example = f"{name or 'plan-path'}@100"
        raise ConfigurationError(f"{argument} {text!r}: {step!r} is no step; write RUN@STEP, as {example}")
    if at and name in SCRIPTED:
        raise ConfigurationError(f"{argument} {text!r}: only a run has steps, and {name!r} is none; write {name}")
    return RunSubject(name, int(step) if at else None)


def is_model_folder(folder: Path) -> bool:
    """Whether the folder holds a model or an adapter."""
    return any((folder / name).is_file() for name in _MODEL_FILES)


def models_in(folder: Path) -> list[str]:
    """The names of the models beside each other in a folder, as `troupe export` writes them, without the bases of adapters."""
    if not folder.is_dir():
        return []
    return sorted(each.name for each in folder.iterdir() if not each.name.startswith("_") and is_model_folder(each))


def _has_models(text: str) -> bool:
    folder = Path(text)
    return len(os.fsencode(text)) <= _LONGEST_NAME and (is_model_folder(folder) or bool(models_in(folder)))


def subjects_in(subject: Subject | RoleMap) -> tuple[Subject, ...]:
    """The subject itself, or those of all roles."""
    return tuple(subject.values()) if isinstance(subject, Mapping) else (subject,)


def _parse_roles(text: str) -> RoleMap:
    subjects: dict[str, Subject] = {}
    for part in text.split(","):
        role, separator, name = part.partition("=")
        subject = parse_subject(name) if separator and name else None
        if subject is None or isinstance(subject, Mapping) or not _ROLE.fullmatch(role):
            raise ConfigurationError(
                f"subject {text!r}: {part!r} is no role with its subject; write tool_agent=RUN@STEP,plan_agent=RUN@STEP"
            )
        if isinstance(subject, ScriptedSubject):
            raise ConfigurationError(
                f"subject {text!r}: {role} cannot be {name!r}, which plays every role; name a run or a model"
            )
        if role in subjects:
            raise ConfigurationError(f"subject {text!r}: {role} is named twice; name each role once")
        subjects[role] = subject
    return subjects
