"""What a person meets at the command line: help, one clear line for wrong input, exit codes, JSON."""

import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from tests.committed_runs import commit_step, make_ended_run, start_run
from tests.forked_commands import Commands, serving
from tests.recorded_rollouts import candidate, commit_rollouts, episode, node, shard
from tests.waits import lines_without_waits

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = (
    *("presets", "init", "train", "resume", "runs", "show", "verify", "view", "rollouts", "play", "rm", "doctor"),
    *("up", "down", "status", "env", "gc"),
)


def environment(home: Path, **variables: str) -> dict[str, str]:
    """That of a person without local services."""
    foreign = ("PREFECT_", "MLFLOW_", "AWS_", "TROUPE_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return env | {"TROUPE_HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", "COLUMNS": "120", **variables}


def troupe(*arguments: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that has nothing imported."""
    env = environment(home, **variables)
    command = [sys.executable, "-c", "from troupe.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("without-services") / "home"


@pytest.fixture(scope="module")
def commands(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """The command with `home`, its imports shared."""
    with serving(tmp_path_factory.mktemp("commands"), environment(home)) as running:
        yield running


def test_the_version_is_told_at_once_and_loads_no_library(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from troupe.cli import main\n"
        "sys.argv = ['troupe', '--version']\n"
        "try: main()\n"
        "finally: print(*{'torch', 'prefect', 'transformers'} & set(sys.modules), file=sys.stderr)\n"
    )
    ended, cpu_seconds = run_measured(program)
    assert ended.stderr.strip() == "", "imported"
    _, needed_seconds = run_measured("import pydantic, rich.console, typer, yaml")
    assert cpu_seconds < 8 * needed_seconds
    python = re.escape(platform.python_version())
    commit = "(, commit [0-9a-f]{40}(-dirty)?)?"
    assert re.fullmatch(rf"troupe {re.escape(version('troupe'))}{commit}, Python {python}\n", ended.stdout)


def run_measured(program: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """A program in a new Python, and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_names_every_command(tmp_path: Path) -> None:
    shown = troupe("--help", home=tmp_path).stdout
    assert all(f" {command} " in shown for command in COMMANDS)


def test_a_prefect_that_does_not_answer_is_told_with_the_remedy(tmp_path: Path) -> None:
    ended = troupe("train", "tiny", home=tmp_path, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert ended.returncode == 1
    assert "Prefect: http://127.0.0.1:9/api does not answer" in ended.stderr
    assert "troupe up" in ended.stderr
    assert len(lines_without_waits(ended.stderr)) == 1


def test_missing_s3_credentials_are_told_with_the_remedy(commands: Commands) -> None:
    ended = commands.run("runs", "--store", "s3://troupe")
    assert ended.returncode == 1
    assert "no AWS credentials found" in ended.stderr
    assert "for a local S3 server run `troupe up`" in ended.stderr


def test_without_services_and_without_a_store_both_ways_out_are_named(commands: Commands) -> None:
    ended = commands.run("runs")
    assert (ended.returncode, len(lines_without_waits(ended.stderr))) == (1, 1)
    assert "start it with `troupe up`, or name a store with --store" in ended.stderr
    assert "AWS" not in ended.stderr


def test_a_home_that_cannot_be_written_is_one_line() -> None:
    ended = troupe("up", home=Path("/proc/x"))
    assert (ended.returncode, len(lines_without_waits(ended.stderr))) == (2, 1)
    assert "TROUPE_HOME /proc/x: " in ended.stderr


def test_an_expert_and_an_idle_agent_as_json(commands: Commands) -> None:
    for agent, rate in (("expert", 1.0), ("noop", 0.0)):
        ended = commands.run("play", "plan_path", "--agent", agent, "--episodes", "20", "--json")
        document = json.loads(ended.stdout)
        assert set(document) == {"env", "agent", "success_rate", "n", "interval", "mean_reward"}
        assert (document["success_rate"], document["n"]) == (rate, 20)


def test_an_empty_store_has_no_runs_and_nothing_to_collect(commands: Commands, tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    store.probe()
    assert json.loads(commands.run("runs", "--store", f"file://{tmp_path}/store", "--json").stdout) == []
    collected = json.loads(commands.run("gc", "--store", f"file://{tmp_path}/store", "--json").stdout)
    assert collected["num_objects"] == 0


def test_env_without_services_says_what_to_start(commands: Commands) -> None:
    ended = commands.run("env")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "troupe: no local service is up; start them with `troupe up`\n"


def test_status_is_null_where_nothing_runs(commands: Commands) -> None:
    document = json.loads(commands.run("status", "--json").stdout)
    assert document == {"prefect": None, "mlflow": None, "s3": None, "worker": None}


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder below `root`, with when it was written."""
    found = [root, *root.rglob("*")] if root.exists() else []
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}


def test_what_reads_only_reads(commands: Commands, home: Path, tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    run = make_ended_run(store, "r")
    commit_rollouts(store, run, shard(2, 0, episode(node(candidate()))))
    store.put_bytes(b"nobody refers to this", kind="bytes")
    before = snapshot(tmp_path), snapshot(home)
    reading = (["runs"], ["show", "r"], ["view", "r", "--json"], ["gc", "--dry-run", "--grace-hours", "0"], ["status"])
    for command in reading:
        where = [] if command == ["status"] else ["--store", store.uri]
        ended = commands.run(*command, *where)
        assert ended.returncode == 0, ended.stderr
        assert lines_without_waits(ended.stderr) == []
    assert (snapshot(tmp_path), snapshot(home)) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody who may not write")
def test_a_store_that_may_not_be_written_is_read(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    make_ended_run(store, "r")
    for path in [tmp_path, *tmp_path.parents]:
        if path.is_relative_to(tempfile.gettempdir()) and path != Path(tempfile.gettempdir()):
            path.chmod(0o755)
    program = (
        "import os, sys\n"
        "from troupe.runs.documents import run_document, run_rows\n"
        "from components.runs.gc import collect_garbage\n"
        "from components.runs.pipeline import Pipeline\n"
        "from components.runs.verify import verify_run\n"
        "from components.artifacts.local import LocalArtifactStore\n"
        "from components.errors import StoreRefused\n"
        "from pathlib import Path\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "store = LocalArtifactStore(Path(sys.argv[1]))\n"
        "store.check()\n"
        "print(run_rows(store)[0]['state'], run_document(store, 'r')['state'])\n"
        "print(collect_garbage(store, keep_checkpoints=1, grace_seconds=0, dry_run=True).num_kept_objects > 0)\n"
        "print(verify_run(store, 'r').problems[0].key)\n"
        "try: store.probe()\n"
        "except StoreRefused as error: print(error)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "store")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    states, collected, missing, refused = ended.stdout.splitlines()
    assert (states, collected) == ("completed completed", "True")
    assert missing == "runs/r/initial/policies-l0.json", "it was made without a start"
    assert "cannot be written (Permission denied)" in refused
    (tmp_path / "store" / "runs").chmod(0o700)
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert "cannot be read (Permission denied)" in ended.stderr, "a folder that cannot be listed is no empty one"


def test_collecting_says_what_goes_and_what_is_next(commands: Commands, tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    run = start_run(store, "r", num_steps=6)
    (tmp_path / "c").mkdir()
    for step in range(6):
        (tmp_path / "c" / "weights.bin").write_bytes(bytes([step]) * 2**19)
        commit_step(store, run, step, checkpoint=tmp_path / "c")
    arguments = ["gc", "--store", store.uri, "--grace-hours", "0", "--keep", "2"]
    told = commands.run(*arguments, "--dry-run").stdout
    assert "r 4 1 to 4" in " ".join(told.split())
    assert "would go: 8 objects, 2.0 MiB" in told
    assert "next: the same command without --dry-run removes it" in told
    young = commands.run("gc", "--store", store.uri, "--keep", "2").stdout
    assert "removed: 0 objects" in young
    assert "only because they are young: 8 objects, 2.0 MiB; --grace-hours" in young
    document = json.loads(commands.run(*arguments, "--dry-run", "--json").stdout)
    assert (document["num_objects"], document["checkpoints"]) == (8, {"r": [1, 2, 3, 4]})
    assert "removed: 8 objects, 2.0 MiB" in commands.run(*arguments).stdout
    assert "removed: 0 objects, 0.0 MiB" in commands.run(*arguments).stdout


def test_a_damaged_run_is_named_by_every_command(commands: Commands, tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    for run_id in ("sound", "torn"):
        make_ended_run(store, run_id)
    config = tmp_path / "store" / "runs" / "torn" / "config.json"
    config.write_bytes(config.read_bytes()[:100])
    listed = commands.run("runs", "--store", store.uri)
    assert listed.returncode == 0
    assert "torn is damaged: runs/torn/config.json: its 100 bytes are no record" in listed.stdout
    assert "sound" in listed.stdout
    shown = commands.run("show", "torn", "--store", store.uri)
    assert "restore it from a copy" in " ".join(shown.stdout.split())
    assert "damaged  3 of 3 steps" in " ".join(shown.stdout.split("\n")), shown.stdout
    collected = commands.run("gc", "--store", store.uri)
    assert collected.returncode == 1
    (line,) = lines_without_waits(collected.stderr)
    assert line.startswith("troupe: torn is skipped: runs/torn/config.json: ")
    resumed = commands.run("resume", "torn", "--store", store.uri)
    assert resumed.returncode == 1
    assert lines_without_waits(resumed.stderr)[0].startswith(
        "troupe: runs/torn/config.json: its 100 bytes are no record"
    )
