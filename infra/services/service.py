"""What the stack needs to know about one service."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from components.errors import TransientError
from components.identity import fingerprint


class NotReady(TransientError):
    """The service runs but does not serve yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a service is started: its command and what it needs in its environment beside the common part."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Equal for equal launches: a running service with another digest has to be started anew."""
        return fingerprint([self.command, dict(self.env)])


class Service(Protocol):
    """One background service. `ports` are the preferred ones; `peer_ports` those of the other services, by name."""

    name: str
    ports: Mapping[str, int]
    start_timeout_seconds: float
    grace_seconds: float

    def launch(self, home: Path, ports: Mapping[str, int], peers: Mapping[str, Mapping[str, int]]) -> Launch:
        """The command for these ports, after making the folders and files that it needs."""
        ...

    def check(self, home: Path, ports: Mapping[str, int]) -> None:
        """Return when the service serves; raise NotReady or OSError while it does not."""
        ...

    def serves(self, ports: Mapping[str, int]) -> bool:
        """Whether something answers there. Cheap, and changes nothing."""
        ...

    def clean(self, home: Path, ports: Mapping[str, int]) -> None:
        """Remove what the stopped service leaves behind outside its data."""
        ...
