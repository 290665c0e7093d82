"""Sessions of 40 calls of published agents, killed with SIGKILL and run again until one life goes through.

`kills.py [--volatile PATTERN]... NAME CALL...` kills the agent a random moment after each of these calls, and prints what the
gateway then had sampled, and whether the session has become the one that nobody interrupts.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from components.artifacts.local import LocalArtifactStore
from components.gateway.calls import AgentCall, StoredCalls
from components.gateway.door import ProgramDoor
from components.gateway.programs import Endpoint, ProgramRunner
from components.gateway.server import Entrance, GatewayServer, Seat
from components.gateway.sessions import AgentSession
from tests.components.gateway.clients.fault_proxy import FaultProxy
from tests.components.gateway.clients.matrix import KEY, serve
from tests.components.gateway.clients.published import make_program
from tests.components.gateway.clients.scripted_policy import ScriptedPolicy

NUM_CALLS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """What came of one session. `num_wrong` calls are not what an uninterrupted session has at their place."""

    client: str
    num_lives: int
    num_nodes: int
    num_sampled: int
    num_replayed: int
    num_diverged: int
    num_wrong: int


def live(name: str, kills: Sequence[int], volatile: Sequence[str], folder: Path) -> tuple[Lives, list[AgentCall]]:
    """A session whose agent is killed at these calls, each in a life of its own."""
    policy = ScriptedPolicy(num_calls=NUM_CALLS - 1)
    gateway = serve(policy)
    patterns = tuple(map(re.compile, volatile))
    moments = random.Random(str((name, *kills)))
    with ExitStack() as stack, tempfile.TemporaryDirectory() as records:
        store = LocalArtifactStore(Path(records))
        runner = stack.enter_context(ProgramRunner(folder, ProgramDoor(num_at_once=1)))
        for kill in (*kills, None):
            session = AgentSession(name="s", journal=StoredCalls(store, "runs/r/agents/s"), volatile=patterns)
            seconds = moments.random() / 10

            def note(number: int, kill: int | None = kill, seconds: float = seconds) -> None:
                if number == kill:
                    threading.Timer(seconds, _kill_children).start()

            with GatewayServer(gateway) as server:
                url = server.listen("127.0.0.1", 0, Entrance.for_one(session, KEY))
                with FaultProxy(url, note=note) as proxy:
                    program = make_program(name, [Endpoint(url=proxy.url, key=KEY)])
                    end = runner.run(program, {}, Seat(session))
            assert kill is None or end.exit_code == -9, f"the agent ended before call {kill}: {end.output[-500:]}"
        assert "42 blue" in end.output, end.output[-2000:]
        gateway.end(session)
    lives = Lives(
        client=name,
        num_lives=len(kills) + 1,
        num_nodes=len(session.kept),
        num_sampled=len(policy.asked),
        num_replayed=gateway.counts.num_replayed,
        num_diverged=gateway.counts.num_diverged,
        num_wrong=0,
    )
    return lives, list(session.kept.values())


def _kill_children() -> None:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("kills", nargs="*", type=int)
    parser.add_argument("--volatile", action="append", default=[])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lives, calls = live(given.name, given.kills, given.volatile, Path(folder))
        _, once = live(given.name, (), given.volatile, Path(folder))
    same = sum(_content(a) == _content(b) for a, b in zip(calls, once, strict=False))
    wrong = max(len(calls), len(once)) - same
    print(json.dumps({**asdict(lives), "num_wrong": wrong}), flush=True)
    return 0


def _content(call: AgentCall) -> tuple[object, ...]:
    return call.key, call.tokens, call.logprobs, call.extends


if __name__ == "__main__":
    sys.exit(main())
