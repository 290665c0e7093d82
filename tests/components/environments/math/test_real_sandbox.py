"""Programs of the tool agent in a real sandbox."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.environments.math.options import MathOptions
from components.environments.play import Playthrough
from components.environments.registry import family
from components.sandbox.backends import open_sandbox
from components.schema import Limits
from components.tool_calls.ledger import ExecutionLedger, ToolSources
from tests.components.environments.math.conftest import playthrough

FAMILY = family("math")
LIMITS = Limits(wall_seconds=3.0, cpu_seconds=0.5, memory_mib=128)


@pytest.fixture(scope="module")
def ledger() -> Iterator[ExecutionLedger]:
    with tempfile.TemporaryDirectory(prefix="troupe-math-") as folder:
        Path(folder).chmod(0o755)  # boxes run as another user, who must get at their file system
        sandbox = open_sandbox("bubblewrap", state_folder=Path(folder), num_boxes=1, limits=LIMITS)
        try:
            yield ExecutionLedger(ToolSources(sandbox=lambda: sandbox, retriever=lambda: None, limits=LIMITS))
        finally:
            sandbox.close()


def env_number(index: int, ledger: ExecutionLedger) -> Playthrough:
    return FAMILY.build(FAMILY.problem(MathOptions(), split="test", index=index, seed=0), ledger)


def test_the_expert_solves_in_the_sandbox(ledger: ExecutionLedger) -> None:
    for index in range(3):
        env = env_number(index, ledger)
        ledger.prepare(env.referee.calls(env.position, "tool_agent", FAMILY.expert_action(env.position, "tool_agent")))
        asked = ledger.num_asked
        for agent in FAMILY.roles:
            env.apply(agent, FAMILY.expert_action(env.position, agent))
        assert env.success
        assert env.done
        assert ledger.num_asked == asked


@pytest.mark.parametrize(
    ("program", "failure"),
    [
        ("while True: pass", "timeout"),  # of the processor, or on a busy machine of the wall
        ("x = [0] * 10**9", "MemoryError"),
        ("print('9' * 10**7)", "output_limit"),
        ("import socket; socket.create_connection(('192.0.2.1', 80), 1)", "nonzero_exit"),
        ("print(", "SyntaxError"),
    ],
)
def test_a_program_that_fails_tells_why_and_earns_nothing(ledger: ExecutionLedger, program: str, failure: str) -> None:
    env = playthrough({**env_number(0, ledger).problem.payload, "max_program_characters": 200}, ledger)
    outcome = env.apply("tool_agent", program)
    assert outcome.local == {"correct": 0.0, "failed": 1.0, "malformed": 0.0}
    run = env.position.state.progress.run
    assert run is not None
    assert failure in run.failure


def test_a_warning_is_no_failure_in_the_sandbox(ledger: ExecutionLedger) -> None:
    env = playthrough({**env_number(0, ledger).problem.payload, "max_program_characters": 200}, ledger)
    program = f"import warnings; warnings.warn('old'); print({env.problem.payload['expression']})"
    assert env.apply("tool_agent", program).local == {"correct": 1.0, "failed": 0.0, "malformed": 0.0}
