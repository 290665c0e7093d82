"""Provenance of a run: versions of Troupe, its stages and libraries, the commit, and the machine."""

import hashlib
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from components.frozen import Frozen
from components.machine.package_files import SOURCE_ROOT
from components.runs.pipeline import Pipeline

LIBRARIES = ("torch", "transformers", "deepspeed", "peft", "numpy")
_GIT_SECONDS = 10.0


class Provenance(Frozen):
    """The software of a session. `commit` and `is_dirty` are None unless Troupe runs from its own git checkout."""

    troupe: str
    commit: str | None
    is_dirty: bool | None
    """Whether tracked files differ from the commit."""
    stage_versions: Mapping[str, int]
    libraries: Mapping[str, str]
    """Name -> version, including Python; those not installed are left out."""
    platform: str

    def tags(self) -> dict[str, str]:
        """Tags for the tracking server. **Example** `{"troupe.commit": "9f2c…-dirty", …}`."""
        commit = f"{self.commit}-dirty" if self.is_dirty else self.commit
        named: dict[str, str | None] = {
            "version": self.troupe,
            "commit": commit,
            "platform": self.platform,
            **self.libraries,
        }
        if (lock := lock_digest()) is not None:
            named["lock"] = lock
        stages = " ".join(f"{stage}-v{number}" for stage, number in sorted(self.stage_versions.items()))
        return {f"troupe.{name}": value for name, value in named.items() if value} | {"troupe.stage_versions": stages}


@cache
def provenance(pipeline: Pipeline) -> Provenance:
    """That of a run of `pipeline` in this process. Runs git; reads versions without importing the libraries."""
    commit, is_dirty = checkout()
    return Provenance(
        troupe=troupe_version(),
        commit=commit,
        is_dirty=is_dirty,
        stage_versions=pipeline.versions,
        libraries=library_versions(),
        platform=platform.platform(),
    )


def library_versions() -> dict[str, str]:
    """Name -> version of Python and the libraries that decide results, without importing them."""
    return {
        "python": platform.python_version(),
        **{name: found for name in LIBRARIES if (found := _read_installed_version(name))},
    }


def version_line() -> str:
    """One line for `--version`. Imports no stage. **Example** "troupe 0.1.0, commit 9f2c…-dirty, Python 3.12.3"."""
    commit, is_dirty = checkout()
    named = f", commit {commit}{'-dirty' if is_dirty else ''}" if commit else ""
    return f"troupe {troupe_version()}{named}, Python {platform.python_version()}"


def troupe_version() -> str:
    """The installed version."""
    return _read_installed_version("troupe") or "unknown"


def checkout() -> tuple[str | None, bool | None]:
    """The commit of Troupe's checkout, and whether tracked files differ from it; None without a checkout."""
    commit = _git("rev-parse", "HEAD") if _git("rev-parse", "--show-toplevel") == str(SOURCE_ROOT) else None
    changes = _git("status", "--porcelain", "--untracked-files=no") if commit else None
    return commit or None, None if changes is None else bool(changes)


@cache
def lock_digest() -> str | None:
    """The first 16 hex digits of the SHA-256 of the lock file of this checkout; None without a checkout."""
    lock = SOURCE_ROOT / "requirements" / "troupe.txt"
    return hashlib.sha256(lock.read_bytes()).hexdigest()[:16] if lock.is_file() else None


def list_changed_stages(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """**Example** `["compute_rewards 1 -> 2"]`; stages that are in only one of them are not reported."""
    known = [stage for stage in after if stage in before]
    return [f"{stage} {before[stage]} -> {after[stage]}" for stage in known if before[stage] != after[stage]]


def list_changed_libraries(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Libraries that differ in the first two numbers of their versions. **Example** `["torch 2.12.1 -> 2.13.0"]`."""
    return [
        f"{name} {before[name]} -> {after[name]}"
        for name in before
        if name in after and before[name].split(".")[:2] != after[name].split(".")[:2]
    ]


def _read_installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    """The output of git, or None without git or a checkout that it trusts."""
    command = ["git", "-C", str(SOURCE_ROOT), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
