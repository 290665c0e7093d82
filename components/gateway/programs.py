"""Runs the programs of agents, each in a folder of its own: commands as processes, functions in processes that are kept."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from components.environments.program import AgentBox, AgentProgram
from components.errors import ConfigurationError
from components.gateway.door import ProgramDoor
from components.gateway.server import Seat
from components.identity import fingerprint
from components.machine.child_environment import filter_environment, without_proxy
from components.machine.closeable import Closeable
from components.machine.held_file import hold_file
from components.machine.process_ids import ProcessId, process_of
from components.machine.process_variables import read_variables
from components.machine.program_folder import MAX_OUTPUT_BYTES, read_outputs, write_files
from components.sandbox.base import MODULES, AgentBoxes, AgentJob
from components.schema import ProgramEnd
from components.user_code import find_source_places

OpenBoxes = Callable[[], AgentBoxes]
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a program finds the policies, and the key of its session."""

    url: str
    key: str

    @property
    def variables(self) -> dict[str, str]:
        """As the SDKs of OpenAI and Anthropic read it."""
        names = {"BASE_URL": (f"{self.url}/v1", self.url), "API_KEY": (self.key, self.key)}
        return {f"{sdk}_{name}": values[number] for name, values in names.items() for number, sdk in enumerate(_SDKS)}


_SDKS = ("OPENAI", "ANTHROPIC")
_FUNCTION_COMMAND = (sys.executable, "-m", "components.gateway.function_process")


class ProgramRunner(Closeable):
    """Runs programs below `folder`, or in boxes: those that ask for one, or all with `boxes_all`. Outside of boxes the
    processes of functions are kept, and ended by `close`."""

    def __init__(
        self, folder: Path, door: ProgramDoor, *, open_boxes: OpenBoxes | None = None, boxes_all: bool = False
    ) -> None:
        self._folder = folder
        self._door = door
        self._open_boxes = open_boxes
        self._boxes_all = boxes_all
        self._idle: dict[str, SimpleQueue[_FunctionProcess]] = {}
        self._all: list[_FunctionProcess] = []

    def run(self, program: AgentProgram, problem: Mapping[str, Any], seat: Seat) -> ProgramEnd:
        """The end of a program that has asked from its seat. Raises ConfigurationError for one that cannot be started."""
        problem = problem if program.shown is None else program.shown
        if self._is_boxed(program):
            with self._door.open_socket(seat) as socket:
                return self._boxes.run(_make_job(program, problem, Endpoint(url=self._boxes.url, key="none")), socket)
        with self._make_folder(fingerprint(seat.session.name), program, problem) as folder:
            if program.function:
                code, output = self._call(program, problem, folder, seat)
            else:
                endpoint = Endpoint(url=self._door.url, key=_make_key())
                with self._door.admit(seat, endpoint.key):
                    code, output = _run_command(program, folder, _make_variables(folder, program, endpoint))
            return ProgramEnd(exit_code=code, output=output, files=read_outputs(folder, program.outputs))

    def check_box(self, program: AgentProgram) -> None:
        """Start a box, if the program runs in one. Raises ServiceMissing with the remedy, and SandboxUnavailable."""
        if self._is_boxed(program):
            self._boxes.check()

    def _is_boxed(self, program: AgentProgram) -> bool:
        return self._boxes_all or program.box is not None

    @cached_property
    def _boxes(self) -> AgentBoxes:
        """The boxes. Raises ServiceMissing, with the remedy."""
        assert self._open_boxes is not None, "a program asks for a box where none can be opened"
        return self._open_boxes()

    def close(self) -> None:
        """End the processes, and stop listening."""
        self._door.close()
        for process in self._all:
            process.end()
        self._all.clear()
        self._idle.clear()

    @contextmanager
    def _make_folder(self, name: str, program: AgentProgram, problem: Mapping[str, Any]) -> Iterator[Path]:
        """A folder that has the same path in each life of an agent: paths stand in prompts. Who plays an equal episode at the
        same time, here or in another process, waits for it."""
        folder = self._folder / name
        self._folder.mkdir(parents=True, exist_ok=True)
        with hold_file(folder.with_suffix(".turn")):
            _end_left(_name_note(folder))
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                try:
                    write_files(folder, _list_files(program, problem))
                except ValueError as error:
                    raise ConfigurationError(f"program().files: {error}") from error
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                _name_note(folder).unlink(missing_ok=True)

    def _call(
        self, program: AgentProgram, problem: Mapping[str, Any], folder: Path, seat: Seat
    ) -> tuple[int | None, str]:
        idle = self._idle.setdefault(program.function, SimpleQueue())
        try:
            process = idle.get_nowait()
        except Empty:
            process = _FunctionProcess(program.function, Endpoint(url=self._door.url, key=_make_key()))
            self._all.append(process)
        variables = _make_variables(folder, program, process.endpoint)
        with self._door.admit(seat, process.endpoint.key):
            answer = process.call(problem, folder, variables, seconds=program.seconds)
        if process.is_usable:
            idle.put(process)
        else:
            process.end()
            self._all.remove(process)
        return answer


class _FunctionProcess:
    """A process that calls one function, one problem after another. Its endpoint is the same for all of them: a client that
    the function's module opens once serves them all."""

    def __init__(self, function: str, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.is_usable = True
        """Whether it can be called again."""
        self._function = function
        inherited = filter_environment(read_variables())
        self._process = subprocess.Popen(
            [*_FUNCTION_COMMAND, function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            env={**inherited, **without_proxy(inherited), **_find_modules(), **endpoint.variables},
        )
        self._answers: SimpleQueue[str] = SimpleQueue()
        Thread(target=self._read, daemon=True, name="agent-function").start()

    def call(
        self, problem: Mapping[str, Any], folder: Path, variables: Mapping[str, str], *, seconds: float
    ) -> tuple[int | None, str]:
        """The exit code and output of one call. Raises ConfigurationError for a function that cannot be imported."""
        assert self._process.stdin is not None
        self.is_usable = False
        _note_process(folder, self._process.pid)
        job = {"problem": problem, "folder": str(folder), "variables": dict(variables)}
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=seconds)
        except BrokenPipeError:
            line = ""
        except Empty:
            return None, f"ended after {seconds:g} s"
        if not line:
            return self._process.wait(_END_SECONDS), f"the process of {self._function} ended"
        code, output = json.loads(line)
        if code is None:
            raise ConfigurationError(str(output))
        self.is_usable = True
        return int(code), str(output)[-MAX_OUTPUT_BYTES:]

    def end(self) -> None:
        """End it with all that it has started."""
        _end_group(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # closed while it was read
            for line in self._process.stdout:
                self._answers.put(line)
        self._answers.put("")


def _make_key() -> str:
    return secrets.token_urlsafe(24)


def _make_job(program: AgentProgram, problem: Mapping[str, Any], endpoint: Endpoint) -> AgentJob:
    """What runs in a box. A function has a process of its own there: a box is one session's."""
    box = program.box or AgentBox()
    modules = find_source_places("program().function", program.function) if program.function else ()
    own = {"NO_PROXY": "127.0.0.1", **(_find_modules(MODULES) if program.function else {})}
    return AgentJob(
        command=program.command or (*_FUNCTION_COMMAND, program.function, "once"),
        variables={**own, **endpoint.variables, **program.variables},
        files=_list_files(program, problem),
        outputs=program.outputs,
        seconds=program.seconds,
        reads=box.reads,
        modules=modules,
        memory_mib=box.memory_mib,
        disk_mib=box.disk_mib,
        num_processes=box.num_processes,
        num_cpus=box.num_cpus,
    )


def _list_files(program: AgentProgram, problem: Mapping[str, Any]) -> dict[str, str]:
    return {"problem.json": json.dumps(problem), **program.files}


def _find_modules(first: str | None = None) -> dict[str, str]:
    """The variable with which a process finds the modules that this one finds, those in `first` before others."""
    return {"PYTHONPATH": os.pathsep.join((first or str(Path.cwd()), *sys.path))}


def _run_command(program: AgentProgram, folder: Path, variables: Mapping[str, str]) -> tuple[int | None, str]:
    with (folder.parent / f"{folder.name}.out").open("w+b") as output:
        try:
            process = subprocess.Popen(
                program.command,
                cwd=folder,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigurationError(
                f"program().command {' '.join(program.command)[:200]!r} cannot be started ({error}); name an installed program"
            ) from error
        try:
            _note_process(folder, process.pid)
            code: int | None = process.wait(program.seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_group(process)
        output.seek(max(0, output.seek(0, os.SEEK_END) - MAX_OUTPUT_BYTES))
        text = output.read().decode(errors="replace")
    Path(output.name).unlink(missing_ok=True)
    return code, text


def _name_note(folder: Path) -> Path:
    return folder.with_suffix(".process")


def _note_process(folder: Path, pid: int) -> None:
    """Note who runs in a folder, which outlives this process if that is killed."""
    with suppress(ProcessLookupError):
        _name_note(folder).write_text(str(process_of(pid)), encoding="utf-8")


def _end_left(note: Path) -> None:
    """End the program of an earlier life that was killed: it would write into the folder of this one."""
    with suppress(FileNotFoundError, ProcessLookupError):
        left = ProcessId.parse(note.read_text(encoding="utf-8"))
        if left is not None and process_of(left.pid) == left:
            os.killpg(left.pid, signal.SIGKILL)


def _end_group(process: subprocess.Popen[Any]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _make_variables(folder: Path, program: AgentProgram, endpoint: Endpoint) -> dict[str, str]:
    """The whole environment of a program, without the user's credentials."""
    inherited = filter_environment(read_variables())
    own = {"HOME": str(folder), "TMPDIR": str(folder), "TZ": "UTC", "PYTHONHASHSEED": "0"}
    return {**inherited, **without_proxy(inherited), **own, **endpoint.variables, **program.variables}
