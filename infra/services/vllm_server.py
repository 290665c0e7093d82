"""One vLLM server on this machine as a service: its launch, its health check."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from components.config import VllmGeneration
from components.generation.vllm.launch import ServedModel, ServerStart, describe_sampling
from components.machine.scratch import socket_folder
from infra.services.loopback import LOOPBACK, local_url, request
from infra.services.secrets import ensure_secret
from infra.services.service import Launch, NotReady, Ports, Service


class VllmService(Service):
    """A server of one model."""

    grace_seconds = 15.0

    def __init__(self, index: int, model: ServedModel, config: VllmGeneration) -> None:
        """`index` numbers the servers of a home folder; the preferred port and the CPUs depend on it."""
        self.name = f"vllm-{index}"
        self.ports = {"vllm": config.vllm.port + index}
        self.start_timeout_seconds = config.vllm.start_timeout_seconds
        self._index = index
        self._model = model
        self._config = config

    def launch(self, home: Path, ports: Ports, peers: Mapping[str, Ports]) -> Launch:
        """The server process, with an empty scratch folder for its sockets and compiled files."""
        start = ServerStart(
            model=self._model,
            config=self._config,
            host=LOOPBACK,
            port=ports["vllm"],
            index=self._index,
            scratch=_scratch_folder(ports),
            key_file=key_file(home),
        )
        command = start.command()
        self.clean(ports)
        start.scratch.mkdir(mode=0o700)
        ensure_secret(key_file(home))
        return Launch(command=command, env=start.variables(), cwd=key_file(home).parent)

    def check(self, home: Path, ports: Ports) -> None:
        """Check its health and sample a token."""
        super().check(home, ports)
        path, body = describe_sampling(self._model.name)
        status, content = request(
            "POST",
            f"{local_url(ports['vllm'])}{path}",
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {ensure_secret(key_file(home))}"},
            timeout_seconds=self.start_timeout_seconds,
        )
        if status != 200:
            raise NotReady(f"sampling a token gave HTTP {status}: {content[:300].decode(errors='replace')}")

    @classmethod
    def clean(cls, ports: Ports) -> None:
        """Remove its sockets and compiled files."""
        shutil.rmtree(_scratch_folder(ports), ignore_errors=True)


def _scratch_folder(ports: Mapping[str, int]) -> Path:
    """The folder for one server's temporary files; its path is short enough for Unix sockets."""
    return socket_folder("troupe-vllm") / str(ports["vllm"])


def key_file(home: Path) -> Path:
    """The file with the key of all servers of `home`."""
    return home.absolute() / "vllm" / "key"
