"""Programs in boxes play as they play outside, and leave nothing."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from components.environments.program import AgentBox, AgentProgram
from components.errors import ConfigurationError, ServiceMissing
from components.gateway.door import ProgramDoor
from components.gateway.programs import ProgramRunner
from components.gateway.server import Seat
from components.sandbox.agent_box import BubblewrapAgents
from components.schema import ProgramEnd
from tests.components.gateway import agent_programs
from tests.components.gateway.test_gateway import Kept, Scripted, open_gateway, open_session
from tests.components.gateway.test_play import RULES, make_starts, play, walk_with

ASK = """
import openai
client = openai.OpenAI(max_retries=2, timeout=%s)
print(client.chat.completions.create(model="main", messages=[{"role": "user", "content": "hello"}]).choices[0].message.content)
"""
FACTS = """
import os, pathlib, time
print(os.getcwd(), os.environ["HOME"], os.uname().nodename, time.tzname[0], os.getuid(), sorted(os.listdir("/")))
print(sorted(each for each in os.listdir("/proc") if each.isdigit()) <= ["1", "2", "3"])
"""


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> BubblewrapAgents:
    return BubblewrapAgents(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module")
def boxed(tmp_path_factory: pytest.TempPathFactory, boxes: BubblewrapAgents) -> Iterator[ProgramRunner]:
    with ProgramRunner(
        tmp_path_factory.mktemp("unused"), ProgramDoor(num_at_once=1), open_boxes=lambda: boxes, boxes_all=True
    ) as made:
        yield made


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProgramRunner]:
    with ProgramRunner(tmp_path_factory.mktemp("programs"), ProgramDoor(num_at_once=1)) as made:
        yield made


def run(boxed: ProgramRunner, script: str, engine: Any = None, **also: Any) -> ProgramEnd:
    """The end of a script at a gateway of its own."""
    program = AgentProgram(**{"command": ("python", "a.py"), "files": {"a.py": script}, "seconds": 60.0, **also})
    gateway = open_gateway(engine or Scripted())
    return boxed.run(program, {"n": 5}, Seat(open_session(journal=Kept()), gateway))


def test_a_program_in_a_box_plays_the_same_episodes(boxed: ProgramRunner, trusted: ProgramRunner) -> None:
    (outside, prompts), (inside, same) = walk_with(trusted, 3), walk_with(boxed, 3)
    assert (inside, same) == (outside, prompts)
    assert sum(len(episode.nodes) for episode in inside) > 3


def test_forks_in_boxes_are_those_outside(
    boxed: ProgramRunner, trusted: ProgramRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program's own module lies below /tmp, as what Ray brings to its workers does; a box has a /tmp of its own."""
    shutil.copy(agent_programs.__file__, tmp_path / "own_programs.py")
    monkeypatch.chdir(tmp_path)
    rules, found = replace(RULES, branching=(2, 1)), []
    for runner in (trusted, boxed):
        engine = Scripted()
        episodes = play(runner, make_starts(1, num_rounds=1, module="own_programs"), engine, rules=rules)
        found.append((episodes, [each.seeds_K for each in engine.asked]))
    assert found[0] == found[1]
    ((episode,), asked) = found[1]
    assert [len(node.candidates) for node in episode.nodes] == [1, 1, 2, 1, 1]
    assert len(asked) == 5, "no call before the fork is sampled again"


def test_a_box_looks_the_same_everywhere_and_shows_nothing_of_the_host(boxed: ProgramRunner) -> None:
    end = run(boxed, FACTS, variables={"OWN": "1"}, outputs=("out.txt", "link.txt"))
    place, *rest = end.output.splitlines()
    assert place.startswith("/home/agent /home/agent box UTC 65534 [")
    assert not {"'var'", "'boot'"} & set(place.replace(",", "").split())
    assert rest == ["True"]
    script = "import os, sys; open('out.txt', 'w').write('left'); os.symlink('/etc/passwd', 'link.txt'); sys.exit(3)"
    end = run(boxed, script, outputs=("out.txt", "link.txt", "absent.txt"))
    assert (end.exit_code, end.output, end.files) == (3, "", {"out.txt": "left"})


def test_a_flood_a_hang_and_a_hunger_end_with_their_box(boxed: ProgramRunner) -> None:
    end = run(boxed, "print('x' * 3_000_000 + 'end')")
    assert (len(end.output), end.output[-4:]) == (64 << 10, "end\n")
    hang = "import os, time; print('begun', flush=True); os.fork(); time.sleep(600)"
    end = run(boxed, hang, seconds=3.0)
    assert (end.exit_code, end.output) == (None, "begun\nbegun\n"[: len(end.output)])
    small = AgentBox(memory_mib=192, disk_mib=32, num_processes=16)
    assert run(boxed, "x = bytearray(1 << 30); print(len(x))", box=small).exit_code != 0
    end = run(boxed, "open('/tmp/x', 'wb').write(bytes(64 << 20))", box=small)
    assert "No space left on device" in end.output
    end = run(
        boxed, "import os\nfor _ in range(99):\n    if os.fork() == 0:\n        import time; time.sleep(60)", box=small
    )
    assert "Resource temporarily unavailable" in end.output


def test_programs_of_a_folder_that_an_agent_reads_are_found_first(boxed: ProgramRunner) -> None:
    with TemporaryDirectory(dir=Path.cwd()) as name:  # a box has a /tmp of its own
        for place, program in (("env/bin", "python"), ("node_modules/.bin", "pi"), ("tool", "do-it")):
            (Path(name) / place).mkdir(parents=True)
            (Path(name) / place / program).write_text(f"#!/bin/sh\necho own {program}\n")
            (Path(name) / place / program).chmod(0o755)
        box = AgentBox(reads=tuple(f"{name}/{each}" for each in ("env", "node_modules", "tool")))
        for program in ("python", "pi", "do-it"):
            assert run(boxed, "", command=(program,), box=box).output == f"own {program}\n"


class GivenUp(Scripted):
    """Is slow once; whether its client was still there is seen by what is asked."""

    def sample(self, policy: str, request: Any) -> Any:
        found = super().sample(policy, request)
        if len(self.asked) == 1:
            time.sleep(4.0)
        return found


def test_the_gateway_sees_through_the_box_who_gave_up(boxed: ProgramRunner) -> None:
    """So a client that asks again gets the answer that it did not wait for: one is sampled, not two."""
    engine = GivenUp()
    script = (
        "import httpx, openai, os, time\n"
        "ask = lambda seconds: httpx.post(os.environ['OPENAI_BASE_URL'] + '/chat/completions', timeout=seconds,"
        " json={'model': 'main', 'messages': [{'role': 'user', 'content': 'q'}]})\n"
        "try:\n    ask(1.0)\nexcept httpx.ReadTimeout:\n    print('gave up')\n"
        "time.sleep(5)\nprint(ask(60).status_code)\n"
    )
    assert run(boxed, script, engine).output == "gave up\n200\n"
    assert len(engine.asked) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"command": ("no-such-program",)}, "cannot be started in a box"),
        ({"files": {"../x": ""}}, "outside of the program's folder"),
        ({"box": AgentBox(reads=("/no/such/folder",))}, "'/no/such/folder': there is no such file"),
        ({"box": AgentBox(reads=("/tmp",))}, "a box has its own /dev"),
    ],
)
def test_what_a_box_cannot_hold_is_named(boxed: ProgramRunner, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        run(boxed, "", **changes)


def test_a_machine_without_bubblewrap_is_told_the_remedy(tmp_path: Path, boxes: BubblewrapAgents) -> None:
    boxes.check()
    with pytest.raises(ServiceMissing, match="apt-get install -y bubblewrap"):
        BubblewrapAgents(tmp_path, bwrap="no-such-bwrap")


def test_a_killed_host_leaves_no_box_behind(tmp_path: Path) -> None:
    mark = f"agent-{os.getpid()}-{time.time_ns()}"
    code = (
        "import sys; from pathlib import Path; from components.sandbox.agent_box import BubblewrapAgents, AgentJob\n"
        f"job = AgentJob(command=('sh', '-c', 'sleep 300; echo {mark}'), variables={{}}, files={{}}, outputs=(), seconds=300,"
        " reads=(), memory_mib=256, disk_mib=8, num_processes=16, num_cpus=1)\n"
        f"boxes = BubblewrapAgents(Path({str(tmp_path)!r})); boxes.run(job, Path('/etc/hosts'))"
    )
    host = subprocess.Popen([sys.executable, "-c", code])

    def find() -> list[psutil.Process]:
        return [
            each
            for each in psutil.process_iter(["cmdline"])
            if mark in " ".join((each.info["cmdline"] or [])[:3]) and each.pid != host.pid
        ]

    try:
        wait_until(lambda: bool(find()))
    finally:
        host.send_signal(signal.SIGKILL)
        host.wait()
    wait_until(lambda: not find())


def wait_until(holds: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
