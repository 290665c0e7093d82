"""Real servers, started and stopped."""

import http.client
import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from components.errors import PrefectUnavailable, ServiceMissing
from components.machine.process_ids import process_of
from infra.deployed import local_client
from infra.services import client, stack
from infra.services.environment import PrefectAddress, S3Address, StackStatus, environment, service_environment
from infra.services.lifecycle import mark_of
from infra.services.loopback import request
from infra.services.process import ProcessRecord, find_marked, read_record, write_record
from infra.services.seaweedfs import credentials_file, sign_request
from infra.services.stack import ALL, deploy, down, outage, status, up


def ours(home: Path) -> list[psutil.Process]:
    """Every process that carries a mark of `home`."""
    return [process for name in ALL for process in find_marked(mark_of(home, name))]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "home"
    yield folder
    down(folder)
    assert ours(folder) == []


@pytest.fixture(scope="module")
def s3_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("s3-home")
    up(folder, only=["s3"])
    yield folder
    down(folder)


def s3_of(state: StackStatus) -> S3Address:
    assert state.s3 is not None
    return state.s3


def test_a_home_without_services_has_none_and_nothing_to_stop(tmp_path: Path) -> None:
    assert status(tmp_path).document() == {"prefect": None, "mlflow": None, "s3": None, "worker": None}
    assert down(tmp_path) == []
    assert down(tmp_path / "never") == []


def test_a_service_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="'minio'"):
        up(tmp_path, only=["minio"])
    with pytest.raises(AssertionError, match="start both"):
        up(tmp_path, only=["worker"])


def test_up_again_changes_nothing(s3_home: Path) -> None:
    before = read_record(s3_home, "s3")
    state = up(s3_home, only=["s3"])
    assert read_record(s3_home, "s3") == before
    assert status(s3_home) == state
    assert state.document()["mlflow"] is None


def test_the_credentials_are_private_and_appear_nowhere_else(s3_home: Path) -> None:
    secret = credentials_file(s3_home).read_text().split("aws_secret_access_key = ")[1].strip()
    assert len(secret) == 40
    for name in ("credentials", "identities.json"):
        assert stat.S_IMODE((s3_home / "s3" / name).stat().st_mode) == 0o600
    readable = [*s3_home.glob("logs/*"), *s3_home.glob("services/*"), *s3_home.glob("s3/logs/*")]
    assert readable
    assert [path for path in readable if secret in path.read_text(errors="replace")] == []
    record = read_record(s3_home, "s3")
    assert record is not None
    assert secret not in " ".join(psutil.Process(record.pid).cmdline())


def test_strangers_are_turned_away(s3_home: Path) -> None:
    assert request("GET", f"{s3_of(status(s3_home)).endpoint}/troupe/.ready")[0] == 403


def test_a_page_of_another_origin_reads_nothing(s3_home: Path) -> None:
    """Where a bucket is named, a browser is not allowed to show the answer to a foreign page, not even a signed one."""
    endpoint = s3_of(status(s3_home)).endpoint
    sign_request(s3_home, "PUT", f"{endpoint}/troupe/page", body=b"secret")
    for path in ("", "troupe", "troupe/page", "troupe/none", "status", "healthz", "metrics"):
        for method in ("GET", "PUT", "DELETE", "OPTIONS"):
            status_code, headers, content = send_from_page(f"{endpoint}/{path}", method)
            assert b"secret" not in content
            if path.startswith("troupe"):
                assert "Access-Control-Allow-Origin" not in headers, (method, path)
                assert status_code in (None, 403), (method, path)
            elif status_code == 200:
                assert content == b"", f"{path} tells that a server is here, and nothing else"
    assert sign_request(s3_home, "GET", f"{endpoint}/troupe/page") == (200, b"secret")


def send_from_page(url: str, method: str) -> tuple[int | None, Mapping[str, str], bytes]:
    """(HTTP status, headers, body) of what a browser sends for a foreign page; no status if the server hangs up."""
    place = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=10)
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}
    try:
        connection.request(method, place.path, headers=asked)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    except http.client.RemoteDisconnected:
        return None, {}, b""
    finally:
        connection.close()


def test_only_this_machine_is_listened_to(s3_home: Path) -> None:
    record = read_record(s3_home, "s3")
    assert record is not None
    listening = [c for c in psutil.Process(record.pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert {connection.laddr.ip for connection in listening} == {"127.0.0.1"}
    assert {connection.laddr.port for connection in listening} == set(record.ports.values())


def test_a_client_needs_the_environment_alone(s3_home: Path) -> None:
    code = (
        "import boto3; s3 = boto3.client('s3'); s3.put_object(Bucket='troupe', Key='k', Body=b'v');"
        "print(s3.get_object(Bucket='troupe', Key='k')['Body'].read().decode())"
    )
    env = service_environment(environment(status(s3_home)))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "v\n"


def test_a_process_joins_what_is_up_and_keeps_what_the_user_set(s3_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "HOME", s3_home)
    for name in environment(status(s3_home)):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    client.join_local_services()
    assert os.environ["AWS_ENDPOINT_URL_S3"] == s3_of(status(s3_home)).endpoint
    assert "AWS_ACCESS_KEY_ID" not in os.environ
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://elsewhere")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    assert client.join_local_services().s3 is None
    assert (os.environ["AWS_ENDPOINT_URL_S3"], os.environ["AWS_ACCESS_KEY_ID"]) == ("https://elsewhere", "mine")


def test_data_survives_a_killed_server_and_a_taken_port(s3_home: Path) -> None:
    endpoint = s3_of(status(s3_home)).endpoint
    assert sign_request(s3_home, "PUT", f"{endpoint}/troupe/kept", body=b"x" * 100_000)[0] == 200
    record = read_record(s3_home, "s3")
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(record.pid)], timeout=5)
    assert status(s3_home).s3 is None
    with socket.create_server(("127.0.0.1", record.ports["s3"])):
        moved = s3_of(up(s3_home, only=["s3"])).endpoint
        assert moved != endpoint
        assert sign_request(s3_home, "GET", f"{moved}/troupe/kept") == (200, b"x" * 100_000)


def test_one_that_does_not_come_up_names_its_log(home: Path) -> None:
    (home / "s3" / "data").mkdir(parents=True)
    (home / "s3" / "data" / "filerldb2").write_text("this is no database folder")
    with pytest.raises(ServiceMissing, match="s3 did not come up: it ended") as raised:
        up(home, only=["s3"])
    log = home / "logs" / "s3.log"
    assert str(log) in str(raised.value)
    assert log.read_text().splitlines()[-1] in str(raised.value)


def test_deploying_without_a_server_says_what_to_start(tmp_path: Path) -> None:
    with pytest.raises(ServiceMissing, match="troupe up"):
        deploy(status(tmp_path), tmp_path)


def test_a_service_that_was_started_and_does_not_answer_is_not_called_down(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        record = ProcessRecord(
            name="prefect", pid=os.getpid(), process=str(process_of(os.getpid())), command=(), launch_digest="",
            log=tmp_path / "logs" / "prefect.log", ports={"prefect": port},
        )  # fmt: skip
        (tmp_path / "services").mkdir()
        write_record(tmp_path, record)
        told = (
            f"the Prefect server at http://127.0.0.1:{port} was started .*{os.getpid()}.* and did not answer within 2 s"
        )
        for needs_server in (
            lambda: deploy(status(tmp_path), tmp_path),
            lambda: local_client(status(tmp_path)).__enter__(),
        ):
            with pytest.raises(ServiceMissing, match=rf"{told}, at a load of .*{record.log}; give the command again"):
                needs_server()
    write_record(tmp_path, record.model_copy(update={"process": "another"}))
    assert str(outage(tmp_path, "prefect")) == (
        f"the Prefect server at http://127.0.0.1:{port} is down; its log is {record.log}; start it with `troupe up`"
    )


def test_deployments_that_take_too_long_are_no_bug_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "DEPLOY_SECONDS", 0.01)
    silent = PrefectAddress(api_url="http://127.0.0.1:9/api", ui_url="http://127.0.0.1:9")
    with pytest.raises(PrefectUnavailable, match=r"prefect.yaml were not created within 0 s: .* the command again"):
        deploy(StackStatus(home=tmp_path, prefect=silent), tmp_path / "prefect.yaml")
