"""Boxes for agents: programs with a network of their own that leads to one session's socket, for minutes, by bubblewrap.

The box sees the system's programs, the interpreter of this process and what an agent may read, all read-only, and one file
system in memory that it may write. Nothing of it is on the disk, and nothing outlives the process that made it.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from pydantic import Field, StrictInt, StrictStr, ValidationError

from components.errors import ConfigurationError, SandboxUnavailable, ServiceMissing
from components.frozen import Frozen
from components.machine import program_folder
from components.machine.program_folder import MAX_OUTPUT_BYTES
from components.machine.whole_files import write_whole
from components.sandbox import agent_runner, confinement
from components.sandbox.agent_runner import ADDRESS, HOME, PORT, SOCKET, STAGE
from components.sandbox.base import MODULES, AgentJob, SandboxDescription
from components.sandbox.box import BOX_UID, MASKED, BoxGone, BoxLimits, BoxOutOfMemory
from components.sandbox.box_root import DEVICES, mounted_root
from components.sandbox.bubblewrap import BubblewrapBox
from components.sandbox.cgroups import Cgroup, find_cgroups, remove_leftovers
from components.sandbox.protocol import cut_pieces, encode_frame, split_payload
from components.sandbox.seccomp import encode_filter
from components.sandbox.users import can_choose_users, in_words, next_box_uid
from components.schema import ProgramEnd

URL = f"http://{ADDRESS}:{PORT}"
"""Where an agent finds the policies, in every box."""
VARIABLES = {
    "HOME": str(HOME),
    "LANG": "C.UTF-8",
    "LOGNAME": "agent",
    "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "TMPDIR": "/tmp",
    "TZ": "UTC",
    "USER": "agent",
}
NUM_FILES = 1 << 17
START_SECONDS = 30.0
LATE_SECONDS = 15.0
"""How much later than its agent a box may answer."""
_CODE = Path("/run/box")
_TEXTS = {
    "passwd": f"root:x:0:0:root:/:/none\nagent:x:{BOX_UID}:{BOX_UID}:agent:{HOME}:/bin/sh\n",
    "group": f"root:x:0:\nagent:x:{BOX_UID}:\n",
    "hosts": "127.0.0.1 localhost box\n",
    "resolv.conf": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FILES = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl", "/etc/pki", "/etc/ca-certificates")
_OWN_PLACES = ("/dev", "/proc", "/run", "/sys", "/tmp", str(HOME))


class _Answer(Frozen):
    """The header of an answer. A box may lie."""

    exit_code: StrictInt | None = Field(ge=-64, le=255)
    sizes: list[StrictInt]
    files: list[StrictStr]


class BubblewrapAgents:
    """`AgentBoxes` by bubblewrap. `state_folder` holds a few files that all boxes read."""

    url = URL

    def __init__(self, state_folder: Path, *, bwrap: str = "bwrap") -> None:
        """Raises ServiceMissing, with the remedy, if bubblewrap is not installed."""
        program = shutil.which(bwrap)
        if program is None:
            raise ServiceMissing(
                f"{bwrap} is not installed, and agents in boxes need it: `apt-get install -y bubblewrap`"
            )
        remove_leftovers()
        self._program = program
        self._folder = state_folder / "agents"
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, text in _TEXTS.items():
            write_whole(self._folder / name, text)
            (self._folder / name).chmod(0o644)
        self._cgroups = find_cgroups()

    @property
    def description(self) -> SandboxDescription:
        """What holds for every box."""
        kept_by = (
            f"control groups, version {self._cgroups.version}" if self._cgroups else "resource limits, for each process"
        )
        limits = {
            "network": "a loopback that leads to one socket",
            "user": in_words(own=can_choose_users()),
            "kept by": kept_by,
        }
        return SandboxDescription(backend="bubblewrap", image_digest="this machine's", num_boxes=1, box_limits=limits)

    def check(self) -> None:
        """Start a box. Raises ServiceMissing with the remedy, or SandboxUnavailable, where none can be had."""
        nothing = self._folder / "hosts"  # no socket is needed to start
        job = AgentJob(
            command=("true",),
            variables={},
            files={},
            outputs=(),
            seconds=START_SECONDS,
            reads=(),
            memory_mib=128,
            disk_mib=1,
            num_processes=8,
            num_cpus=1.0,
        )
        end = self.run(job, nothing)
        if end.exit_code != 0:
            raise SandboxUnavailable(f"sandbox.agents box: a box ended with {end.exit_code}: {end.output[-200:]}")

    def run(self, job: AgentJob, socket: Path) -> ProgramEnd:
        """The end of an agent. Raises ConfigurationError for one that cannot be started, ServiceMissing or SandboxUnavailable
        when there is no box."""
        with ThreadPoolExecutor(1, thread_name_prefix="agent-box") as thread:  # which has mounts of its own
            return thread.submit(self._run, job, socket).result()

    def _run(self, job: AgentJob, socket: Path) -> ProgramEnd:
        cgroup = self._cgroups.make(_limit(job)) if self._cgroups else None
        uid = next_box_uid() if can_choose_users() else BOX_UID
        try:
            with mounted_root(self._list_places(job, socket)) as root:
                box = BubblewrapBox([*self._argv(root, job, cgroup)], cgroup=cgroup, uid=uid)
        except BaseException:
            if cgroup is not None:
                cgroup.remove()
            raise
        with closing(box):
            try:
                payload = box.ask(_encode(job), timeout_seconds=job.seconds + LATE_SECONDS)
            except BoxOutOfMemory:
                return ProgramEnd(exit_code=None, output=f"the box's {job.memory_mib} MiB of memory were used up")
            except BoxGone as error:
                return ProgramEnd(exit_code=None, output=f"the box ended: {error}")
        return _decode(payload, job)

    def _list_places(self, job: AgentJob, socket: Path) -> dict[str, str]:
        """What a box sees, read-only: by place, a folder or file of this machine, or the target of a link after "->"."""
        places = {}
        for each in _SYSTEM:
            if os.path.islink(each):
                places[each] = f"->{os.readlink(each)}"
            elif os.path.isdir(each):
                places[each] = each
        own = [sys.base_prefix, sys.prefix, *filter(os.path.exists, _SYSTEM_FILES)]
        places |= {each: each for each in [*own, *_check_readable(job)]}
        places |= {f"{MODULES}/{Path(each).name}": each for each in job.modules}
        places |= {f"/etc/{name}": str(self._folder / name) for name in _TEXTS}
        for module in (agent_runner, confinement, program_folder):
            place = "agent_runner.py" if module is agent_runner else f"{module.__name__.replace('.', '/')}.py"
            places[str(_CODE / place)] = str(module.__file__)
        places |= dict.fromkeys(("/dev", "/proc", "/sys", "/tmp", str(HOME), str(STAGE)), "")
        return {**places, SOCKET: str(socket)}

    def _argv(self, root: Sequence[str], job: AgentJob, cgroup: Cgroup | None) -> Iterator[str]:
        yield from (self._program, "--unshare-all", "--unshare-user", "--uid", str(BOX_UID), "--gid", str(BOX_UID))
        yield from ("--die-with-parent", "--new-session", "--as-pid-1", "--hostname", "box", "--clearenv")
        for name, value in VARIABLES.items():
            yield from ("--setenv", name, value)
        yield from (*root, "--proc", "/proc", "--tmpfs", "/dev")
        for device in DEVICES:
            yield from ("--dev-bind", f"/dev/{device}", f"/dev/{device}")
        for path in filter(os.path.exists, MASKED):
            covered = ["--tmpfs", path, "--remount-ro", path]
            yield from (covered if os.path.isdir(path) else ["--ro-bind", "/dev/null", path])
        for number, stream in enumerate(("stdin", "stdout", "stderr")):
            yield from ("--symlink", f"/proc/self/fd/{number}", f"/dev/{stream}")
        yield from ("--symlink", "/proc/self/fd", "/dev/fd", "--dir", "/dev/shm", "--remount-ro", "/dev")
        yield from ("--tmpfs", "/sys", "--remount-ro", "/sys", "--remount-ro", "/", "--chdir", "/")
        # To mount what may be written and to clear the bounding set; process 1 drops both before the agent starts.
        yield from ("--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP", "--")
        settings = {"filter": encode_filter(for_agents=True), "disk_mib": job.disk_mib, "num_files": NUM_FILES}
        if cgroup is None:
            settings |= {"num_processes": job.num_processes, "memory_mib": job.memory_mib}
        yield from (os.path.realpath(sys.executable), "-s", str(_CODE / "agent_runner.py"), json.dumps(settings))


def _limit(job: AgentJob) -> BoxLimits:
    return BoxLimits(memory_mib=job.memory_mib, num_processes=job.num_processes, num_cpus=job.num_cpus)


def _check_readable(job: AgentJob) -> list[str]:
    """What an agent may read: what it says, and the files that its command names."""
    for each in job.reads:
        path = os.path.abspath(each)
        if not os.path.exists(path):
            raise ConfigurationError(f"program().box.reads {each!r}: there is no such file or folder")
        if any(path == own or path.startswith(f"{own}/") for own in _OWN_PLACES) or path == "/":
            raise ConfigurationError(
                f"program().box.reads {each!r}: a box has its own {', '.join(_OWN_PLACES)}; put it elsewhere, or into "
                "program().files"
            )
    named = [each for each in job.command if os.path.isabs(each) and os.path.isfile(each)]
    return [*map(os.path.abspath, job.reads), *(each for each in named if not each.startswith(_OWN_PLACES))]


def _list_program_folders(job: AgentJob) -> list[str]:
    """Where the programs of an environment may be that an agent reads."""
    places = (os.path.join(os.path.abspath(each), inner) for each in job.reads for inner in ("bin", ".bin", ""))
    return [place.rstrip("/") for place in places if os.path.isdir(place)]


def _encode(job: AgentJob) -> bytes:
    texts = [text.encode("utf-8", "surrogatepass") for text in job.files.values()]
    header = {
        "command": job.command,
        "variables": {**VARIABLES, "PATH": ":".join([*_list_program_folders(job), VARIABLES["PATH"]]), **job.variables},
        "files": list(job.files),
        "sizes": [len(text) for text in texts],
        "outputs": job.outputs,
        "seconds": job.seconds,
    }
    return encode_frame(header, *texts)


def _decode(payload: bytes, job: AgentJob) -> ProgramEnd:
    """The end that a box tells. Raises ConfigurationError for files or a command that a box cannot hold."""
    try:
        header, body = split_payload(payload)
    except BoxGone as error:
        raise SandboxUnavailable(f"an agent's box failed: {str(error)[:200]}") from error
    if "misplaced" in header:
        raise ConfigurationError(f"program().files: {str(header['misplaced'])[:200]}")
    if "unstartable" in header:
        raise ConfigurationError(
            f"program().command {' '.join(job.command)[:200]!r} cannot be started in a box "
            f"({str(header['unstartable'])[:200]}); name an installed program, or its folder in program().box.reads"
        )
    try:
        answer = _Answer.model_validate(header)
        if not set(answer.files) <= set(job.outputs) or any(
            not 0 <= size <= 3 * MAX_OUTPUT_BYTES for size in answer.sizes
        ):
            raise BoxGone("files that were not asked for")
        output, *files = (piece.decode(errors="replace") for piece in cut_pieces(body, answer.sizes))
    except (BoxGone, ValidationError, ValueError) as error:
        raise SandboxUnavailable(f"an agent's box told nonsense: {str(error)[:200]}") from error
    return ProgramEnd(exit_code=answer.exit_code, output=output, files=dict(zip(answer.files, files, strict=True)))
