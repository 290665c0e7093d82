"""The commands of `troupe sandbox`: build, run one program, attack, status."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, cast, get_args

from components.errors import ConfigurationError, ServiceMissing
from components.machine.home import HOME, ensure_home
from components.sandbox.attacks.agents import AgentAttack
from components.sandbox.attacks.base import Attack
from components.sandbox.attacks.catalogue import catalogue, choose_attacks
from components.sandbox.attacks.decoys import laid_out
from components.sandbox.attacks.runner import AttackReport, carry_out
from components.sandbox.backends import Probe, open_sandbox, probe
from components.sandbox.base import Backend, SandboxDescription
from components.sandbox.box import BoxLimits
from components.sandbox.daemon import running_daemon
from components.sandbox.inventory import census
from components.sandbox.rootfs import find_or_build_rootfs
from components.schema import ExecutionResult, Limits

Choice = Literal["auto", "docker", "bubblewrap"]
NUM_ATTACKED_BOXES = 2
"""One for the attacker and one for its neighbour."""


def state_folder(home: Path = HOME) -> Path:
    """The folder of the boxes' file system and of a private daemon."""
    return home / "sandbox"


def docker_host() -> str | None:
    """The user's Docker daemon, from the variable that Docker's own tools read."""
    return os.environ.get("DOCKER_HOST") or None


def check_backend(name: str) -> Choice:
    """`name`, if it is a backend. Raises ConfigurationError."""
    if name not in get_args(Choice):
        raise ConfigurationError(f"--backend {name!r}: choose one of {', '.join(get_args(Choice))}")
    return cast(Choice, name)


def run_file(
    path: str, *, backend: str, timeout_seconds: float | None, stdin_file: Path | None
) -> tuple[ExecutionResult, SandboxDescription]:
    """The result of the program in `path` ("-": standard input), and the sandbox that it ran in.

    `timeout_seconds` is the limit of wall time and of CPU time; None means the default limits. Raises ConfigurationError for
    files that cannot be read.
    """
    choice = check_backend(backend)
    program = _text("FILE", None if path == "-" else Path(path))
    stdin = "" if stdin_file is None else _text("--stdin", stdin_file)
    limits = Limits()
    if timeout_seconds is not None:
        limits = Limits(wall_seconds=timeout_seconds, cpu_seconds=timeout_seconds)
    folder = state_folder(ensure_home())
    with closing(open_sandbox(choice, state_folder=folder, num_boxes=1, docker_host=docker_host())) as sandbox:
        return sandbox.run(program, stdin=stdin, limits=limits), sandbox.description


def attack(
    *,
    backend: str,
    only: str | None,
    on_start: Callable[[Attack, SandboxDescription], None],
    on_report: Callable[[AttackReport], None],
) -> tuple[SandboxDescription, list[AttackReport]]:
    """Carry out all attacks, or those of one name or theme, on one pool. Raises ConfigurationError for an unknown name."""
    choice = check_backend(backend)
    with laid_out(state_folder(ensure_home()) / "bait") as bait:
        attacks = choose_attacks(catalogue(bait), only)
        sandbox = open_sandbox(
            choice, state_folder=state_folder(), num_boxes=NUM_ATTACKED_BOXES, docker_host=docker_host()
        )
        reports = []
        with closing(sandbox):
            for each in attacks:
                on_start(each, sandbox.description)
                reports.append(carry_out(each, sandbox))
                on_report(reports[-1])
        return sandbox.description, reports


def attack_profile(
    profile: str,
    *,
    backend: str,
    only: str | None,
    on_start: Callable[[Attack | AgentAttack, SandboxDescription], None],
    on_report: Callable[[AttackReport], None],
) -> tuple[SandboxDescription, list[AttackReport]]:
    """Carry out the attacks on the boxes of programs or of agents. Raises ConfigurationError."""
    if profile == "program":
        return attack(backend=backend, only=only, on_start=on_start, on_report=on_report)
    if profile != "agent":
        raise ConfigurationError(f"--profile {profile!r}: choose one of program, agent")
    if check_backend(backend) == "docker":
        raise ConfigurationError("--backend docker: agents have boxes of bubblewrap alone; leave it out")
    from troupe.diagnostics.agent_attacks import attack_agents

    return attack_agents(only, on_start, on_report)


def attack_document(description: SandboxDescription, reports: Sequence[AttackReport]) -> dict[str, Any]:
    """The reports of one pool as JSON."""
    num_held = sum(report.held for report in reports)
    return {
        "backend": description.backend,
        "image_digest": description.image_digest,
        "num_attacks": len(reports),
        "num_stopped": num_held,
        "num_succeeded": len(reports) - num_held,
        "attacks": [report.model_dump(mode="json") for report in reports],
    }


def build(on_step: Callable[[str], None]) -> dict[str, Any]:
    """Build the boxes' file system, and import it into a Docker daemon if there is one or one can be started.

    Raises ServiceMissing when no backend works here.
    """
    folder = state_folder(ensure_home())
    started = time.monotonic()
    on_step("the file system of the boxes")
    root, digest = find_or_build_rootfs(folder)
    on_step("the image, in a Docker daemon that is started if need be")
    reason = None
    try:
        open_sandbox("docker", state_folder=folder, num_boxes=1, docker_host=docker_host()).close()
    except ServiceMissing as error:
        reason = str(error)
        other = probe("bubblewrap", state_folder=folder)
        if not other.works:
            raise ServiceMissing(f"{error}\nbubblewrap: {other.detail}: {other.remedy}") from error
    return {
        "digest": digest,
        "folder": str(root),
        "num_bytes": _num_bytes(root),
        "engine": None if reason else daemon_document(folder),
        "why_no_engine": reason,
        "seconds": time.monotonic() - started,
    }


def status_document(home: Path = HOME) -> dict[str, Any]:
    """The state of the sandbox on this machine. Starts no daemon."""
    folder = state_folder(home)
    probes = probe_all(home)
    found = census(running_daemon(folder, docker_host()) if probes["docker"].works else None)
    return {
        "auto": auto_choice(probes),
        "backends": {name: each.model_dump(mode="json") for name, each in probes.items()},
        "engine": daemon_document(folder),
        "image_digest": find_or_build_rootfs(folder)[1],
        "limits": limits_in_force(),
        "boxes": {"docker": found.containers, "bubblewrap": found.namespaces},
        "leftovers": found.leftovers,
    }


def probe_all(home: Path = HOME) -> dict[Backend, Probe]:
    """A probe of each backend, in the order of `auto`."""
    folder = state_folder(home)
    return {
        "docker": probe("docker", state_folder=folder, docker_host=docker_host()),
        "bubblewrap": probe("bubblewrap", state_folder=folder),
    }


def auto_choice(probes: dict[Backend, Probe]) -> Backend | None:
    """The backend that `auto` takes; None if none works."""
    return next((name for name, each in probes.items() if each.works), None)


def limits_in_force() -> dict[str, str]:
    """The limits of a box and those of one program, in words."""
    program = Limits()
    return {
        **{f"box {name}": value for name, value in BoxLimits.around(program).in_words().items()},
        "program wall": f"{program.wall_seconds:g} s",
        "program cpu": f"{program.cpu_seconds:g} s",
        "program memory": f"{program.memory_mib} MiB",
        "program output": f"{program.output_kib} KiB",
    }


def daemon_document(folder: Path) -> dict[str, Any] | None:
    """The running daemon, if any."""
    try:
        daemon = running_daemon(folder, docker_host())
    except ServiceMissing:
        return None
    return None if daemon is None else asdict(daemon)


def _text(argument: str, path: Path | None) -> str:
    """The text of a file, or of standard input for None."""
    try:
        return sys.stdin.read() if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{argument} {path or '-'}: cannot be read: {error}; name a text file") from error


def _num_bytes(root: Path) -> int:
    return sum(path.lstat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
