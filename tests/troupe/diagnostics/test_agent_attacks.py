"""What a hostile agent tries in its box: nothing gets through, and another session is answered meanwhile."""

import subprocess
import sys
from pathlib import Path

import pytest

from components.sandbox.attacks.agents import TURNS_OF_SPELLED, AgentAttack, Seen, Target, agent_attacks
from components.sandbox.attacks.decoys import laid_out
from components.schema import ExecutionResult
from troupe.diagnostics.agent_attacks import attack_agents

NAMES = [
    *("other-session", "admin-paths", "reward-path", "header-smuggling", "huge-body", "slow-loris"),
    *("many-connections", "stream-abuse", "nul-in-json", "deep-json", "spelled-tokens"),
    *("outside-address", "host-loopback", "socket-file", "forwarder-proc"),
]
TARGET = Target(key="k", socket="/s", question="q", answer="a")
QUIET = Seen(num_other_calls=1, num_other_asked=1, num_turns=())


@pytest.mark.parametrize("name", NAMES)
def test_no_attack_of_an_agent_gets_through(name: str) -> None:
    _, (report,) = attack_agents(name, lambda attack, description: None, lambda report: None)
    assert report.held, report


def end(stdout: str) -> ExecutionResult:
    return ExecutionResult(status="ok", stdout=stdout, stderr="", exit_code=0, wall_seconds=0.0, cpu_seconds=0.0)


def test_judges_see_what_gets_through(tmp_path: Path) -> None:
    """The same program outside of a box reaches the host; one that says nothing, and another's calls, count as got through."""
    with laid_out(tmp_path / "b") as bait:
        attacks: dict[str, AgentAttack] = {each.name: each for each in agent_attacks(bait, TARGET)}
        assert list(attacks) == NAMES
        host = attacks["host-loopback"]
        done = subprocess.run(
            [sys.executable, "-c", host.program], capture_output=True, text=True, check=False, timeout=60
        )
        verdict = host.judge(end(done.stdout), QUIET)
    assert (verdict.stopped, "port at 127.0.0.1" in verdict.by) == (False, True)
    for attack in attacks.values():
        assert not attack.judge(end(""), QUIET).stopped
    silent = attacks["slow-loris"]
    held = end('{"box": "1", "found": {"300 slow requests": [false, "done"]}}')
    assert silent.judge(held, QUIET).stopped
    assert not silent.judge(held, Seen(num_other_calls=2, num_other_asked=1, num_turns=())).stopped
    spelled = attacks["spelled-tokens"]
    for turns in (TURNS_OF_SPELLED, (2, 10, 3)):
        seen = Seen(num_other_calls=1, num_other_asked=1, num_turns=turns)
        assert spelled.judge(end(""), seen).stopped == (turns == TURNS_OF_SPELLED)
