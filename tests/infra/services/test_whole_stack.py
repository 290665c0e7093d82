"""All services at once: what the owner can do, and that nobody else can do anything."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from components.errors import ConfigurationError
from infra.services import client
from infra.services.client import PREFECT_TOML
from infra.services.environment import StackStatus, environment, service_environment
from infra.services.lifecycle import mark_of
from infra.services.loopback import basic, request
from infra.services.process import find_marked
from infra.services.secrets import password_file
from infra.services.stack import ALL, deploy, down, status
from troupe.projects.project import write_project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

NOBODY = 65534
DEPLOYED_FLOW = """
import json, os
from pathlib import Path
from prefect import flow

@flow
def touch(path: str) -> None:
    Path(path).write_text(json.dumps(dict(os.environ)))
"""
DEPLOYMENT = {"name": "here", "entrypoint": "touching.touch", "work_pool": {"name": "troupe"}}
FEW_STEPS = {
    "num_steps": 1,
    "policies": {"team": {"base": "tiny", "tiny": {"hidden_size": 32, "num_layers": 2, "intermediate_size": 64}}},
    "warm_start": {"min_success": 0.0, "max_success": 1.0, "max_steps": 20, "check_every": 20, "num_check_problems": 8},
    "rollout": {"num_problems": 4, "group_size": 4, "problems_per_block": 4},
    "evaluation": {"num_problems": 8, "problems_per_block": 8},
}
CALLED_AS_OURS = ("tasks.py", "flows/__init__.py", "components/__init__.py")
CANARY, PASSED = "CANARY_API_KEY", "PASSED_API_KEY"
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Stack:
    """All services of a home folder, and a project: a flow of its own, a preset, files that are called as our packages."""

    home: Path
    project: Path
    state: StackStatus
    told: str
    """What `troupe up` printed."""

    @property
    def password(self) -> str:
        return password_file(self.home).read_text()

    @property
    def prefect(self) -> str:
        assert self.state.prefect is not None
        return self.state.prefect.ui_url

    @property
    def mlflow(self) -> str:
        assert self.state.mlflow is not None
        return self.state.mlflow.url


def ours(home: Path) -> list[psutil.Process]:
    """Every process that carries a mark of `home`."""
    return [process for name in ALL for process in find_marked(mark_of(home, name))]


def troupe(command: str, home: Path, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """The command as a person gives it in `folder`."""
    env = {**service_environment({}), "TROUPE_HOME": str(home), "COLUMNS": "120", **more}
    call = [sys.executable, "-P", "-c", "from troupe.cli import main; main()", *command.split()]
    return subprocess.run(call, cwd=folder, env=env, capture_output=True, text=True, timeout=1200, check=False)


def projected(parent: Path) -> Path:
    """A project as `troupe init` writes it, whose preset takes seconds, and what its owner has added."""
    folder = write_project("mine", parent)
    (folder / "touching.py").write_text(DEPLOYED_FLOW)
    for name in CALLED_AS_OURS:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("raise RuntimeError('this is no part of Troupe')")
    document = yaml.safe_load((folder / "prefect.yaml").read_text())
    document["deployments"][0]["parameters"]["config"] |= FEW_STEPS
    document["deployments"].append(DEPLOYMENT)
    (folder / "prefect.yaml").write_text(yaml.safe_dump(document))
    return folder


def prefect(folder: Path, own_home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Prefect's command as a person gives it in `folder`, who has nothing but prefect.toml."""
    env = service_environment({"PREFECT_HOME": str(own_home)})
    command = [sys.executable, "-m", "prefect", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home, project = tmp_path_factory.mktemp("whole") / "home", projected(tmp_path_factory.mktemp("project"))
    home.mkdir(mode=0o755)
    try:
        started = troupe("up", home, project, **{CANARY: "canary", PASSED: "passed", "TROUPE_PASS_ENV": PASSED})
        assert started.returncode == 0, started.stderr
        state = status(home)
        yield Stack(home, project, state, started.stdout)
    finally:
        down(home)
        assert ours(home) == []


def test_every_service_is_told_of(stack: Stack) -> None:
    document = json.loads(json.dumps(stack.state.document()))
    assert list(document) == ["prefect", "mlflow", "s3", "worker"]
    assert None not in document.values()
    assert stack.password not in json.dumps(document)
    shown = troupe("status", stack.home, stack.project).stdout
    for told in (stack.told, shown):
        assert f"{stack.mlflow}/#/?workflowType=machine_learning" in told
        assert f"cat {password_file(stack.home)}" in told
        assert 'eval "$(troupe env)"' in told
        assert stack.password not in told


def test_a_plain_command_in_the_projects_folder_runs_a_deployment(stack: Stack, tmp_path: Path) -> None:
    """It is given nothing but prefect.toml; the flow run gets what it may have."""
    touched = tmp_path / "touched"
    command = ("deployment", "run", "touch/here", "--param", f"path={touched}", "--watch")
    done = prefect(stack.project, tmp_path / "own", *command)
    assert touched.exists(), (stack.home / "logs" / "worker.log").read_text() + done.stdout + done.stderr
    found = json.loads(touched.read_text())
    assert CANARY not in found
    assert found[PASSED] == "passed"
    assert touched.stat().st_mode & 0o077 == 0


def test_a_preset_of_the_folder_runs_on_the_worker_whatever_else_lies_there(stack: Stack, tmp_path: Path) -> None:
    assert "next: troupe train mine" in stack.told
    done = prefect(stack.project, tmp_path / "own", "deployment", "run", "train/mine", "--watch")
    assert done.returncode == 0, (stack.home / "logs" / "worker.log").read_text() + done.stdout + done.stderr
    shown = troupe("show mine --json", stack.home, stack.project)
    document = json.loads(shown.stdout)
    assert (document["state"], len(document["steps"])) == ("completed", 1)
    log = (stack.home / "logs" / "worker.log").read_text()
    assert "Flow run 'mine' - step 0 (1 of 1): success" in log
    assert "Flow run 'mine' - gain, greedy: " in log
    owner = {**JSON, **basic(stack.password)}
    _, content = request("POST", f"{stack.prefect}/api/artifacts/filter", body=b"{}", headers=owner)
    assert {each["key"] for each in json.loads(content)} >= {"run-mine", "mlflow-mine"}


def test_prefect_holds_what_the_files_say_until_one_is_changed(stack: Stack) -> None:
    file = stack.project / "prefect.yaml"
    before = file.read_text()
    file.write_text(before.replace("name: here", "name: here\n  parameters: {path: /x}"))
    checked = troupe("up --check", stack.home, stack.project)
    file.write_text(before)
    assert checked.returncode == 1
    assert checked.stdout.splitlines() == ["touch/here: parameters.path: '(absent)' -> '/x'", "", "next: troupe up"]


def test_no_service_inherits_an_account_of_the_user(stack: Stack) -> None:
    seen = {}
    for name in ALL:
        for process in find_marked(mark_of(stack.home, name)):
            seen[name] = process.environ()
            assert CANARY not in seen[name], (name, process.cmdline())
            assert stack.password not in " ".join(process.cmdline())
    assert {name for name, found in seen.items() if PASSED in found} == {"worker"}
    assert set(seen) == set(ALL)


def test_shell_exports_let_the_owners_commands_in(stack: Stack) -> None:
    """The printed lines in a shell that had accounts of its own, read by the real command line of MLflow."""
    own = service_environment({"MLFLOW_TRACKING_TOKEN": "mine", "PREFECT_API_KEY": "mine"})
    printed = troupe("env", stack.home, stack.project).stdout
    script = f'{printed}\nmlflow experiments search; echo "token:$MLFLOW_TRACKING_TOKEN:$PREFECT_API_KEY"'
    done = subprocess.run(["sh", "-c", script], env=own, capture_output=True, text=True, timeout=120, check=False)
    assert "Default" in done.stdout, done.stderr
    assert "token::\n" in done.stdout


def test_joining_brings_the_password_to_these_servers_and_to_no_other(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "HOME", stack.home)
    accounts = ("PREFECT_API_KEY", "PREFECT_PROFILE", "MLFLOW_TRACKING_TOKEN", "AWS_PROFILE", "AWS_ACCESS_KEY_ID")
    others = (*client.environment(stack.state), *accounts, "NO_PROXY", "no_proxy", "TROUPE_VLLM_URLS")
    for name in others:
        monkeypatch.setenv(name, "")
    for name in accounts:
        monkeypatch.setenv(name, "mine")
    assert client.join_local_services() == stack.state
    assert os.environ["PREFECT_API_AUTH_STRING"] == os.environ["MLFLOW_TRACKING_PASSWORD"] == stack.password
    assert [name for name in accounts if name in os.environ] == []

    for name, address in {"PREFECT_API_URL": "https://cloud/api", "MLFLOW_TRACKING_URI": "https://lab"}.items():
        monkeypatch.setenv(name, address)
    for name in ("PREFECT_API_AUTH_STRING", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "mine")
    monkeypatch.setenv("PREFECT_API_KEY", "mine")
    monkeypatch.chdir(stack.project)
    joined = client.join_local_services()
    assert (joined.prefect, joined.mlflow) == (None, None)
    assert (os.environ["MLFLOW_TRACKING_TOKEN"], "MLFLOW_TRACKING_PASSWORD" in os.environ) == ("mine", False)
    look = "from prefect.settings import Settings; s = Settings().api; print(s.url, bool(s.auth_string.get_secret_value()))"
    seen = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=120, check=True)
    assert seen.stdout == "https://cloud/api False\n"


PREFECT_REQUESTS = [
    ("GET", "/api/version"),
    ("GET", "/api/admin/settings"),
    ("POST", "/api/flow_runs/filter"),
    ("POST", "/api/deployments/filter"),
    ("POST", "/api/deployments/DEPLOYMENT/create_flow_run"),
    ("POST", "/api/work_pools/"),
    ("PATCH", "/api/work_pools/troupe"),
    ("POST", "/api/block_documents/filter"),
    ("POST", "/api/variables/filter"),
    ("POST", "/api/logs/filter"),
    ("POST", "/api/events/filter"),
    ("POST", "/api/ui/flow_runs/history"),
    ("GET", "/api/csrf-token?client=x"),
    ("GET", "/api/docs"),
    ("GET", "/api//health"),
    ("GET", "/api/variables/name/health"),
    ("POST", "/api/health"),
]
MLFLOW_REQUESTS = [
    ("GET", "/"),
    ("GET", "/version"),
    ("GET", "/static-files/index.html"),
    ("GET", "/api/2.0/mlflow/experiments/search?max_results=5"),
    ("POST", "/api/2.0/mlflow/experiments/create"),
    ("POST", "/ajax-api/2.0/mlflow/runs/search"),
    ("GET", "/ajax-api/3.0/mlflow/server-info"),
    ("POST", "/graphql"),
    ("GET", "/get-artifact?path=x&run_uuid=y"),
    ("GET", "/model-versions/get-artifact?path=x&name=y&version=1"),
    ("GET", "/api/2.0/mlflow-artifacts/artifacts?path="),
    ("PUT", "/api/2.0/mlflow-artifacts/artifacts/planted"),
    ("DELETE", "/ajax-api/2.0/mlflow-artifacts/artifacts/planted"),
    ("POST", "/v1/traces"),
    ("POST", "/gateway/any/mlflow/invocations"),
    ("GET", "/metrics"),
    ("GET", "/health/"),
]
CLAIMS = {"none": {}, "wrong": basic("troupe:wrong"), "empty": basic(":"), "bearer": {"Authorization": "Bearer x"}}


def deployment_of(stack: Stack) -> str:
    owner = {**JSON, **basic(stack.password)}
    _, content = request("GET", f"{stack.prefect}/api/deployments/name/touch/here", headers=owner)
    return str(json.loads(content)["id"])


@pytest.mark.parametrize("claim", CLAIMS)
def test_without_the_password_every_route_is_refused(stack: Stack, claim: str) -> None:
    deployment, num_runs = deployment_of(stack), number_of_runs(stack)
    planted = json.dumps({"job_variables": {"command": f"touch {stack.project}/planted"}}).encode()
    routes = [(f"{stack.prefect}{path}", method) for method, path in PREFECT_REQUESTS]
    routes += [(f"{stack.mlflow}{path}", method) for method, path in MLFLOW_REQUESTS]
    for url, method in routes:
        body = None if method == "GET" else planted
        target = url.replace("DEPLOYMENT", deployment)
        answered, content = request(method, target, body=body, headers={**JSON, **CLAIMS[claim]}, timeout_seconds=30.0)
        assert answered == 401, (method, url, answered)
        assert len(content) < 100
    assert number_of_runs(stack) == num_runs
    assert not (stack.project / "planted").exists()


def number_of_runs(stack: Stack) -> int:
    owner = {**JSON, **basic(stack.password)}
    return int(request("POST", f"{stack.prefect}/api/flow_runs/count", body=b"{}", headers=owner)[1])


@pytest.mark.parametrize(
    "foreign",
    [
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:9"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
    ],
    ids=lambda headers: next(iter(headers.values())),
)
def test_foreign_pages_and_hosts_are_refused_even_with_the_password(stack: Stack, foreign: dict[str, str]) -> None:
    for base, credentials, paths in (
        (stack.prefect, stack.password, ("/", "/ui-settings", "/openapi.json", "/api/health", "/api/flow_runs/filter")),
        (stack.mlflow, f"troupe:{stack.password}", ("/", "/health", "/api/2.0/mlflow/runs/search", "/graphql")),
    ):
        for path in paths:
            for method in ("GET", "POST", "OPTIONS"):
                headers = {**JSON, **basic(credentials), **foreign, "Access-Control-Request-Method": "POST"}
                answered, _ = request(method, f"{base}{path}", body=b"{}", headers=headers, timeout_seconds=30.0)
                assert answered == (400 if "Host" in foreign else 403), (method, path)


@pytest.mark.parametrize(
    "place",
    ["events/in", "events/out", "logs/out", "task_runs/subscriptions/scheduled", "work_pools/troupe/workers/connect"],
)
def test_websockets_ask_for_the_password_too(stack: Stack, place: str) -> None:
    url = f"{stack.prefect.replace('http', 'ws', 1)}/api/{place}"

    def answer(token: str | None, subprotocol: str | None, **headers: str) -> str:
        protocols = [subprotocol] if subprotocol else None
        try:
            with connect(url, subprotocols=protocols, additional_headers=headers, proxy=None) as socket:  # type: ignore[arg-type]
                socket.send(json.dumps({"type": "auth", "token": token}))
                return str(json.loads(socket.recv(timeout=30))["type"])
        except WebSocketException as error:
            return type(error).__name__

    assert answer(stack.password, "prefect") == "auth_success"
    for token, subprotocol in ((None, "prefect"), ("wrong", "prefect"), (stack.password, None)):
        assert answer(token, subprotocol) in ("ConnectionClosedError", "ConnectionClosedOK", "InvalidStatus")
    assert answer(stack.password, "prefect", Origin="https://evil.example") == "InvalidStatus"
    assert answer(stack.password, "prefect", Origin="http://127.0.0.1:9") == "InvalidStatus"


def test_the_pages_hold_nothing_of_the_owner(stack: Stack) -> None:
    """Prefect's own pages open before the password is given, so that they can ask for it."""
    answered, settings = request("GET", f"{stack.prefect}/ui-settings")
    assert (answered, json.loads(settings)["auth"], json.loads(settings)["api_url"]) == (200, "BASIC", "/api")
    for path in ("/", "/openapi.json", "/docs", "/ui-settings"):
        answered, content = request("GET", f"{stack.prefect}{path}", timeout_seconds=30.0)
        assert answered in (200, 404)
        for own in (str(stack.home), str(stack.project), stack.password, "touching"):
            assert own.encode() not in content


def test_the_state_folder_is_for_its_owner_alone(stack: Stack) -> None:
    """Also one that was there and open to all before."""
    assert stack.home.stat().st_mode & 0o066 == 0
    files = [path for path in stack.home.rglob("*") if path.is_file() and path.parent != stack.home / "services"]
    kept = [path for path in files if re.search(r"\.(db|log)$", path.name) or path == password_file(stack.home)]
    assert {"prefect.db", "mlflow.db", "worker.log", "password"} <= {path.name for path in kept}
    assert [path for path in kept if path.stat().st_mode & 0o077] == []
    assert [
        path for path in files if path != password_file(stack.home) and stack.password.encode() in path.read_bytes()
    ] == []
    if os.geteuid() == 0:
        for command in (["ls", stack.home], *(["cat", path] for path in (*kept, stack.home / "services" / "s3.json"))):
            done = subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, check=False)
            assert (done.returncode != 0, done.stdout) == (True, b""), command


def test_a_wrong_prefect_yaml_is_the_users_mistake(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "prefect.yaml").write_text(
        "deployments:\n  - {name: x, entrypoint: nowhere.f, work_pool: {name: troupe}}\n"
    )
    with pytest.raises(ConfigurationError, match=r"prefect\.yaml could not be deployed"):
        deploy(stack.state, tmp_path / "prefect.yaml")


def test_down_leaves_nothing_behind(stack: Stack) -> None:
    assert len(ours(stack.home)) >= 4
    assert (stack.project / PREFECT_TOML).exists()
    stopped = troupe("down", stack.home, stack.project).stdout
    assert all(name in stopped for name in ALL)
    assert not (stack.project / PREFECT_TOML).exists()
    assert ours(stack.home) == []
    assert status(stack.home) == StackStatus(home=stack.home)
    assert environment(status(stack.home)).keys() & {"PREFECT_API_AUTH_STRING", "MLFLOW_TRACKING_PASSWORD"} == set()
