"""Resource cleanup: what killed processes have left on this machine."""

from components.errors import ServiceMissing
from components.home import HOME
from components.process_variables import read_variable
from components.sandbox import cgroups
from components.sandbox.daemon import running_daemon
from components.scratch import scratch_folder


def cleanup() -> dict[str, int]:
    """Remove the containers, control groups and scratch folders of dead processes; the numbers of the first two.

    What belongs to a living process stays, so that two trainings on a machine do not disturb each other. A training frees what
    it holds when it ends; this is for after a SIGKILL, and the next sandbox does it, too.
    Raises SandboxUnavailable if a Docker daemon runs and fails.

    **Example** `cleanup()` is `{"containers": 4, "control_groups": 0}` after a killed training with four boxes.
    """
    scratch_folder()  # removes those of killed processes
    return {"containers": _remove_containers(), "control_groups": cgroups.remove_leftovers()}


def _remove_containers() -> int:
    try:
        daemon = running_daemon(HOME / "sandbox", read_variable("DOCKER_HOST"))
    except ServiceMissing:
        return 0  # without the SDK there are no containers of ours
    if daemon is None:
        return 0
    from components.sandbox.docker_api import DockerApi
    from components.sandbox.reaper import remove_leftovers

    with DockerApi(daemon.host) as api:
        return remove_leftovers(api, local=daemon.is_local)
