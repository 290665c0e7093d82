"""A real S3 server for tests: SeaweedFS in its own process group, on free ports, in one folder."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from pathlib import Path

from components.artifacts.s3 import S3ArtifactStore
from components.errors import StoreUnavailable
from infra.services.seaweedfs import SeaweedService, server_command

ACCESS_KEY = "accesskeyfortests"
SECRET_KEY = "secretkeyfortests"
BUCKET = "troupe-tests"


class WeedServer:
    """A server that can be killed and restarted with the same data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = dict(zip(SeaweedService.ports, _free_ports(len(SeaweedService.ports)), strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        # In its working directory: such a file must not override its own.
        (folder / "security.toml").write_text('[jwt.signing]\nkey = ""\n')
        (folder / "identities.json").write_text(json.dumps({"identities": [identity]}))

    @property
    def port(self) -> int:
        return self.ports["s3"]

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spawn(self, *, closed: bool = True) -> None:
        """Start the process as the local stack does; it answers some seconds later. `closed` False leaves all ports open."""
        # A restarted server mostly waits for this; the default is 10 s.
        own = ("-master.electionTimeout=1s", "-master.volumeSizeLimitMB=64")
        command = [
            word for word in server_command(self.folder, self.ports) if closed or not word.startswith("-config_dir")
        ]
        with (self.folder / "weed.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *own],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self.folder,
            )  # fmt: skip

    def wait_ready(self) -> None:
        """Return when the server stores and returns bytes; it lists its bucket seconds before it can."""
        store = S3ArtifactStore(BUCKET, prefix="ready", endpoint_url=self.endpoint_url, retry_seconds=1)
        deadline = time.monotonic() + 60
        while True:
            try:
                store.ensure_bucket()
                store.get_bytes(store.put_bytes(b"ready", kind="bytes"))
                return
            except StoreUnavailable:
                assert time.monotonic() < deadline, (self.folder / "weed.log").read_text()[-2000:]

    def flip_a_bit_of(self, content: bytes) -> None:
        """Flip one bit of these bytes in the server's files."""
        for volume in (self.folder / "data").glob("*.dat"):
            at = volume.read_bytes().find(content)
            if at >= 0:
                with volume.open("r+b") as file:
                    file.seek(at + len(content) // 2)
                    file.write(bytes([content[len(content) // 2] ^ 1]))
                return
        raise AssertionError("the server does not keep these bytes")

    def kill(self) -> None:
        """Kill the whole process group at once, like a power cut."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            SeaweedService.clean(self.ports)


def _free_ports(count: int) -> list[int]:
    """Ports below the kernel's range for clients, so that no client takes one before the server."""
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            probe = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", 12_000 + secrets.randbelow(20_000)))
                ports.append(probe.getsockname()[1])
        return ports
