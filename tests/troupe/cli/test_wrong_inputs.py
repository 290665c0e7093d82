"""Wrong command lines, each told in one line that names the field, its value and what helps, before anything is started."""

import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.preflight.checks import imitates_bfloat16
from tests.forked_commands import Commands, Ended, serving
from tests.waits import lines_without_waits

ROOT = Path(__file__).resolve().parents[3]
MOST_CPU_SECONDS = 12.0 if imitates_bfloat16() else 5.0
"""Of one command with all its processes; more on the slower kinds of processor, which have no instructions for bfloat16."""
RUN_NAME = "use 1 to 63 of a-z, 0-9"
NO_BASE = 'use "tiny", "smollm2-135m", the path of a model folder, or a hub name'
OUR_WAYS = "name a store with --store"
LONG = "a" * 300
"""Longer than file systems take."""

WRONG: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    # The command line ({store} is an empty store's address), the exit code, what the line names.
    ("trian tiny", 2, ("'trian'", "Did you mean 'train'?", "see `troupe --help`")),
    ("nosuchcommand", 2, ("no such command 'nosuchcommand'", "see `troupe --help`")),
    ("sandbox nothing", 2, ("no such command 'nothing'", "see `troupe sandbox --help`")),
    ("doctor extra", 2, ("doctor: ", "extra argument(s) (extra)", "see `troupe doctor --help`")),
    ("show", 2, ("missing argument 'run'", "see `troupe show --help`")),
    ("train", 2, ("missing argument 'PRESET|FILE.yaml'", "see `troupe train --help`")),
    ("init", 2, ("missing argument 'name'", "see `troupe init --help`")),
    ("init a-b", 2, ("NAME 'a-b'", "use up to 63 of a-z, 0-9 and _")),
    ("init ../../etc", 2, ("NAME '../../etc'", "use up to 63 of a-z, 0-9 and _")),
    ("init class", 2, ("NAME 'class'", "use up to 63 of a-z, 0-9 and _")),
    ("init torch", 2, ("NAME 'torch'", "Python has a module of this name", "choose another name")),
    ("init tasks", 2, ("NAME 'tasks'", "Python has a module of this name", "choose another name")),
    ("init tiny", 2, ("NAME 'tiny'", "Troupe has a preset or an environment", "choose another name")),
    ("try nothing.yaml", 2, ("no file nothing.yaml here", "`troupe presets`")),
    ("try hybrid-tiny", 2, ("hybrid: its player presses buttons", "`troupe try` is for policies that write")),
    ("train nothing.yaml", 2, ("no file nothing.yaml here", "`troupe presets`")),
    ("train prefect.yaml", 2, ("prefect.yaml holds deployments", "in its folder name one of its presets: plan-path, ")),
    (
        "train tiny --set environment.name=nowhere:Guess",
        2,
        ("environment.name 'nowhere:Guess'", "no module 'nowhere'", "install"),
    ),
    (
        "train tiny --set environment.name=json:loads",
        2,
        ("environment.name 'json:loads'", "no subclass of troupe.Environment"),
    ),
    (
        "train tiny --set algorithm.advantage=grop",
        2,
        ("algorithm.advantage: unknown", "did you mean 'grpo'?", "(got 'grop')"),
    ),
    (
        "train tiny --set loss.policy_loss=gpso",
        2,
        ("loss.policy_loss: unknown", "did you mean 'gspo'?", "(got 'gpso')"),
    ),
    (
        "train tiny --set loss.policy_loss=nowhere:loss",
        2,
        ("loss.policy_loss 'nowhere:loss'", "no module 'nowhere'", "install"),
    ),
    (
        "train tiny --set rewards.functions=[json:loads]",
        2,
        ("rewards.functions 'json:loads'", "json/__init__.py:", "is called as loads(episode, node)"),
    ),
    (
        "play math --agent noop --set dataset=custom",
        2,
        ("train_source: put your own questions in a file", "as mine.jsonl"),
    ),
    ("train tiny extra", 2, ("train: ", "extra argument(s) (extra)", "see `troupe train --help`")),
    (
        "train tiny --set rollout.group_size=4 rollout.num_problems=2",
        2,
        ("extra argument(s) (rollout.num_problems=2)", "write --set before each", "see `troupe train --help`"),
    ),
    ("train tiny --sett a.b=c", 2, ("no such option: --sett", "--set,", "see `troupe train --help`")),
    ("train tiny --steps", 2, ("'--steps' requires an argument", "--help`")),
    ("train tiny --steps -1", 2, ("'--steps'", "greater than or equal to 0 (got '-1')", "see `troupe train --help`")),
    ("train tiny --steps few", 2, ("'--steps'", "valid integer", "(got 'few')", "see `troupe train --help`")),
    ("train plan-pth", 2, ("preset 'plan-pth'", "did you mean 'plan-path'?", "presets: plan-path, ")),
    ("train tiny --set rollout.group_sise=4", 2, ("rollout.group_sise: unknown key", "did you mean 'group_size'?")),
    ("train tiny --set rollout.group_size=1", 2, ("rollout.group_size: ", "greater than or equal to 2 (got 1)")),
    ("train tiny --set rollout.group_size=many", 2, ("rollout.group_size: ", "valid integer", "(got 'many')")),
    ("train tiny --set rollout", 2, ("--set 'rollout'", "write it as key=value")),
    ("train tiny --set =1", 2, ("--set '=1'", "write it as key=value")),
    ("train tiny --set seed.x=1", 2, ("--set 'seed.x=1'", "'seed' holds a value", "set it as seed=")),
    ("train tiny --set seed=[1", 2, ("--set 'seed=[1'", "'[1' is not a YAML value", "close brackets")),
    ("train tiny --set 'policies={a: {}, a: {}}'", 2, ("'a' stands here and in line 1",)),
    ("train tiny --set preset=!!timestamp", 2, ("'timestamp' is no kind of value",)),
    ("evaluate expert --suite plan_path --set environment.options=size=6", 2, ("environment.options",)),
    ("train tiny --set training.max_grad_norm=.inf", 2, ("training.max_grad_norm", "a finite number (got inf)")),
    (f"train {LONG}", 2, (f"preset '{LONG}' does not exist",)),
    (f"train {LONG}.yaml", 2, (f"no file {LONG}.yaml here",)),
    (f"train tiny --set algorithm.advantage={LONG}:f", 2, ("write it as module:Name",)),
    (f"train tiny --set environment.name={LONG}:F", 2, ("write it as module:Name",)),
    (f"train tiny --set policies.team.base={LONG}", 2, ("policies.team.base", NO_BASE)),
    (f"runs --store {{store}}{LONG}", 2, ("--store", "there is no such directory")),
    ("train tiny --run-id 'No Spaces'", 2, ("run_id 'No Spaces'", RUN_NAME)),
    ("train tiny --run-id ../../etc", 2, ("run_id '../../etc'", RUN_NAME)),
    ("train tiny --run-id ''", 2, ("run_id ''", RUN_NAME)),
    ("train tiny --set environment.name=chess", 2, ("environment.name 'chess'", "did you mean 'code'?")),
    ("train tiny --set environment.options.sise=5", 2, ("environment.options.sise", "(got 5)", "did you mean 'size'?")),
    ("train tiny --set environment.options.size=1", 2, ("environment.options.size", "or equal to 3 (got 1)")),
    (
        "train tiny --set agents.judge.policy=team",
        2,
        ("agents: ['judge', ", "['plan_agent', 'tool_agent']; name these"),
    ),
    ("train tiny --set agents.tool_agent.policy=nobody", 2, ("agents.tool_agent.policy 'nobody'", "are ['team']")),
    ("train tiny --set policies.spare.base=tiny", 2, ("policies ['spare']", "remove them or name them in agents")),
    ("train tiny --set algorithm.advantage=grpo", 2, ("algorithm.advantage grpo", "set rollout.mode to independent")),
    ("train tiny --set rollout.overlap=one_step", 2, ("rollout.overlap one_step", "set loss.importance_cap")),
    ("train tiny --set policies.team.base=/no/such/model", 2, ("policies.team.base '/no/such/model'", NO_BASE)),
    ("train tiny --set policies.team.base=no-such-owner/model", 2, ("base 'no-such-owner/model'", NO_BASE)),
    ("train tiny --set generation.device=cuda", 1, ("generation.device is cuda", "set generation.device=cpu")),
    ("train tiny --set training.device=cuda", 1, ("training.device is cuda", "set training.device=cpu")),
    (
        "train tiny --set tracking.kind=wandb",
        2,
        ("tracking.kind: ", "use mlflow, none, or a tracker of your own", "(got 'wandb')"),
    ),
    (
        "train tiny --set tracking.url=ftp://127.0.0.1",
        2,
        ("tracking.url: ", "http:// or https://", "'ftp://127.0.0.1'"),
    ),
    ("train tiny --set tracking.url=http://me:secret@127.0.0.1", 2, ("tracking.url: ", "no user", "://…@127.0.0.1'")),
    ("train tiny --set store.kind=local", 2, ("store: kind local needs root", "the directory that holds")),
    ("train tiny --set store.kind=local --set store.root=/proc/x", 1, ("store.root /proc/x", "name a folder that")),
    ("train tiny --store ftp://x", 2, ("--store 'ftp://x'", "write file:///absolute/path or s3://")),
    ("train tiny --store {store} --set store.prefix=x", 2, ("--set store.prefix=x and --store", "leave one of them")),
    ("train tiny --set resources.runner=ray --set resources.ray_address=head", 2, ("'head'", "write ray://host:port")),
    (
        "train tiny --set resources.runner=ray --set resources.ray_address=ray://127.0.0.1:9",
        1,
        ("resources.ray_address 'ray://127.0.0.1:9'", "nothing answers there", "`ray start --head`"),
    ),
    (
        "train tiny --set generation.engine=vllm --set generation.vllm.urls=[http://127.0.0.1:9]",
        2,
        ("generation.engine vllm", "generation.vllm.key_file must name the file"),
    ),
    (
        "train tiny --set policies.team.api.provider=openai --set policies.team.api.model=m",
        2,
        ("policies.team: ", "set trained to False"),
    ),
    ("train tiny --set sandbox.backend=virtualbox", 2, ("sandbox.backend: ", "'docker'", "(got 'virtualbox')")),
    ("train tiny --set evaluation.num_problems=0", 2, ("evaluation.num_problems: ", "or equal to 1 (got 0)")),
    (
        "train stateful-eight-queens --set evaluation.num_problems=5000",
        2,
        ("evaluation.num_problems 5000", "ask for at most 984"),
    ),
    ("resume nothing", 1, ("no store is named", "`troupe up`", OUR_WAYS)),
    ("resume nothing --store {store}", 2, ("run 'nothing' is not in file://", "runs there: none yet")),
    ("resume ../x --store {store}", 2, ("run_id '../x'", RUN_NAME)),
    ("resume nothing --step 3", 2, ("--from-stage and --step go together", "--from-stage STAGE --step 7")),
    ("resume nothing --set seed=3", 2, ("--set changes a run's configuration", "add --from-stage and --step")),
    ("show nothing --store file:///nowhere/at/all", 2, ("--store 'file:///nowhere/at/all'", "name one that runs")),
    ("show nothing@3", 2, ("RUN 'nothing@3'", "write the run alone, as nothing", "`troupe view nothing --step 3`")),
    ("show nothing --store {store}", 2, ("run 'nothing' is not in file://", "runs there: none yet")),
    ("show ../../x --store {store}", 2, ("run_id '../../x'", RUN_NAME)),
    ("view nothing --store {store}", 2, ("run 'nothing' is not in file://", "runs there: none yet")),
    ("view nothing --step -1", 2, ("'--step'", "(got '-1')", "see `troupe view --help`")),
    ("view nothing --play", 2, ("--play: name the step", "as --against 40")),
    ("rollouts nothing", 2, ("rollouts: missing option '--to'", "see `troupe rollouts --help`")),
    ("rollouts x --to t.csv --store {store}", 2, ("--to t.csv", "name it t.parquet")),
    ("questions nothing --to q.jsonl --store {store}", 2, ("run 'nothing' is not in file://", "runs there: none yet")),
    ("rollouts ../x --to {store}/r.parquet --store {store}", 2, ("run_id '../x'", RUN_NAME)),
    (
        "runs --store file://relative/x",
        2,
        ("--store 'file://relative/x'", "write file:///absolute/path or s3://bucket"),
    ),
    ("runs --store ftp://x", 2, ("--store 'ftp://x'", "write file:///absolute/path or s3://bucket/prefix")),
    ("rm ../x --yes --store {store}", 2, ("run_id '../x'", RUN_NAME)),
    ("evaluate expert", 2, ("--suite: ", "'expert'", "as --suite plan_path")),
    ("evaluate expert --suite chess", 2, ("--suite 'chess'", "no environment and no preset; there are plan_path, ")),
    ("evaluate expert --suite plan_path/tests", 2, ("suite 'tests'", "did you mean 'test'?")),
    ("evaluate expert --suite plan_path --sampling best", 2, ("--sampling 'best'", "use sample or greedy")),
    ("evaluate expert --suite plan_path --step 3", 2, ("--step 3", "'expert'", "leave it out")),
    ("evaluate expert --suite plan_path --problems 0", 2, ("'--problems'", "(got '0')", "`troupe evaluate --help`")),
    ("evaluate /no/such/model --suite plan_path", 2, ("base '/no/such/model'", NO_BASE)),
    ("evaluate nothing --store {store}", 2, ("run 'nothing' is not in file://", "runs there: none yet")),
    ("play", 2, ("ENV: name an environment, a preset or a file", "as `troupe play plan_path`")),
    ("play chess --agent noop", 2, ("environment.name 'chess'", "did you mean 'code'?")),
    ("play plan_path --agent nop", 2, ("agent 'nop'", "did you mean 'noop'?")),
    ("play plan_path --agent nothing@x", 2, ("agent 'nothing@x'", "'x' is no step", "write RUN@STEP")),
    ("play plan_path --agent expert --sampling sample", 2, ("--sampling sample", "'expert'", "leave it out")),
    ("play plan_path --agent noop --set sise=3", 2, ("environment.options.sise", "(got 3)", "did you mean 'size'?")),
    ("play plan_path --agent noop --split tests", 2, ("split 'tests'", "did you mean 'test'?")),
    ("play plan_path --agent noop --episodes 0", 2, ("'--episodes'", "(got '0')", "see `troupe play --help`")),
    ("export nothing", 2, ("export: missing argument 'DIR'", "see `troupe export --help`")),
    ("export nothing@x {store}/out", 2, ("RUN@STEP 'nothing@x'", "'x' is no step", "write RUN@STEP")),
    ("export nothing /tmp --store {store}", 2, ("DIR '/tmp'", "is not empty; name a folder that does not exist yet")),
    ("export nothing nowhere/out --store {store}", 2, ("run 'nothing' is not in file://", "runs there: none yet")),
    ("sandbox run /no/such/file.py", 2, ("FILE /no/such/file.py", "name a text file")),
    ("sandbox run x.py --backend podman", 2, ("--backend 'podman'", "choose one of auto, docker, bubblewrap")),
    ("sandbox run - --stdin /nothing", 2, ("--stdin /nothing: cannot be read",)),
    ("sandbox attack --only nothing", 2, ("--only 'nothing'", "choose one of ")),
    ("sandbox attack --only fork-bom", 2, ("did you mean 'fork-bomb'?",)),
    ("sandbox run - --timeout 0", 2, ("'--timeout'", "equal to 0.01 (got '0')", "see `troupe sandbox run --help`")),
    ("gc --keep 0 --store {store}", 2, ("'--keep'", "equal to 1 (got '0')", "see `troupe gc --help`")),
    ("gc --grace-hours -1", 2, ("'--grace-hours'", "(got '-1')", "see `troupe gc --help`")),
    ("gc --store file:///nowhere/at/all", 2, ("--store 'file:///nowhere/at/all'", "name one that runs")),
    ("up --engine tgi", 2, ("--engine 'tgi'", "choose one of transformers, vllm")),
    ("up --engine vllm --preset nothing", 2, ("preset 'nothing'", "presets: plan-path, ")),
)


REAL = (
    # Of each kind one: a process of its own, with its imports.
    *("trian tiny", "show nothing --store {store}", "train tiny --set training.device=cuda"),
)
FOREIGN = ("PREFECT_", "MLFLOW_", "AWS_", "TROUPE_", "OPENAI_", "ANTHROPIC_")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the home and the store are."""
    folder = tmp_path_factory.mktemp("wrong-inputs")
    (folder / "store").mkdir()
    return folder


@pytest.fixture(scope="module")
def variables(folder: Path) -> dict[str, str]:
    """A Prefect that answers nothing and a machine without services or GPU: what is wrong is told before anybody asks them."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    env |= {"TROUPE_HOME": str(folder / "home"), "AWS_EC2_METADATA_DISABLED": "true", "HF_HUB_OFFLINE": "1"}
    return env | {"PREFECT_API_URL": "http://127.0.0.1:9/api", "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="module")
def commands(variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with serving(tmp_path_factory.mktemp("commands"), variables) as running:
        yield running


@pytest.mark.parametrize(("line", "code", "named"), WRONG, ids=[line for line, _, _ in WRONG])
def test_wrong_input_is_told_in_one_line(
    line: str, code: int, named: tuple[str, ...], folder: Path, variables: dict[str, str], commands: Commands
) -> None:
    arguments = shlex.split(line.replace("{store}", (folder / "store").as_uri()))
    ended = run_alone(variables, *arguments) if line in REAL else commands.run(*arguments)
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    (told,) = lines_without_waits(ended.stderr)
    assert told.startswith("troupe: "), ended.stderr
    assert ended.stderr.endswith("\n")
    assert [fragment for fragment in named if fragment not in ended.stderr] == [], ended.stderr
    assert ended.cpu_seconds < MOST_CPU_SECONDS


def run_alone(variables: dict[str, str], *arguments: str) -> Ended:
    """The command in a process that has nothing imported."""
    command = [sys.executable, "-c", "from troupe.cli import main; main()", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ended(ended.returncode, ended.stdout, ended.stderr, cpu_seconds)


def test_those_that_run_alone_are_rows() -> None:
    assert {*REAL} <= {line for line, _, _ in WRONG}
