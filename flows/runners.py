"""Where a flow's submitted tasks run: in threads of this process, or on a Ray cluster."""

import os
import secrets
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from components.cluster.engines import start_engines
from components.cluster.room import read_cluster
from components.config import ResourceConfig, RunConfig, StoreConfig
from components.environments.registry import list_read_files
from components.errors import ConfigurationError, ServiceMissing
from components.generation.vllm.addresses import server_urls, serves_on_cluster
from components.generation.vllm.cluster_servers import NAMESPACE
from components.machine.scratch import socket_folder
from components.machine.sent_folder import SENT_FOLDER
from components.placement.plan import plan
from components.placement.this_machine import uses_gpus
from components.runs.steps import checkpoints_before
from components.session.session import Session
from components.session.stores import store_endpoint
from components.user_code import names_own_code

_RAY_ANSWERS_SECONDS = 3.0
_NODE_ANSWERS_SECONDS = 60.0
_NOT_SENT = (".git", ".venv*", ".troupe", "__pycache__")
_MOST_SENT_BYTES, _MOST_SENT_FILES = 100 << 20, 10_000
"""Of a folder that is sent for the files in it alone."""
_RAY_ELSEWHERE = ("auto", "local")
"""Addresses without a server: Ray is started here, or finds its own."""


def task_runner(config: RunConfig) -> Any:
    """Prefect's task runner for the `resources` of a run. Raises ServiceMissing when prefect-ray is not installed."""
    resources = config.resources
    if resources.runner == "ray":
        try:
            from prefect_ray import RayTaskRunner
        except ImportError as error:
            raise ServiceMissing("resources.runner ray needs prefect-ray: `pip install 'troupe[ray]'`") from error
        return RayTaskRunner(address=resources.ray_address, init_kwargs=_ray_settings(config))
    from flows.prefect_runtime.interruptible_flow import ThreadRunner

    return ThreadRunner(max_workers=resources.max_shards_at_once + resources.max_updates_at_once)


def _ray_settings(config: RunConfig) -> dict[str, Any]:
    """Keyword arguments of `ray.init`: what tasks and actors find around them. A cluster that it starts makes sockets below a
    folder with a short path.

    The current folder travels by its digest if it is to (see `_sends_folder`), and is theirs, too.
    """
    address, here = config.resources.ray_address, Path.cwd()
    # Beside other work shards would stand still: Ray makes its workers the nicest processes of a host.
    around: dict[str, Any] = {"env_vars": {**_sent_variables(), "RAY_worker_niceness": "0"}}
    if _sends_folder(config, here):
        around["env_vars"][SENT_FOLDER] = str(here)
        around |= {"working_dir": str(here), "excludes": list(_NOT_SENT)}
    settings: dict[str, Any] = {"namespace": NAMESPACE, "runtime_env": around}
    if address in (None, "local") and "RAY_ADDRESS" not in os.environ and "RAY_TMPDIR" not in os.environ:
        settings["_temp_dir"] = str(socket_folder("troupe-ray") / "ray")  # which Ray opens to everybody
    return settings


def _sends_folder(config: RunConfig, here: Path) -> bool:
    """Whether the current folder holds code that the configuration names, or files, and is small enough to be sent for them."""
    return names_own_code(config.model_dump(mode="json"), here) or (
        any(path.is_relative_to(here) for path in _list_read_files(config, here)) and _is_small(here)
    )


def _list_read_files(config: RunConfig, here: Path) -> tuple[Path, ...]:
    return list_read_files(config.environment.name, config.environment.options, here)


def _is_small(folder: Path) -> bool:
    num_bytes = num_files = 0
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if not any(fnmatch(name, pattern) for pattern in _NOT_SENT)]
        num_files += len(names)
        for name in names:
            with suppress(FileNotFoundError):  # removed meanwhile
                num_bytes += os.lstat(os.path.join(place, name)).st_size
        if num_files > _MOST_SENT_FILES or num_bytes > _MOST_SENT_BYTES:
            return False
    return True


def _sent_variables() -> dict[str, str]:
    """The S3 endpoint for workers on other hosts, and whether a cluster is named, whose records are checked. Credentials are
    not sent: hosts have their own."""
    names = ("RAY_ADDRESS", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION")
    return {name: os.environ[name] for name in names if name in os.environ}


@contextmanager
def one_cluster(session: Session) -> Iterator[None]:
    """Within the block this process is connected to one Ray cluster, if the run uses Ray; all its flows share it. Actors of
    the session end with the block that connects.

    Raises ConfigurationError if a host of the cluster cannot see the run's store, or cannot reach its services, or if there is
    no room for the run's workers; ServiceMissing if one that plays programs in boxes can make none.
    """
    config = session.config
    if config.resources.runner != "ray":
        yield
        return
    runner = task_runner(config)
    import ray

    connects = not ray.is_initialized()
    with join_cluster(runner, (ray.exceptions.RayError, RuntimeError, ValueError, OSError)):
        check_hosts(config.store)
        check_addresses(config)
        check_boxes(session)
        check_files(config)
        if uses_gpus(config):
            plan(config, read_cluster())
        try:
            yield
        finally:
            if connects:
                session.trainers.close()


@contextmanager
def join_cluster(runner: Any, refusals: tuple[type[Exception], ...]) -> Iterator[None]:
    """Within the block the runner is open, and SIGTERM does what it did before: Ray would take it when it connects.

    Raises ServiceMissing for any of `refusals` when it is opened.
    """
    before = signal.getsignal(signal.SIGTERM)
    with ExitStack() as opened:
        try:
            opened.enter_context(runner)
        except refusals as error:
            raise ServiceMissing(
                f"resources.runner ray: Ray does not let this process in: {error}; look at `ray status`, at the token "
                "(RAY_AUTH_TOKEN), and, if it holds code of yours, at the size of the current folder"
            ) from error
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)
        yield


@contextmanager
def ask_cluster(session: Session) -> Iterator[None]:
    """Within the block tasks ask the connected cluster for what a shard needs: a GPU for an engine of its process, and a node
    for boxes (with a resource `boxes`) if the environment runs programs, or is played by some, and the cluster has such
    nodes."""
    config = session.config
    import ray
    from prefect_ray.context import remote_options

    samples_itself = config.generation.device == "cuda" and not config.generation.has_servers
    has_boxes = "boxes" in ray.cluster_resources()  # type: ignore[no-untyped-call]
    has_programs = session.toolbox.runs_programs or session.scenario.family.is_played_by_programs
    resources = {"boxes": 1} if has_boxes and has_programs else {}
    with remote_options(num_gpus=1 if samples_itself else 0, resources=resources):
        yield


def start_engines_on_cluster(session: Session) -> None:
    """Start the run's vLLM servers on the connected cluster, if they are to be there and are not; they end with its actors."""
    run = session.run
    if serves_on_cluster(run.config, os.environ):
        session.trainers.keep("engines", lambda: start_engines(run, checkpoints_before(session.store, run, 0)))


def check_hosts(store: StoreConfig) -> None:
    """Check that every host of the connected cluster sees a local `store`. Raises ConfigurationError with the hosts that do
    not, and ServiceMissing if one does not answer."""
    if store.kind != "local":
        return
    root = Path(str(store.root)).absolute()
    root.mkdir(parents=True, exist_ok=True)
    mark = root / f".seen-{secrets.token_hex(8)}"
    mark.touch()
    try:
        blind = hosts_without(mark)
    finally:
        mark.unlink()
    if blind:
        raise ConfigurationError(
            f"store.root {store.root!r}: {', '.join(blind)} of the Ray cluster cannot see this folder; use an S3 store "
            "(store.kind=s3), or a folder that all hosts share under one path"
        )


def hosts_without(path: Path) -> list[str]:
    """The other hosts of the connected cluster on which `path` does not exist."""
    return [host for host, sees in ask_other_hosts(os.path.exists, str(path)).items() if not sees]


def check_files(config: RunConfig) -> None:
    """Check that every other host of the connected cluster has the files that the environment reads. Raises ConfigurationError
    with the first that is missing, the hosts, and the remedy."""
    here = Path.cwd()
    is_sent = _sends_folder(config, here)
    for path in _list_read_files(config, here):
        if not (is_sent and path.is_relative_to(here)) and (blind := hosts_without(path)):
            raise ConfigurationError(
                f"environment.options: {path} is not on {', '.join(blind)} of the Ray cluster; put it into the current folder, "
                f"which is sent if it has at most {_MOST_SENT_BYTES >> 20} MiB, or there under the same path"
            )


def check_addresses(config: RunConfig) -> None:
    """Check that every other host of the connected cluster reaches Prefect, the store and the run's vLLM servers.

    Raises ConfigurationError with the first address that is not reached, the hosts, and the remedy.
    """
    from prefect.settings import PREFECT_API_URL

    places = {"Prefect": PREFECT_API_URL.value(), "the store": store_endpoint(config.store)}
    if config.generation.has_servers and not serves_on_cluster(config, os.environ):
        places |= {f"vLLM server {number}": url for number, url in enumerate(server_urls(config, os.environ))}
    for name, url in places.items():
        if url is None:
            continue
        blind = [host for host, why in ask_other_hosts(find_outage, url).items() if why]
        if blind:
            raise ConfigurationError(
                f"resources.runner ray: {name} at {url} cannot be reached from {', '.join(blind)}; start it on an address that "
                "all hosts of the cluster reach (docs/hosts.md), and name that one"
            )


def check_boxes(session: Session) -> None:
    """Check that the hosts of the connected cluster that play programs in boxes have bubblewrap. Raises ServiceMissing with
    those that have not, and the remedy."""
    scenario = session.scenario
    program = scenario.family.first_program(scenario.options, seed=session.config.seed)
    if program is None or not (session.config.sandbox.agents == "box" or program.box is not None):
        return
    nodes = _list_nodes()
    with_boxes = [node for node in nodes if "boxes" in node["Resources"]]
    if bare := [host for host, found in _ask(with_boxes or nodes, shutil.which, "bwrap").items() if found is None]:
        raise ServiceMissing(
            f"sandbox.agents box: {', '.join(bare)} of the Ray cluster cannot make boxes; `apt-get install -y bubblewrap` "
            "there, or start the other hosts with the resource boxes (docs/hosts.md)"
        )


def find_outage(url: str) -> str | None:
    """Why nothing answers at the host and port of `url`; None if something does."""
    parsed = urlsplit(url)
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    try:
        socket.create_connection((parsed.hostname or "", port), timeout=_RAY_ANSWERS_SECONDS).close()
    except OSError as error:
        return str(error)
    return None


def ask_other_hosts(question: Callable[[str], Any], argument: str) -> dict[str, Any]:
    """What `question(argument)` gives on each other host of the connected cluster. Raises ServiceMissing if one is silent."""
    here = socket.gethostname()
    return _ask([node for node in _list_nodes() if node["NodeManagerHostname"] != here], question, argument)


def _list_nodes() -> list[dict[str, Any]]:
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node for node in nodes if node["Alive"]]


def _ask(nodes: Sequence[dict[str, Any]], question: Callable[[str], Any], argument: str) -> dict[str, Any]:
    import ray
    from ray.exceptions import GetTimeoutError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ask = ray.remote(num_cpus=0)(question)
    answers = [
        ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(argument)
        for node in nodes
    ]
    try:
        found = ray.get(answers, timeout=_NODE_ANSWERS_SECONDS)
    except GetTimeoutError as error:
        raise ServiceMissing(
            f"resources.ray_address: a node of the cluster has not answered for {_NODE_ANSWERS_SECONDS:.0f} s; look at "
            "`ray status`"
        ) from error
    names = [str(node["NodeManagerHostname"]) for node in nodes]
    return dict(sorted(zip(names, found, strict=True)))


def check_ray(resources: ResourceConfig) -> None:
    """Check that the configured Ray cluster can be reached. Raises ConfigurationError or ServiceMissing."""
    address = resources.ray_address
    if resources.runner != "ray" or address is None or address in _RAY_ELSEWHERE:
        return
    host, port = _host_and_port(address)
    try:
        with socket.create_connection((host, port), timeout=_RAY_ANSWERS_SECONDS):
            return
    except OSError as error:
        raise ServiceMissing(
            f"resources.ray_address {address!r}: nothing answers there ({error}); start it with `ray start --head`, or leave "
            "the address out to start Ray here"
        ) from error


def _host_and_port(address: str) -> tuple[str, int]:
    """**Example** "ray://head:10001" is ("head", 10001), "10.0.0.5:6379" is ("10.0.0.5", 6379)."""
    try:
        parsed = urlsplit(address if "://" in address else f"//{address}")
        host, port = parsed.hostname, parsed.port
    except ValueError:
        host = port = None
    if not host or not port or parsed.scheme not in ("", "ray"):
        raise ConfigurationError(f"resources.ray_address {address!r}: write ray://host:port, host:port or auto")
    return host, port
