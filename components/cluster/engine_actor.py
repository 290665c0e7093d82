"""A replica of an engine as a Ray actor: it fetches a model, starts a vLLM server beside itself, and gives its address."""

import contextlib
import fcntl
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import mkdtemp

from pydantic import TypeAdapter

from components.artifacts.refs import CheckpointRef
from components.cluster.node import Lease, NodeAddress
from components.config import VllmGeneration
from components.config.older import StoredConfig
from components.errors import EngineUnavailable
from components.frozen import Frozen
from components.generation.vllm.background import Background
from components.generation.vllm.launch import ServedModel, ServerStart, check_head_size, describe_sampling
from components.generation.vllm.transport import ReplicaFailed, Transport, encode_json
from components.machine.child_environment import filter_environment
from components.machine.scratch import private_folder, socket_folder
from components.session.checkpoint_cache import open_copies
from components.session.stores import open_store
from components.training.base import MODEL_FOLDER

_ENDS_WITH_INPUT = {"TROUPE_VLLM_ENDS_WITH_INPUT": "1"}
"""Tells `infra/vllm/serve.py` that the server and all that it starts end when its standard input is closed."""
_LOOKS_SECONDS = 0.5
_LOG_SHOWN = 2000


class EngineOrder(Frozen):
    """What a replica serves, as JSON."""

    generation: VllmGeneration
    model: str
    number: int
    checkpoint: CheckpointRef
    """A policy of the model before training: its shape is served, and clients load what they want."""
    num_adapters: int = 0
    max_rank: int = 0
    memory_fraction: float | None = None


class EngineReplica:
    """`start` once; it ends with its server, and its server ends with it."""

    def __init__(self, lease_seconds: float) -> None:
        self._lease = Lease(lease_seconds)
        self._host = NodeAddress.read().address
        self._answer: dict[str, str] | None = None
        self._order = ""
        self._ended = threading.Event()

    def renew(self) -> None:
        """Somebody still wants it."""
        self._lease.renew()

    def describe(self) -> dict[str, str] | None:
        """The fields of a ClusterServer; None until it serves."""
        return self._answer

    def read_order(self) -> str:
        """The order that it was started with."""
        return self._order

    def start(self, order: str, config_json: str, key: str) -> None:
        """Serve the model of an EngineOrder to clients with `key`. Raises EngineUnavailable with the end of its log."""
        import ray

        self._order, wanted = order, EngineOrder.model_validate_json(order)
        config, generation = TypeAdapter(StoredConfig).validate_json(config_json), wanted.generation
        copies = open_copies(config, open_store(config.store), is_shared=True)
        folder = copies.path(wanted.checkpoint) / MODEL_FOLDER
        check_head_size(folder, generation.device)
        devices = tuple(filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))
        scratch = Path(mkdtemp(dir=socket_folder("troupe-vllm")))
        key_file = scratch / "key"
        key_file.touch(mode=0o600)
        key_file.write_text(key, encoding="utf-8")
        server = ServerStart(
            model=ServedModel(
                name=wanted.model,
                folder=folder,
                num_adapters=wanted.num_adapters,
                max_rank=wanted.max_rank,
                devices=devices,
                memory_fraction=wanted.memory_fraction,
            ),
            config=generation,
            host=self._host,
            port=_choose_port(self._host),
            index=wanted.number,
            scratch=scratch,
            key_file=key_file,
        )
        url = f"http://{self._host}:{server.port}"
        with _start_alone(devices if generation.device == "cuda" else ()):
            threading.Thread(target=self._serve, args=(server,), name="server", daemon=True).start()
            self._prove(url, server, key)
        self._answer = {"url": url, "node": ray.get_runtime_context().get_node_id(), "key": key}

    def _serve(self, server: ServerStart) -> None:
        """Run the server to its end, which is this actor's."""
        with (server.scratch / "log").open("wb") as log:
            process = subprocess.Popen(
                server.command(),
                env={**filter_environment(os.environ), **server.variables(), **_ENDS_WITH_INPUT},
                cwd=server.scratch,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        process.wait()
        self._ended.set()
        if self._answer is not None:
            os._exit(1)

    def _prove(self, url: str, server: ServerStart, key: str) -> None:
        """Wait until it samples a token."""
        background, transport = Background("proof"), Transport(key)
        deadline = time.monotonic() + server.config.vllm.start_timeout_seconds
        path, body = describe_sampling(server.model.name)
        try:
            while True:
                try:
                    background.run(transport.call(url, "/health", timeout_seconds=_LOOKS_SECONDS))
                    left_seconds = max(1.0, deadline - time.monotonic())
                    background.run(transport.call(url, path, encode_json(body), timeout_seconds=left_seconds))
                    return
                except ReplicaFailed as error:
                    if self._ended.wait(_LOOKS_SECONDS) or time.monotonic() > deadline:
                        log = (server.scratch / "log").read_text(encoding="utf-8", errors="replace")
                        raise EngineUnavailable(
                            f"vLLM server {server.model.name!r} on {socket.gethostname()} does not come up: {error}; the end "
                            f"of its log:\n{log[-_LOG_SHOWN:]}"
                        ) from error
        finally:
            background.run(transport.close())
            background.close()


def _choose_port(host: str) -> int:
    """A port of `host` that was free just now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _start_alone(devices: Sequence[str]) -> Iterator[None]:
    """Within the block no other server of this host starts on any of `devices`: vLLM measures what is free meanwhile."""
    with contextlib.ExitStack() as held:
        for device in sorted(devices):
            turn = held.enter_context((private_folder("troupe-vllm-turns") / device).open("w", encoding="utf-8"))
            fcntl.flock(turn, fcntl.LOCK_EX)
        yield
