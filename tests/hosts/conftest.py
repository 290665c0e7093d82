"""A cluster of hosts that share nothing but S3, on one machine: namespaces, SeaweedFS, Prefect and Ray."""

import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import boto3
import pytest

ROOT = Path(__file__).resolve().parents[2]
NODES = Path(__file__).with_name("nodes.sh")
REQUIRED = bool(os.environ.get("TROUPE_TEST_HOSTS"))
"""Where it is set, a test fails rather than be skipped for want of namespaces."""
CAN = os.getuid() == 0 and all(map(shutil.which, ("ip", "unshare", "nsenter")))
NODES_STATE = Path(os.environ.get("NODES_STATE", "/run/troupe-nodes"))
COMPILED = (
    "import prefect.server.api.server, prefect_ray, ray.dashboard.agent, ray.scripts.scripts, ray._private.log_monitor; "
    "import ray._private.runtime_env.agent.main, components.cluster.engine_actor, components.cluster.rank_actor, flows.train"
)
LOCK = Path("/run/troupe-nodes.lock")
HEAD, S3 = "10.77.0.10", "10.77.0.20"
DETECTION_SECONDS = 3 * (1.0 + 4.0)
"""After how long Ray calls a host dead, by the variables below."""
KEYS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests-secret"}
S3_CONFIG = {
    "identities": [
        {
            "name": "tests",
            "credentials": [{"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}
WEED = (
    f"weed -logtostderr=false server -dir=/tmp/s3 -ip={S3} -ip.bind={S3} -filer -s3 -s3.port=8333 -s3.config=/tmp/s3.json "
    "-s3.port.iceberg=0 -s3.port.lance=0 -master.telemetry=false -master.volumeSizeLimitMB=64 -volume.max=0"
)


def open_s3() -> Any:
    """A client of the hosts' S3, from here."""
    return boto3.client(
        "s3",
        endpoint_url=f"http://{S3}:8333",
        region_name="us-east-1",
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
    )


class Hosts:
    """The hosts by name. Commands run in them with the environment of a cluster's node."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._started: list[subprocess.Popen[bytes]] = []
        self.numbers: dict[str, int] = {}
        """The workers by name, and the last part of their address."""
        self.environment = {
            **KEYS,
            "AWS_ENDPOINT_URL_S3": f"http://{S3}:8334",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "PREFECT_API_URL": f"http://{HEAD}:4200/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
            "PYTHONPATH": str(ROOT),
            "TROUPE_HOME": "/tmp/home/troupe",
            "OMP_NUM_THREADS": "1",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(24),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_timeout_ms": "4000",
            "RAY_health_check_failure_threshold": "3",
            "RAY_grpc_client_keepalive_time_ms": "5000",
            "RAY_grpc_client_keepalive_timeout_ms": "5000",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
        }

    def up(self, name: str, number: int) -> None:
        """One more host."""
        subprocess.run([NODES, "up", name, str(number)], check=True)

    def run(
        self, name: str, command: str, *, seconds: float = 600.0, env: Mapping[str, str] = {}
    ) -> subprocess.CompletedProcess[str]:
        """A command on a host, to its end."""
        return subprocess.run(
            self._line(name, command, env), capture_output=True, text=True, timeout=seconds, check=False
        )

    def start(self, name: str, command: str) -> subprocess.Popen[bytes]:
        """A command on a host, left running."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(self._line(name, command), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._started.append(process)
        return process

    def write(self, name: str, path: str, text: str) -> None:
        """A file on a host."""
        line = [NODES, "in", name, "sh", "-c", f"mkdir -p $(dirname {path}) && cat > {path}"]
        subprocess.run(line, input=text, text=True, check=True)

    def join(self, name: str, number: int, *, num_cpus: int = 2) -> None:
        """One more host that is a node of the cluster. Ray believes that it has four GPUs."""
        self.numbers[name] = number
        if not self.is_up(name):
            self.up(name, number)
        address = f"--address={HEAD}:6379 --node-ip-address=10.77.0.{number} --num-cpus={num_cpus} --num-gpus=4"
        self._ray(name, address)

    def processes(self, name: str) -> dict[int, str]:
        """The command lines of a host's processes, by their pids on this machine; not that of its first one."""
        found: dict[int, str] = {}
        if not self.is_up(name):
            return found
        first = self._pid(name)
        space = os.readlink(f"/proc/{first}/ns/pid")
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.readlink(path / "ns/pid") == space and path.name != first:
                    found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def file(self, name: str, path: str) -> Path:
        """A file of a host, as this machine sees it."""
        return Path(f"/proc/{self._pid(name)}/root{path}")

    def cut_power(self, name: str) -> None:
        """End a host without a word to any other."""
        self.set_link(name, "down")
        subprocess.run([NODES, "kill", name], check=True)

    def set_link(self, name: str, state: str) -> None:
        """Take a host's network `down` or `up`."""
        subprocess.run(["ip", "link", "set", f"tr{name}", state], check=True)

    def lose_packets(self, name: str, share: float) -> None:
        """Lose this share of what a host gets from now on, and of what it sends; 0: none."""
        lost = ["-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP"]
        for chain in ("INPUT", "OUTPUT"):
            command = ["ip", "netns", "exec", f"tr-{name}", "iptables"]
            subprocess.run([*command, "-F", chain], check=True)
            if share:
                subprocess.run(
                    [*command, "-A", chain, "!", "-i" if chain == "INPUT" else "-o", "lo", *lost], check=True
                )

    def signal_all(self, name: str, number: signal.Signals) -> None:
        """Send a signal to all processes of a host but its first."""
        for pid in self.processes(name):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def begin_head(self) -> None:
        """Start Ray's head."""
        self._ray("head", f"--head --node-ip-address={HEAD} --port=6379 --num-cpus=0 --include-dashboard=false")

    def end_ray(self, name: str) -> None:
        """Kill what of Ray runs on a host, workers included."""
        for pid, line in self.processes(name).items():
            if line.startswith("ray::") or "/ray/" in line:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def wait_for_answer(self, url: str, seconds: float = 300.0) -> None:
        """Until something answers there, be it a refusal."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                urlopen(url, timeout=5).close()
            except HTTPError:
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    def begin(self) -> None:
        """Start S3, Prefect and Ray's head."""
        self.up("s3", 20)
        self.write("s3", "/tmp/s3.json", json.dumps(S3_CONFIG))
        self.start("s3", f"mkdir -p /tmp/s3; {WEED}")
        self.start("s3", f"python -m tests.hosts.s3_program {S3} 8333 8334")
        self.up("head", 10)
        self.start("head", "prefect server start --host 10.77.0.10 --no-services")
        self.wait_for_answer(f"http://{S3}:8333")
        self.wait_for_answer(f"http://{HEAD}:4200/api/health")
        open_s3().create_bucket(Bucket="troupe")
        self.begin_head()

    def end(self) -> None:
        """End all hosts with all that runs on them."""
        subprocess.run([NODES, "down"], check=False)
        for process in self._started:
            process.wait(30)

    def is_up(self, name: str) -> bool:
        """Whether there is such a host now."""
        return (NODES_STATE / name).exists()

    def _pid(self, name: str) -> str:
        return (NODES_STATE / name).read_text().strip()

    def _ray(self, name: str, options: str) -> None:
        # Into a file: what it starts keeps its output open. A raylet gives up if its agents take more than 15 seconds to start.
        start = f"ray start {options} --object-store-memory=80000000 > /tmp/ray.log 2>&1"
        for _ in range(4):
            done = self.run(
                name, f"RAY_raylet_start_wait_time_s=25 {start}; code=$?; tail -20 /tmp/ray.log; exit $code"
            )
            if done.returncode == 0:
                return
            self.end_ray(name)
        raise AssertionError(done.stdout)

    def _line(self, name: str, command: str, env: Mapping[str, str] = {}) -> list[str]:
        pairs = [f"{key}={value}" for key, value in {**self.environment, **env}.items()]
        return [str(NODES), "in", name, "env", *pairs, "sh", "-c", command]


@contextmanager
def run_hosts(folder: Path) -> Iterator[Hosts]:
    """S3, Prefect and the head of a cluster; what is left of an earlier time is ended first."""
    with LOCK.open("w", encoding="utf-8") if CAN else nullcontext() as lock:
        if lock is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the bridge has one name on a machine: two suites take turns
        yield from _run_alone(folder)


def _run_alone(folder: Path) -> Iterator[Hosts]:
    can = CAN and subprocess.run([NODES, "down"], check=False).returncode == 0
    if not can or subprocess.run([NODES, "up", "probe", "99"], check=False).returncode:
        assert not REQUIRED, "hosts are namespaces: they need root, and ip, unshare and nsenter (iproute2, util-linux)"
        pytest.skip("hosts are namespaces: they need root, and ip, unshare and nsenter")
    subprocess.run([NODES, "down"], check=True)
    hosts = Hosts(folder / "hosts.log")
    # Hosts see the source tree, its Python included, and cannot write there: each process would compile these anew.
    subprocess.run(
        [sys.executable, "-c", COMPILED], cwd=ROOT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""}, check=True
    )
    try:
        hosts.begin()
        yield hosts
    finally:
        hosts.end()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Two workers beside the head, with two processors each."""
    with run_hosts(tmp_path_factory.mktemp("hosts")) as found:
        found.join("w1", 11)
        found.join("w2", 12)
        yield found
