"""Runs published agents, unchanged, against the gateway and a scripted policy, in a network that is a loopback alone.

`matrix.py [--faults] [NAME...]` prints a line for each run, and ends with 1 unless all are as they must be.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from components.artifacts.local import LocalArtifactStore
from components.gateway.calls import StoredCalls, UnkeptCalls
from components.gateway.door import ProgramDoor
from components.gateway.gateway import Gateway, ServedPolicy
from components.gateway.programs import Endpoint, ProgramRunner
from components.gateway.server import Entrance, GatewayServer, Seat
from components.gateway.sessions import AgentSession
from tests.components.gateway.clients.fault_proxy import FAULTS, Fault, FaultProxy
from tests.components.gateway.clients.published import ENDS_EARLY, NAMES, make_program
from tests.components.gateway.clients.scripted_policy import ENCODER, TOKENIZER, VERSION, ScriptedPolicy
from tests.components.gateway.clients.two_tools import RUNS

KEY = "the-key-of-this-session"
_COLUMNS = ("requests", "distinct", "nodes", "sampled", "extended", "left")
_HEAD = f"{'client':28}{'fault':8}{'dialect':12}" + "".join(f"{name:>9}" for name in _COLUMNS) + "  ends with"
_ANSWER = re.compile(r"^ANSWER (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run of a client."""

    client: str
    fault: Fault
    dialects: str
    answer: str
    is_met: bool
    """Whether the fault was, if there is to be one."""
    num_requests: int
    num_distinct: int
    """Of the requests, as the client's own words differ."""
    num_nodes: int
    num_sampled: int
    """By the engine."""
    num_extended: int
    num_left: int
    """Times that something was sent beyond the loopback, by the process of the run."""

    @property
    def finishes(self) -> bool:
        return "42" in self.answer and "blue" in self.answer

    @property
    def line(self) -> str:
        """The row in the table."""
        numbers = (
            self.num_requests,
            self.num_distinct,
            self.num_nodes,
            self.num_sampled,
            self.num_extended,
            self.num_left,
        )
        said = " ".join(self.answer.splitlines()[-1:])
        return (
            f"{self.client:28}{self.fault or '-':8}{self.dialects:12}"
            + "".join(f"{number:9}" for number in numbers)
            + f"  {said[:60]:<60} {self.wrong}"
        ).rstrip()

    @property
    def wrong(self) -> str:
        """What is wrong with it; "" for nothing. A client may fail by its own rule where its connection broke."""
        may_end = self.client in ENDS_EARLY or self.fault == "within"
        wrong = {
            "it does not finish": not self.finishes and not may_end,
            "nodes are not the distinct calls": not self.num_nodes == self.num_distinct == self.num_sampled,
            "it asks elsewhere": self.num_left > 0,
            "the fault was not met": not self.is_met,
        }
        return "; ".join(what for what, holds in wrong.items() if holds)


def serve(policy: ScriptedPolicy) -> Gateway:
    served = ServedPolicy(
        policy="team",
        version=VERSION,
        encoder=ENCODER,
        show_tokens=TOKENIZER.decode_with_specials,
        max_new_tokens=512,
    )
    return Gateway(models={"main": served}, sample=policy.sample, seed=1)


def run_client(name: str, faults: Sequence[Fault]) -> Iterator[Row]:
    """A run for each fault; those of a Python package in one process."""
    for several in [faults] if name in RUNS else [[fault] for fault in faults]:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            left = count_left()
            places = []
            for number, fault in enumerate(several):
                policy = ScriptedPolicy(seconds=0.2 if fault == "before" else 0.0)
                gateway = serve(policy)
                journal = StoredCalls(LocalArtifactStore(Path(folder) / "store"), f"runs/r/agents/{number}")
                session = AgentSession(name=name, journal=journal)
                server = stack.enter_context(GatewayServer(gateway))
                url = server.listen("127.0.0.1", 0, Entrance.for_one(session, KEY))
                places.append(
                    (
                        fault,
                        policy,
                        gateway,
                        session,
                        stack.enter_context(FaultProxy(url, fault, at=name not in ENDS_EARLY)),
                    )
                )
            program = make_program(name, [Endpoint(url=place[-1].url, key=KEY) for place in places])
            runner = stack.enter_context(ProgramRunner(Path(folder) / "work", ProgramDoor(num_at_once=1)))
            end = runner.run(program, {}, Seat(AgentSession(name="agent", journal=UnkeptCalls())))
            answers = [json.loads(each) for each in _ANSWER.findall(end.output)] if name in RUNS else [end.output]
            answers += [f"exit code {end.exit_code}: {end.output[-600:]}"] * (len(places) - len(answers))
            num_left = count_left() - left
            for answer, (fault, policy, gateway, session, proxy) in zip(answers, places, strict=True):
                yield Row(
                    client=name,
                    fault=fault,
                    dialects="+".join(sorted({path.rpartition("/")[2] for path in proxy.paths})),
                    answer=answer[-600:].strip(),
                    is_met=proxy.is_met,
                    num_requests=len(proxy.paths),
                    num_distinct=proxy.num_distinct,
                    num_nodes=len(session.kept),
                    num_sampled=len(policy.asked),
                    num_extended=gateway.counts.num_extended,
                    num_left=num_left if fault == several[0] else 0,
                )


def count_left() -> int:
    """How often the kernel was asked for a way out of this network, and knew none."""
    names, values = (line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Ip:"))
    sixth = dict(line.split() for line in Path("/proc/net/snmp6").read_text().splitlines())
    return int(dict(zip(names, values, strict=True))["OutNoRoutes"]) + int(sixth["Ip6OutNoRoutes"])


def enter_loopback(arguments: Sequence[str]) -> NoReturn:
    """Become this program in a network that is a loopback alone, where names are asked of a server that no way leads to."""
    resolver = Path(tempfile.gettempdir()) / "troupe-no-names.conf"
    resolver.write_text("nameserver 192.0.2.1\n")
    apart = ("bwrap", "--dev-bind", "/", "/", "--unshare-net", "--ro-bind", str(resolver), "/etc/resolv.conf")
    os.execvp(apart[0], (*apart, sys.executable, "-m", __spec__.name, "--inside", *arguments))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--inside", action="store_true")
    given = parser.parse_args()
    if not given.inside:
        enter_loopback(sys.argv[1:])
    print(_HEAD, flush=True)
    rows = []
    for name in given.names or NAMES:
        for row in run_client(name, FAULTS if given.faults else FAULTS[:1]):
            rows.append(row)
            print(row.line, flush=True)
    without = [row for row in rows if not row.fault]
    finished = [row for row in without if row.finishes or row.client in ENDS_EARLY]
    print(f"{len(finished)} of {len(without)} client paths finish")
    for client, why in ENDS_EARLY.items():
        print(f"  {client} is finished after its first call: {why}")
    broken = [row for row in rows if row.fault and not row.finishes and row.client not in ENDS_EARLY]
    own = [f"{row.client} ({row.fault})" for row in broken]
    print(
        f"runs that end with an error, by a client's own rule: {len(own)} of {len(rows) - len(without)}: {', '.join(own)}"
    )
    print(f"answers sampled twice: {sum(row.num_sampled - row.num_distinct for row in rows)}")
    print(f"sent beyond the loopback: {sum(row.num_left for row in rows)}")
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
