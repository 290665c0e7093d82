"""Resource cleanup: what killed processes have left on this machine."""

from flows.leftovers import remove_leftovers


def cleanup() -> dict[str, int]:
    """Remove the containers, control groups and scratch folders of dead processes; the numbers of the first two.

    What belongs to a living process stays, so that two trainings on a machine do not disturb each other. A training frees what
    it holds when it ends; this is for after a SIGKILL, and the next sandbox does it, too.

    **Example** `cleanup()` is `{"containers": 4, "control_groups": 0}` after a killed training with four boxes.
    """
    return remove_leftovers()
