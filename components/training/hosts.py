"""The hosts of the ranks: DeepSpeed's hostfile, and the command that starts DeepSpeed's launcher on each host."""

import base64
import json
import re
import shlex
import shutil
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from components.config import TrainingConfig
from components.errors import ConfigurationError

_LINE = re.compile(r"(\S+)\s+slots=(\d+)(\s+#.*)?")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15")


@dataclass(frozen=True, slots=True)
class Host:
    """A machine and its number of ranks."""

    name: str
    num_slots: int


def hosts_of(training: TrainingConfig) -> tuple[Host, ...]:
    """The hosts of `training`. The first is this one, which runs rank 0 and talks to the trainer.

    Raises ConfigurationError for a hostfile that is unreadable or malformed, does not have `num_ranks` slots, does not begin
    with this host, or has several hosts without ssh being installed.
    """
    if training.hostfile is None:
        return (Host("localhost", training.num_ranks),)
    hosts = read_hostfile(Path(training.hostfile))
    where = f"training.hostfile {training.hostfile!r}"
    num_slots = sum(host.num_slots for host in hosts)
    if num_slots != training.num_ranks:
        raise ConfigurationError(
            f"training.num_ranks {training.num_ranks}: {where} has {num_slots} slots in all; set num_ranks to {num_slots}, "
            "or change the slots"
        )
    if not is_this_host(hosts[0].name):
        raise ConfigurationError(
            f"{where}: its first host {hosts[0].name!r} is not this one, {socket.gethostname()!r}; put this host first, or "
            "start the run there"
        )
    if len(hosts) > 1 and hosts[0].name in _LOOPBACK:
        raise ConfigurationError(
            f"{where}: its first host {hosts[0].name!r} has a name by which the others cannot reach it; write "
            f"{socket.gethostname()!r} or its address"
        )
    if len(hosts) > 1 and shutil.which("ssh") is None:
        raise ConfigurationError(
            f"{where}: several hosts need ssh, which is not installed; apt-get install openssh-client, and authorize this "
            "host's key on every other host"
        )
    return hosts


def read_hostfile(path: Path) -> tuple[Host, ...]:
    """The hosts of a file in DeepSpeed's format: lines `NAME slots=N`, empty lines and `#` comments.

    Raises ConfigurationError, naming file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"training.hostfile {str(path)!r} cannot be read: {error}") from error
    hosts: dict[str, Host] = {}
    for number, line in enumerate(lines, start=1):
        text, where = line.strip(), f"training.hostfile {str(path)!r}, line {number}"
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        if match is None or int(match[2]) == 0 or match[1].startswith("-"):
            raise ConfigurationError(f"{where}: {text!r} is not a host; write `NAME slots=N` with N of at least 1")
        if match[1] in hosts:
            raise ConfigurationError(f"{where}: {match[1]!r} is repeated; give it one line with all its slots")
        hosts[match[1]] = Host(match[1], int(match[2]))
    if not hosts:
        raise ConfigurationError(
            f"training.hostfile {str(path)!r} names no host; write `NAME slots=N` lines, or leave it out"
        )
    return tuple(hosts.values())


def is_this_host(name: str) -> bool:
    """Whether `name` is a name or an address of this machine, to which a socket can be bound."""
    if name in _LOOPBACK or name == socket.gethostname():
        return True
    with suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
                return True
    return False


def host_commands(
    hosts: Sequence[Host], *, launcher: Sequence[str], arguments: Sequence[str], folder: Path
) -> list[list[str]]:
    """The command that runs `launcher` with `arguments` on each host: on this one directly, on others through ssh in `folder`.

    Processes on other hosts get `--exit_with_stdin`: they end with the ssh connection.

    **Example** a slots=1, b slots=1: `[["/usr/bin/env", ..], ["ssh", .., "b", "cd /folder && exec /usr/bin/env .."]]`.
    """
    world = {host.name: list(range(host.num_slots)) for host in hosts}
    encoded = base64.urlsafe_b64encode(json.dumps(world).encode()).decode()
    commands = []
    for number, host in enumerate(hosts):
        command = [*launcher, f"--world_info={encoded}", f"--node_rank={number}", *arguments]
        if number:
            command.append("--exit_with_stdin")
            command = [*_SSH, host.name, f"cd {shlex.quote(str(folder))} && exec {shlex.join(command)}"]
        commands.append(command)
    return commands
