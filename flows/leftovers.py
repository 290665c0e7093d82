"""What killed processes have left on this machine: containers, control groups, scratch folders."""

from contextlib import suppress

from components.errors import ServiceMissing
from components.machine.home import HOME
from components.machine.process_variables import read_variable
from components.machine.scratch import scratch_folder
from components.sandbox import cgroups
from components.sandbox.daemon import running_daemon


def remove_leftovers() -> dict[str, int]:
    """Remove the containers, control groups and scratch folders of dead processes; the numbers of the first two.

    What belongs to a living process stays, so that two trainings on a machine do not disturb each other. A training frees what
    it holds when it ends; this is for after a SIGKILL, and the next sandbox does it, too. Raises
    SandboxUnavailable if a Docker daemon runs and fails.

    **Example** `{"containers": 4, "control_groups": 0}` after a killed training with four boxes.
    """
    scratch_folder()  # removes those of killed processes
    daemon, num_containers = None, 0
    with suppress(ServiceMissing):  # without the SDK there are no containers of ours
        daemon = running_daemon(HOME / "sandbox", read_variable("DOCKER_HOST"))
    if daemon is not None:
        from components.sandbox import reaper
        from components.sandbox.docker_api import DockerApi

        with DockerApi(daemon.host) as api:
            num_containers = reaper.remove_leftovers(api, local=daemon.is_local)
    return {"containers": num_containers, "control_groups": cgroups.remove_leftovers()}
