"""What computes a run: this Troupe's version and commit, its stages' versions, the libraries and the machine."""

import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from components.artifacts.refs import Frozen
from components.identity import STAGES
from tasks.shipped import SOURCE_ROOT

LIBRARIES = ("torch", "transformers", "deepspeed", "peft", "numpy")
_GIT_SECONDS = 10.0


class Provenance(Frozen):
    """What worked on a run. `commit` and `is_dirty` are None where Troupe does not run from a git checkout of its own."""

    troupe: str
    commit: str | None
    is_dirty: bool | None
    """Whether tracked files differ from the commit."""
    stage_versions: Mapping[str, int]
    libraries: Mapping[str, str]
    """Name -> version, python among them; those that are not installed are left out."""
    platform: str

    def tags(self) -> dict[str, str]:
        """By what a tracking server finds runs of one origin. **Example** `{"troupe.commit": "9f2c…-dirty", …}`."""
        commit = f"{self.commit}-dirty" if self.is_dirty else self.commit
        named = {"version": self.troupe, "commit": commit, "platform": self.platform, **self.libraries}
        stages = " ".join(f"{stage}-v{number}" for stage, number in sorted(self.stage_versions.items()))
        return {f"troupe.{name}": value for name, value in named.items() if value} | {"troupe.stage_versions": stages}


@cache
def provenance() -> Provenance:
    """That of this process. Asks git, and reads what is installed without importing it."""
    commit, is_dirty = checkout()
    return Provenance(
        troupe=troupe_version(),
        commit=commit,
        is_dirty=is_dirty,
        stage_versions=stage_versions(),
        libraries={
            "python": platform.python_version(),
            **{name: found for name in LIBRARIES if (found := _installed(name))},
        },
        platform=platform.platform(),
    )


def version_line() -> str:
    """This Troupe in a line. Imports no stage. **Example** "troupe 0.1.0, commit 9f2c…-dirty, Python 3.12.3"."""
    commit, is_dirty = checkout()
    named = f", commit {commit}{'-dirty' if is_dirty else ''}" if commit else ""
    return f"troupe {troupe_version()}{named}, Python {platform.python_version()}"


def troupe_version() -> str:
    """As it is installed."""
    return _installed("troupe") or "unknown"


def checkout() -> tuple[str | None, bool | None]:
    """The commit that Troupe runs from, and whether tracked files differ from it; None outside a checkout of its own."""
    commit = _git("rev-parse", "HEAD") if _git("rev-parse", "--show-toplevel") == str(SOURCE_ROOT) else None
    changes = _git("status", "--porcelain", "--untracked-files=no") if commit else None
    return commit or None, None if changes is None else bool(changes)


def stage_versions() -> dict[str, int]:
    """Stage -> version, of every stage that leaves a result."""
    tasks: dict[str, Any] = {stage: getattr(import_module(f"tasks.{stage}"), stage) for stage in STAGES}
    return {stage: task.version_number for stage, task in tasks.items() if hasattr(task, "version_number")}


def changed_stages(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """**Example** `["compute_rewards 1 -> 2"]`; stages that one of both does not name are no change."""
    return [
        f"{stage} {before[stage]} -> {after[stage]}"
        for stage in STAGES
        if stage in before and stage in after and before[stage] != after[stage]
    ]


def changed_libraries(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Those of another release, by the first two numbers of their versions. **Example** `["torch 2.12.1 -> 2.13.0"]`."""
    return [
        f"{name} {before[name]} -> {after[name]}"
        for name in before
        if name in after and before[name].split(".")[:2] != after[name].split(".")[:2]
    ]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    """What git prints, or None where there is no git, no checkout, or one that git does not trust."""
    command = ["git", "-C", str(SOURCE_ROOT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
