"""The interface of a local service."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from components.errors import TransientError
from components.identity import fingerprint
from infra.services.loopback import answers, local_url

Ports = Mapping[str, int]
"""Port number by name."""


class NotReady(TransientError):
    """The service runs but does not serve yet."""


class PortTaken(TransientError):
    """Another program has taken a port of the service since it was looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a service: its command, its own environment variables, its working directory."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = field(default_factory=Path.cwd)

    @property
    def digest(self) -> str:
        """Changes with the command or the environment; a running service with another digest is restarted."""
        return fingerprint([self.command, dict(self.env)])


class Service:
    """One background service. `ports` are the preferred port numbers, 0 for any free port."""

    name: str
    ports: Mapping[str, int] = {}
    health_path = "/health"
    start_timeout_seconds = 300.0
    grace_seconds = 5.0

    def launch(self, home: Path, ports: Ports, peers: Mapping[str, Ports]) -> Launch:
        """How to start it on these ports, after creating the folders and files it needs. `peers` are the ports by service."""
        raise NotImplementedError

    def check(self, home: Path, ports: Ports) -> None:
        """Return when the service serves; raise NotReady or OSError while it does not."""
        if not self.serves(ports):
            raise NotReady("its health check does not answer 200")

    @classmethod
    def serves(cls, ports: Ports) -> bool:
        """Whether the health check on each port answers 200. Cheap, and changes nothing."""
        return all(answers(f"{local_url(port)}{cls.health_path}") for port in ports.values())

    @classmethod
    def clean(cls, ports: Ports) -> None:
        """Remove what a stopped service leaves outside its data."""
