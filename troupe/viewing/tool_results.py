"""The programs that each candidate ran, with their recorded results: the episodes are played again, and nothing is run.

A shard's record knows results by the content of the call and of the sandbox's image, not by candidate.
"""

from collections.abc import Mapping
from pathlib import Path

from components.environments.registry import FAMILIES
from components.machine.home import HOME
from components.sandbox.rootfs import list_built_digests
from components.schema import Limits
from components.session.scenario import scenario_of
from components.tool_calls.tool_runs import ProgramRun, runs_in
from troupe.viewing.recorded import RecordedStep

Runs = Mapping[tuple[int, int, int], tuple[ProgramRun, ...]]
"""By the indices of episode, node and candidate."""


def program_runs(recorded: RecordedStep, *, sandbox_folder: Path = HOME / "sandbox") -> tuple[Runs, tuple[str, ...]]:
    """The programs of the step's candidates, and a note if the record has some that cannot be assigned.

    Results belong to the image in which the programs ran, so only those of an image that a session of the run recorded, or that
    was built in `sandbox_folder`, are found.
    """
    if not any(each.tools.executions for each in recorded.episodes):
        return {}, ()
    name = recorded.config.environment.name
    if name not in FAMILIES:
        return {}, (f"no results of programs: {name} is the run's own environment, whose code is not run here",)
    scenario = scenario_of(recorded.config)
    limits = Limits(**recorded.config.execution.model_dump())
    for image in dict.fromkeys((*recorded.images, *list_built_digests(sandbox_folder))):
        try:
            found = {
                (index, *place): programs
                for index, each in enumerate(recorded.episodes)
                for place, runs in runs_in(
                    each.episode, scenario.family, each.tools, image=image, limits=limits
                ).items()
                if (programs := tuple(run for run in runs if isinstance(run, ProgramRun)))
            }
        except Exception as error:  # the rules of today play what was recorded under those of then
            return {}, (
                f"no results of programs: the episodes cannot be played again ({type(error).__name__}: {error})",
            )
        if found:
            return found, ()
    return {}, (
        "no results of programs: they ran in a sandbox image that no session recorded and that is not here, so that none can "
        "be assigned",
    )
