"""Runs published agents, unchanged, against the gateway and a scripted policy, in a network that is a loopback alone.

`matrix.py [--faults] [NAME...]` prints a line for each run, and ends with 1 unless all are as they must be.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from components.artifacts.local import LocalArtifactStore
from components.gateway.calls import StoredCalls
from components.gateway.gateway import Gateway, ServedPolicy
from components.gateway.programs import Endpoint, ProgramRunner
from components.gateway.server import Entrance, GatewayServer
from components.gateway.sessions import AgentSession
from tests.components.gateway.clients.fault_proxy import FAULTS, Fault, FaultProxy
from tests.components.gateway.clients.published import ENDS_EARLY, NAMES, make_program
from tests.components.gateway.clients.scripted_policy import ENCODER, TOKENIZER, VERSION, ScriptedPolicy
from tests.components.gateway.clients.two_tools import RUNS

KEY = "the-key-of-this-session"
_ANSWER = re.compile(r"^ANSWER (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run of a client."""

    client: str
    fault: Fault
    dialects: str
    answer: str
    num_requests: int
    num_distinct: int
    """Of the requests, as the client's own words differ."""
    num_nodes: int
    num_sampled: int
    """By the engine."""
    num_extended: int
    num_left: int
    """Times that something was sent beyond the loopback, in all runs of the process."""
    seconds: float

    @property
    def finishes(self) -> bool:
        return "42" in self.answer and "blue" in self.answer

    @property
    def fault_found(self) -> str:
        """What is wrong with it; "" for nothing. A client may fail by its own rule where its connection broke."""
        may_end = self.client in ENDS_EARLY or self.fault in ("before", "within")
        wrong = {
            "it does not finish": not self.finishes and not may_end,
            "nodes are not the distinct calls": not self.num_nodes == self.num_distinct == self.num_sampled,
            "it asks elsewhere": self.num_left > 0,
            "the fault was not met": bool(self.fault) and self.num_requests == self.num_distinct and self.finishes,
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
            began, left = time.monotonic(), count_left()
            places = []
            for number, fault in enumerate(several):
                policy = ScriptedPolicy(seconds=0.2 if fault == "before" else 0.0)
                gateway = serve(policy)
                journal = StoredCalls(LocalArtifactStore(Path(folder) / "store"), f"runs/r/agents/{number}")
                session = AgentSession(name=name, journal=journal)
                server = stack.enter_context(GatewayServer(gateway))
                url = server.listen("127.0.0.1", 0, Entrance.for_one(session, KEY))
                places.append((fault, policy, gateway, session, stack.enter_context(FaultProxy(url, fault))))
            program = make_program(name, [Endpoint(url=place[-1].url, key=KEY) for place in places])
            runner = stack.enter_context(ProgramRunner(Path(folder) / "work"))
            end = runner.run(program, {}, name="agent", endpoint=Endpoint(url=places[0][-1].url, key=KEY))
            answers = [json.loads(each) for each in _ANSWER.findall(end.output)] if name in RUNS else [end.output]
            answers += [f"exit code {end.exit_code}: {end.output[-600:]}"] * (len(places) - len(answers))
            seconds = (time.monotonic() - began) / len(places)
            for answer, (fault, policy, gateway, session, proxy) in zip(answers, places, strict=True):
                yield Row(
                    client=name,
                    fault=fault,
                    dialects="+".join(sorted({path.rpartition("/")[2] for path in proxy.paths})),
                    answer=answer[-600:].strip(),
                    num_requests=len(proxy.paths),
                    num_distinct=proxy.num_distinct,
                    num_nodes=len(session.kept),
                    num_sampled=len(policy.asked),
                    num_extended=gateway.counts.num_extended,
                    num_left=count_left() - left,
                    seconds=round(seconds, 1),
                )


def count_left() -> int:
    """How often the kernel was asked for a way out of this network, and knew none."""
    names, values = (line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Ip:"))
    sixth = dict(line.split() for line in Path("/proc/net/snmp6").read_text().splitlines())
    return int(dict(zip(names, values, strict=True))["OutNoRoutes"]) + int(sixth["Ip6OutNoRoutes"])


def run_apart(name: str, faults: Sequence[Fault]) -> list[Row]:
    """The rows of a client in a network of its own, where names are asked of a server that no way leads to."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as resolver:
        resolver.write("nameserver 192.0.2.1\n")
        resolver.flush()
        apart = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--ro-bind", resolver.name, "/etc/resolv.conf"]
        command = [sys.executable, "-m", __spec__.name, "--inside", json.dumps([name, list(faults)])]
        done = subprocess.run([*apart, *command], stdout=subprocess.PIPE, text=True, timeout=900, check=True)
    return [Row(**json.loads(line)) for line in done.stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--inside")
    given = parser.parse_args()
    if given.inside:
        for row in run_client(*json.loads(given.inside)):
            print(json.dumps(asdict(row)), flush=True)
        return 0
    print(f"{'client':28}{'fault':8}{'dialects':18}{'requests':>9}{'distinct':>9}{'nodes':>6}{'sampled':>8}{'extended':>9}{'left':>5}  s      answer")
    rows = []
    for name in given.names or NAMES:
        for row in run_apart(name, FAULTS if given.faults else FAULTS[:1]):
            rows.append(row)
            counts = f"{row.num_requests:9}{row.num_distinct:9}{row.num_nodes:6}{row.num_sampled:8}{row.num_extended:9}{row.num_left:5}"
            print(f"{row.client:28}{row.fault:8}{row.dialects:18}{counts}  {row.seconds:<6} {row.answer.splitlines()[-1:] } {row.fault_found}", flush=True)
    return 1 if any(row.fault_found for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
