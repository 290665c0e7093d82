"""The rows of `troupe doctor` about the sandbox. Starts no daemon."""

from pathlib import Path

from components.errors import TroupeError
from components.sandbox.rootfs import find_or_build_rootfs
from troupe.diagnostics.check import OPTIONAL, Check
from troupe.diagnostics.sandbox import auto_choice, limits_in_force, probe_all, state_folder

NAMES = {"docker": "docker daemon", "bubblewrap": "bubblewrap"}


def sandbox_checks(home: Path) -> list[Check]:
    """The backend that `auto` takes, with its image and limits; then each backend."""
    probes = probe_all(home)
    chosen = auto_choice(probes)
    optional = OPTIONAL if chosen else ""
    rows = [
        Check(name=NAMES[name], ok=each.works, detail=each.detail, remedy=each.remedy and optional + each.remedy)
        for name, each in probes.items()
    ]
    if chosen is None:
        remedies = "; or ".join(each.remedy for each in probes.values())
        sandbox = Check(name="sandbox", ok=False, detail="no backend works: programs are not run", remedy=remedies)
    else:
        sandbox = Check(name="sandbox", ok=True, detail=f"auto takes {chosen}; {_image_and_limits(home)}", remedy="")
    return [sandbox, *rows]


def _image_and_limits(home: Path) -> str:
    try:
        image = f"image {find_or_build_rootfs(state_folder(home))[1][:12]}"
    except (TroupeError, OSError) as error:
        image = f"no image: {error}"
    return "; ".join([image, *(f"{name} {value}" for name, value in limits_in_force().items())])
