"""The vLLM servers that a run has on the connected Ray cluster, found by the names of their actors."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.generation.vllm.fleet import Servers

NAMESPACE = "troupe"
"""Of all named actors."""
ASK_GROUP = "ask"
"""The concurrency group of calls that are answered while a server starts."""
_ANSWERS_SECONDS = 20.0
_LOOKS_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterServer:
    """A server that is up: its address, the node that it is on, and the bearer token of its clients."""

    url: str
    node: str
    key: str


def name_engine(run_id: str, model: str, number: int) -> str:
    """The name of the actor beside a replica's server."""
    return f"{run_id}/engine/{model}/{number}"


def list_actors(prefix: str) -> Mapping[str, Any]:
    """The living actors whose names begin with `prefix`, by name; none without a connection to a cluster."""
    import ray

    if not ray.is_initialized():
        return {}  # a call would start a Ray here
    found = ray.util.list_named_actors(all_namespaces=True)
    names = [each["name"] for each in found if each["namespace"] == NAMESPACE and each["name"].startswith(prefix)]
    actors = {}
    for name in sorted(names):
        try:
            actors[name] = ray.get_actor(name, NAMESPACE)
        except ValueError:
            continue  # it has ended since
    return actors


def find_servers(run_id: str, model: str) -> tuple[ClusterServer, ...]:
    """The servers of a model of a run that are up."""
    import ray
    from ray.exceptions import RayError

    actors = list_actors(name_engine(run_id, model, 0)[:-1])
    found = []
    for call in [each.describe.options(concurrency_group=ASK_GROUP).remote() for each in actors.values()]:
        try:
            answer = ray.get(call, timeout=_ANSWERS_SECONDS)
        except RayError:
            continue  # its host is lost
        if answer is not None:
            found.append(ClusterServer(**answer))
    return tuple(found)


def wait_for_servers(run_id: str, model: str, seconds: float) -> tuple[ClusterServer, ...]:
    """The servers that are up once there is one, as the run starts lost ones anew; none after so many seconds without."""
    deadline = time.monotonic() + seconds
    while not (found := find_servers(run_id, model)) and time.monotonic() < deadline:
        time.sleep(_LOOKS_SECONDS)
    return found


def spell_servers(servers: Sequence[ClusterServer]) -> Servers:
    """Their addresses; those of this node are near."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    near = frozenset(server.url for server in servers if server.node == here)
    return Servers(urls=tuple(server.url for server in servers), near=near)
