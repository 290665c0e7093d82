"""Without the secrets of the S3 server, programs on this machine and web pages get nothing through its ports and sockets."""

import base64
import hashlib
import hmac
import json
import socket
import ssl
import subprocess
from functools import partial
from pathlib import Path

import pytest

from components.artifacts.s3 import S3ArtifactStore
from infra.services.loopback import request
from infra.services.seaweed_security import new_certificate
from infra.services.seaweedfs import SeaweedService, sockets_of
from infra.services.seaweedfs import find_weed as weed_program
from tests.components.artifacts.weed_server import BUCKET, WeedServer
from tests.other_users import as_stranger, needs_another_user

CLOSED = tuple(name for name in SeaweedService.ports if name != "s3")
HTTP = ("master", "volume", "filer")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
"""The first bytes of every gRPC client."""


def get(method: str, path: str) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()


def talk(connection: socket.socket, sent: bytes) -> bytes:
    """The response to `sent` before the server hangs up."""
    connection.settimeout(10)
    try:
        connection.sendall(sent)
        return connection.recv(1 << 16)
    except OSError:  # ssl's errors are of that kind
        return b""


def tls(port: int, sent: bytes, certificate: Path | None) -> bytes:
    """The same through TLS, with the key and certificate in a folder."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"] if sent == PREFACE else ["http/1.1"])
    if certificate is not None:
        context.load_cert_chain(certificate / "certificate.pem", certificate / "key.pem")
    with socket.create_connection(("127.0.0.1", port)) as plain:
        try:
            with context.wrap_socket(plain) as connection:
                return talk(connection, sent)
        except OSError:
            return b""


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate like the server's, from another authority."""
    folder = tmp_path_factory.mktemp("forged")
    key, certificate = new_certificate()
    (folder / "key.pem").write_bytes(key)
    (folder / "certificate.pem").write_bytes(certificate)
    return folder


@pytest.mark.parametrize("name", CLOSED)
def test_a_port_answers_nobody_without_the_servers_key(name: str, weed: WeedServer, forged: Path) -> None:
    port = weed.ports[name]
    sent = get("GET", "/") if name in HTTP else PREFACE
    assert tls(port, sent, None) == b""
    assert tls(port, sent, forged) == b""
    assert tls(port, sent, weed.folder / "security") != b"", "the server itself is answered"


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_a_port_says_nothing_in_the_clear(name: str, method: str, weed: WeedServer) -> None:
    for path in ("/", "/buckets/?pretty=y", "/dir/assign", "/status"):
        with socket.create_connection(("127.0.0.1", weed.ports[name])) as connection:
            answer = talk(connection, get(method, path))
        assert answer in (b"", b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
    with socket.create_connection(("127.0.0.1", weed.ports[name])) as connection:
        assert talk(connection, PREFACE) == b"", "a gRPC server greets with its settings"


def token(secret: bytes, algorithm: str = "HS256") -> str:
    """A signed token in the filer's format."""
    parts = [{"alg": algorithm, "typ": "JWT"}, {"exp": 4102444800}]
    spelled = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    seal = hmac.digest(secret, spelled, hashlib.sha256) if algorithm == "HS256" else b""
    return (spelled + b"." + base64.urlsafe_b64encode(seal).rstrip(b"=")).decode()


def through_socket(path: Path, method: str, target: str, authorization: str = "") -> int:
    """The HTTP status of a request through a local socket."""
    shown = f"Authorization: Bearer {authorization}\r\n" if authorization else ""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        said = talk(connection, get(method, target)[:-2] + shown.encode() + b"\r\n")
    return int(said.split()[1])


def test_the_local_sockets_of_grpc_answer_nobody_without_the_servers_key(weed: WeedServer) -> None:
    paths = [path for path in sockets_of(weed.ports) if "-grpc-" in path.name]
    assert len(paths) == 4
    for path in paths:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            assert talk(connection, PREFACE) == b""


def test_the_filers_local_socket_asks_for_a_token(weed: WeedServer, s3_store: S3ArtifactStore) -> None:
    s3_store.put_bytes(b"private", kind="bytes")
    (filer,) = [path for path in sockets_of(weed.ports) if path.name == f"seaweedfs-filer-{weed.ports['filer']}.sock"]
    shown = ("", token(b""), token(b"guessed"), token(b"", "none"))
    for method in ("GET", "PUT", "POST", "DELETE"):
        assert {through_socket(filer, method, "/buckets/", each) for each in shown} == {401}
    key = (weed.folder / "security" / "jwt.filer_signing.read").read_bytes()
    assert through_socket(filer, "GET", "/buckets/", token(key)) == 200, "the server itself is answered"


@needs_another_user
def test_another_user_reads_no_file_of_the_server_and_connects_to_none_of_its_sockets(weed: WeedServer) -> None:
    security = weed.folder / "security"
    names = ["key.pem", "security.toml", "jwt.signing", "jwt.filer_signing", "jwt.filer_signing.read"]
    assert security.stat().st_mode & 0o777 == 0o700
    for name in names:
        assert (security / name).stat().st_mode & 0o777 == 0o600
        assert as_stranger((security / name).read_bytes) == "PermissionError"
    existing = [path for path in sockets_of(weed.ports) if path.exists()]
    assert len(existing) == 6
    for path in existing:
        with socket.socket(socket.AF_UNIX) as knock:
            assert as_stranger(partial(knock.connect, str(path))) == "PermissionError"


def test_seaweedfs_own_tools_do_nothing_without_the_key(weed: WeedServer, tmp_path: Path) -> None:
    (tmp_path / "planted").write_text("planted")
    master = f"127.0.0.1:{weed.ports['master']}.{weed.ports['master_grpc']}"
    arguments = ["upload", f"-master={master}", str(tmp_path / "planted")]

    def upload(*options: str) -> subprocess.CompletedProcess[str]:
        command = [str(weed_program()), *options, *arguments]
        env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert '"fid"' not in upload().stdout
    assert '"fid"' in upload(f"-config_dir={weed.folder / 'security'}").stdout, "the server's owner may"


def test_a_web_page_gets_no_leave_to_read(weed: WeedServer) -> None:
    asked = {"Origin": "http://page.example", "Access-Control-Request-Method": "PUT"}
    for method, path in (("GET", "/troupe-tests"), ("GET", "/"), ("OPTIONS", "/troupe-tests/key")):
        status, _ = request(method, weed.endpoint_url + path, headers=asked)
        assert status == 403
    with socket.create_connection(("127.0.0.1", weed.port)) as connection:
        answer = talk(connection, get("GET", "/troupe-tests")[:-2] + b"Origin: http://page.example\r\n\r\n")
    assert b"403" in answer
    assert b"access-control-allow-origin" not in answer.lower()


@pytest.mark.slow
def test_what_was_stored_before_the_ports_were_closed_is_read_after(tmp_path: Path, credentials: None) -> None:
    server = WeedServer(tmp_path / "weed")
    try:
        server.spawn(closed=False)
        server.wait_ready()
        store = S3ArtifactStore(BUCKET, prefix="kept", endpoint_url=server.endpoint_url)
        refs = [store.put_bytes(content, kind="bytes") for content in (b"small", bytes(9 << 20))]
        server.kill()
        server.spawn()
        server.wait_ready()
        assert [store.get_bytes(ref) for ref in refs] == [b"small", bytes(9 << 20)]
    finally:
        server.kill()
