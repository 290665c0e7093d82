"""The judges against sandboxes without protection, and every attack against both real ones."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.sandbox.attacks.base import probing, report
from components.sandbox.attacks.catalogue import catalogue, choose_attacks
from components.sandbox.attacks.decoys import Bait, laid_out
from components.sandbox.attacks.grading import exits_as, expect_ended, expect_refused, nothing_left, reasons
from components.sandbox.attacks.runner import GOOD_ANSWER, GOOD_JOB, carry_out
from components.sandbox.base import Sandbox
from components.sandbox.container import open_containers
from components.sandbox.daemon import Daemon
from components.sandbox.pool import BoxPool
from components.schema import ExecutionResult, ExecutionStatus
from tests.components.sandbox.unprotected import OneInterpreterSandbox, UnprotectedSandbox

NOWHERE = Bait(
    secret="TRP-BAIT", file=Path("/nowhere/bait"), addresses=("127.0.0.1",), port=1, unix_socket=Path("/nowhere/bait.sock"),
    abstract_socket="TRP-BAIT", vsock_port=None, hostname="nowhere", pid=1,
)  # fmt: skip
NAMES = [attack.name for attack in catalogue(NOWHERE)]
AS_ROOT = {"rights", "become-root", "priority"}
HARMLESS = [
    "many-processes", "network-connect", "network-interfaces", "unix-sockets", "vsock", "boxes-talk", "host-files",
    "environment", "host-processes", "rights", "become-root", "priority", "other-call-tables", "exec-fresh-interpreter",
    "exec-own-file", "socket-filters", "names-in-a-cycle", "messages-by-locks", "messages-by-watches",
    "tables-of-the-machine", "shadow-modules", "watch-the-neighbour", "odd-result-files", "results-elsewhere", "odd-bytes",
    "wake-the-neighbour-shared", "wake-the-neighbour-private", "wake-by-ending", "counts-of-the-machine",
    "interrupt-all-processors", "core-dumps",
]  # fmt: skip


@pytest.fixture(scope="module")
def bait(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bait]:
    folder = tmp_path_factory.mktemp("bait")
    with laid_out(folder) as found:
        yield found
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_every_attack_fails_on_bubblewrap(bubblewrap_pool: BoxPool, bait: Bait) -> None:
    assert not_held(bubblewrap_pool, bait) == []


@pytest.mark.slow
def test_every_attack_fails_on_docker(daemon: Daemon, state_folder: Path, bait: Bait) -> None:
    pool = open_containers(daemon, num_boxes=2, state_folder=state_folder)
    try:
        assert not_held(pool, bait) == []
    finally:
        pool.close()


def not_held(sandbox: Sandbox, bait: Bait) -> list[str]:
    reports = [carry_out(attack, sandbox) for attack in catalogue(bait)]
    return [f"{each.name}: {each.stopped_by}; next job {each.next_job}" for each in reports if not each.held]


def make_result(
    status: ExecutionStatus = "ok", *, code: int = 0, stdout: str = "", wall: float = 0.1, cpu: float = 0.0
) -> ExecutionResult:
    return ExecutionResult(
        status=status, stdout=stdout, stderr="", exit_code=code, wall_seconds=wall, cpu_seconds=cpu, detail="why"
    )


def make_report(box: str = "a", **found: tuple[bool, str]) -> ExecutionResult:
    return make_result(stdout=json.dumps({"box": box, "found": found}))


def test_every_attack_has_a_name_of_its_own_and_says_what_it_tries() -> None:
    attacks = catalogue(NOWHERE)
    assert len(set(NAMES)) == len(NAMES) >= 60
    assert all(attack.tries and attack.jobs and attack.theme for attack in attacks)
    for attack in attacks:
        for job in (*attack.jobs, *([attack.look] if attack.look else [])):
            if attack.name != "no-programs":
                compile(job.program, attack.name, "exec")


def test_the_same_attack_is_the_same_program() -> None:
    assert [a.jobs for a in catalogue(NOWHERE)] == [a.jobs for a in catalogue(NOWHERE)]


@pytest.mark.parametrize("name", NAMES)
def test_a_program_that_shows_nothing_counts_as_got_through(name: str) -> None:
    (attack,) = choose_attacks(catalogue(NOWHERE), name)
    num_results = len(attack.jobs) + (attack.look is not None)
    assert not attack.judge([make_result()] * num_results).stopped
    assert not attack.judge([make_result(stdout="noise\n{}\n")] * num_results).stopped


@pytest.mark.parametrize("name", HARMLESS)
def test_a_judge_sees_that_nothing_protects(name: str, bait: Bait, tmp_path: Path) -> None:
    if name in AS_ROOT and os.geteuid() != 0:
        pytest.skip("a process without root has not what this attack is after")
    (attack,) = choose_attacks(catalogue(bait), name)
    if name == "vsock" and bait.vsock_port is None:
        pytest.skip("this kernel has no sockets for virtual machines")
    found = carry_out(attack, UnprotectedSandbox(tmp_path))
    assert not found.stopped, found.stopped_by


@pytest.mark.parametrize("name", ["memory-of-the-last-program", "patch-the-interpreter"])
def test_a_judge_sees_that_programs_share_an_interpreter(name: str, bait: Bait, tmp_path: Path) -> None:
    (attack,) = choose_attacks(catalogue(bait), name)
    sandbox = OneInterpreterSandbox(tmp_path)
    try:
        found = carry_out(attack, sandbox)
    finally:
        sandbox.close()
    assert not found.stopped
    assert found.stopped_by.startswith("got through: "), found.stopped_by


def test_the_good_job_is_wrong_where_the_pool_is_damaged(bait: Bait, tmp_path: Path) -> None:
    sound = UnprotectedSandbox(tmp_path)
    (attack,) = choose_attacks(catalogue(bait), "segfault")
    assert carry_out(attack, sound).next_job_ok
    (tmp_path / "math.py").write_text("fsum = lambda numbers: 41.0")
    (tmp_path / "json.py").write_text("dump = lambda value, file: None")
    found = carry_out(attack, sound)
    assert (found.stopped, found.next_job_ok, found.held) == (True, False, False)


def test_a_program_that_breaks_the_sandbox_has_won() -> None:
    class Broken:
        description = UnprotectedSandbox.description

        def run(self, program: str, **_: object) -> ExecutionResult:
            return make_result("sandbox_error")

        def close(self) -> None: ...

    for attack in catalogue(NOWHERE):
        found = carry_out(attack, Broken())  # type: ignore[arg-type]
        assert not found.stopped
        assert not found.next_job_ok


def test_refused_wants_every_attempt_made_and_none_through() -> None:
    judge = expect_refused("a", "b", by=("EPERM", "ENOSYS"), ended=("memory",))
    assert judge([make_report(a=(False, "EPERM"), b=(False, "ENOSYS"))]).stopped
    assert judge([make_report(a=(False, "EPERM"), b=(False, "ENOSYS"))]).by == "EPERM: a; ENOSYS: b"
    assert judge([make_report(a=(False, "EPERM"))]).by == "not tried: b"
    assert judge([make_report(a=(False, "EPERM"), b=(True, "7"))]).by == "got through: b (7)"
    assert judge([make_report(a=(False, "EPERM"), b=(False, "EFAULT"))]).by == "got too far: EFAULT: b"
    assert not judge([make_report(a=(False, "EPERM"), b=(False, "EPERM"), c=(True, "more"))]).stopped
    assert judge([make_result("memory")]).stopped
    assert not judge([make_result("wall_timeout")]).stopped


def test_ended_wants_a_limit_in_time() -> None:
    judge = expect_ended("cpu_timeout", within_seconds=2.0)
    assert judge([make_result("cpu_timeout", wall=1.9)]).stopped
    assert not judge([make_result("cpu_timeout", wall=2.1)]).stopped
    assert not judge([make_result("nonzero_exit", code=1)]).stopped
    assert not expect_ended(within_seconds=2.0)([make_result()]).stopped
    frugal = expect_ended("cpu_timeout", within_seconds=2.0, within_cpu_seconds=1.0)
    assert frugal([make_result("cpu_timeout", cpu=0.9)]).stopped
    assert not frugal([make_result("cpu_timeout", cpu=1.1)]).stopped


def test_nothing_left_tells_the_same_box_from_a_new_one() -> None:
    judge = nothing_left("trace")
    clean, dirty = make_report("a", trace=(False, "ENOENT")), make_report("b", trace=(True, "there"))
    assert "the same box" in judge([make_report("a"), clean]).by
    assert "replaced" in judge([make_report("z"), clean]).by
    assert judge([make_report("a", x=(False, "EPERM")), clean]).by == "at the start: EPERM: x"
    assert judge([make_result("memory"), clean]).stopped
    assert not judge([make_report("a"), clean, dirty]).stopped
    assert not judge([make_report("a"), make_result("nonzero_exit", code=1)]).stopped
    assert not judge([make_report("a")]).stopped


def test_exit_codes_are_the_programs_own() -> None:
    judge = exits_as(9)
    assert judge([make_result("nonzero_exit", code=9)]).stopped
    assert not judge([make_result("nonzero_exit", code=1)]).stopped
    assert not judge([make_result("ok", code=0)]).stopped


def test_reasons_are_short() -> None:
    assert reasons({"mount": "EPERM", "setns": "EPERM", "bpf": "ENOSYS"}) == "EPERM: mount, setns; ENOSYS: bpf"
    assert reasons({str(i): "EPERM" for i in range(40)}).endswith("and 34 more")


def test_a_report_is_the_last_line_and_nothing_else() -> None:
    assert report(make_result(stdout="noise\n" + make_report(a=(True, "x")).stdout + "\n")) is not None
    for text in ("", "[]", "{}", "null", '{"box": "a", "found": [1]}', "x" * 1000, '{"box": "a", "found": {"a": 1}}'):
        assert report(make_result(stdout=text)) is None


def test_probing_tells_what_got_through(tmp_path: Path) -> None:
    program = probing(
        'attempt("good", lambda: A)\nattempt("bad", lambda: os.open("/none", 0))\nnotice("seen", [1])', A=7
    )
    found = report(UnprotectedSandbox(tmp_path).run(program))
    assert found is not None
    assert (found.got, found.refused) == ({"good": "7", "seen": "[1]"}, {"bad": "ENOENT"})


def test_names_and_themes_choose_attacks() -> None:
    attacks = catalogue(NOWHERE)
    assert [attack.name for attack in choose_attacks(attacks, "fork-bomb")] == ["fork-bomb"]
    assert {attack.theme for attack in choose_attacks(attacks, "leaks")} == {"leaks"}
    assert choose_attacks(attacks, None) == attacks
    with pytest.raises(ConfigurationError, match="did you mean 'fork-bomb'"):
        choose_attacks(attacks, "fork-bom")


def test_the_good_answer_is_right() -> None:
    assert float(GOOD_ANSWER) == sum(i * i for i in range(int(GOOD_JOB.stdin)))


def test_a_folder_whose_path_is_too_long_for_a_socket_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "long" / ("x" * 100)
    with pytest.raises(ConfigurationError, match=r"TROUPE_HOME: .* bytes, and the system allows 107"), laid_out(folder):
        pass
