"""The projects under `examples/` run from a folder of their own, and keep to the source that they were started with."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import troupe
from components.artifacts.local import LocalArtifactStore
from components.environments.family import is_cloned
from components.environments.shared.custom_rows import json_lines
from components.generation.api.chat import KEY_VARIABLES
from components.methods.first_checkpoints import check_bases
from components.session.scenario import scenario_of
from flows.presets import preset_values, with_overrides
from tasks.warm_start import warm_start
from tests.components.generation.api import wire_server
from tests.integration.outcomes import SHORT, order, outcome
from tests.integration.trainings import Trainings
from tests.smollm import needs_smollm
from tests.waits import lines_without_waits
from troupe.cli import app
from troupe.runs.documents import run_document
from troupe.testing import check_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "warm_start={noise: 0.3, min_success: 0.0, max_success: 1.0, max_steps: 20, check_every: 20, num_check_problems: 8}",
    "policies.team.tiny={hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64}",
    "rollout={num_problems: 4, group_size: 4, problems_per_block: 4}",
    "evaluation={num_problems: 8, problems_per_block: 8}",
    "tracking.kind=none",
)


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of `examples/guess`, or of the folder that the test names."""
    return Path(shutil.copytree(ROOT / "examples" / getattr(request, "param", "guess"), tmp_path / "mine"))


def show(store: str, run: str = "guess") -> dict[str, Any]:
    """The run's document."""
    return run_document(LocalArtifactStore(Path(store.removeprefix("file://"))), run)


def training(name: str, store: str) -> list[str]:
    """The command that trains a small model for two steps."""
    return ["train", name, "--steps", "2", "--store", store, *(word for each in SMALL for word in ("--set", each))]


def test_an_environment_of_ones_own_is_trained_from_its_folder(project: Path, trainings: Trainings) -> None:
    store = f"file://{project.parent / 'store'}"
    train = training("guess.yaml", store)
    first = trainings.command(project, *train)
    assert first.returncode == 0, first.stderr
    document = show(store)
    assert (document["state"], len(document["steps"])) == ("completed", 2)
    assert f"checkpoint {document['steps'][-1]['checkpoint_digest']['team'][:12]}" in first.stdout

    rules = project / "guess.py"
    text = rules.read_text()
    rules.write_text(text.replace("10_000", "9_000"))
    changed = trainings.command(project, *train)
    assert changed.returncode == 2, changed.stderr
    assert "other files of guess:Guess" in changed.stderr
    assert "Traceback" not in changed.stderr

    restart = ("resume", "guess", "--from-stage", "collect_rollouts", "--step", "1", "--store", store)
    restarted = trainings.command(project, *restart)
    assert restarted.returncode == 0, restarted.stderr
    after = show(store)
    assert (after["state"], len(after["lineages"]), len(after["steps"])) == ("completed", 1, 2)


def test_a_mistake_in_the_environment_is_one_line_before_anything_starts(project: Path, trainings: Trainings) -> None:
    rules = project / "guess.py"
    rules.write_text(rules.read_text().replace("rng.randrange(10_000)", "rng.randrang(10_000)"))
    failed = trainings.command(project, "train", "guess.yaml", "--store", f"file://{project.parent / 'store'}")
    assert failed.returncode == 2
    (line,) = lines_without_waits(failed.stderr)
    assert "guess.py:" in line
    assert "AttributeError" in line
    assert not (project.parent / "store").exists()


@pytest.mark.long
@pytest.mark.parametrize("project", ["team"], indirect=True)
def test_agents_side_by_side_and_who_decides_are_trained_and_shown(project: Path, trainings: Trainings) -> None:
    store = f"file://{project.parent / 'store'}"
    done = trainings.command(project, *training("team.yaml", store))
    assert done.returncode == 0, done.stderr
    document = show(store, "team")
    assert (document["state"], len(document["steps"])) == ("completed", 2)
    for step in document["steps"]:
        assert step["metrics"]["rollout/num_candidates"] == 4 * 4 * 4, "4 problems, 4 agents, 4 candidates"
        for role in ("ann", "bob", "cem", "chair"):
            assert {f"reward/{role}/mean", f"reward/{role}/solve_rate"} <= step["metrics"].keys()
    digests = [step["checkpoint_digest"]["team"] for step in document["steps"]]
    assert len(set(digests)) == 2


@pytest.mark.parametrize("project", ["game"], indirect=True)
def test_a_game_of_ones_own_needs_no_turn_order_no_weight_and_no_warm_start(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    scenario = scenario_of(troupe.load_config("hands.yaml"))
    assert scenario.turn_order == (("ann", "bob"),)
    check_bases(LocalArtifactStore(project / "store"), scenario, warm_start.stage)
    assert not is_cloned(scenario.family)
    check_environment(type(scenario.family.environment))
    (broken,) = {scenario.family.problem(scenario.options, split="train", index=0, seed=0).payload["broken"]}
    best, worst = {"rock": ("paper", "scissors"), "paper": ("scissors", "rock"), "scissors": ("rock", "paper")}[broken]
    for typed, wanted in (
        (f"{best}\n{worst}", (-1, 1)),
        (f"{worst}\n{broken}", (1, -1)),
        (f"{broken}\n{broken}", (0, 0)),
    ):
        played = CliRunner().invoke(app, ["play", "hands.yaml"], input=f"{typed}\n", catch_exceptions=False)
        assert f"The game is over: ann earns {wanted[0]}, bob earns {wanted[1]}." in played.stdout


@pytest.mark.long
@pytest.mark.parametrize("project", ["game"], indirect=True)
def test_both_players_of_a_game_earn_more_against_their_partners_start(project: Path, trainings: Trainings) -> None:
    store = f"file://{project.parent / 'store'}"
    done = trainings.command(project, "train", "hands.yaml", "--store", store, "--set", "tracking.kind=none")
    assert done.returncode == 0, done.stderr
    gains = dict(re.findall(r"(\w+) earns .* start \((.\d\.\d\d) to", done.stdout))
    assert {agent: float(low) > 0.2 for agent, low in gains.items()} == {"ann": True, "bob": True}
    assert f"troupe view hands --store {store} --graph" in done.stdout
    shown = trainings.command(project, "view", "hands", "--store", store)
    assert shown.returncode == 0, shown.stderr
    assert (project / "hands-interactions.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
@pytest.mark.parametrize("project", ["tools"], indirect=True)
def test_programs_of_an_own_environment_run_in_the_sandbox_and_their_results_are_kept(
    project: Path, trainings: Trainings
) -> None:
    store = f"file://{project.parent / 'store'}"
    train = training("functions.yaml", store)
    done = trainings.command(project, *train)
    assert done.returncode == 0, done.stderr
    before = show(store, "functions")
    assert (before["state"], len(before["steps"])) == ("completed", 2)
    assert before["steps"][0]["metrics"]["rollout/num_executions"] > 0

    restart = ("resume", "functions", "--from-stage", "compute_rewards", "--step", "0", "--store", store)
    restarted = trainings.command(project, *restart)
    assert restarted.returncode == 0, restarted.stderr
    after = show(store, "functions")
    digests = [[step["checkpoint_digest"] for step in each["steps"]] for each in (before, after)]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("project", ["own_rewards"], indirect=True)
def test_own_rewards_an_own_advantage_and_an_own_loss_train_together(project: Path, trainings: Trainings) -> None:
    store = f"file://{project.parent / 'store'}"
    train = [*training("own_rewards.yaml", store), "--set", "evaluation.sampling=[greedy]"]
    trained = trainings.command(project, *train)
    assert trained.returncode == 0, trained.stderr
    document = show(store, "own_rewards")
    metrics = document["steps"][0]["metrics"]
    for agent in ("tool_agent", "plan_agent"):
        assert metrics[f"reward/{agent}/own.brevity"] < 0.0 <= metrics[f"reward/{agent}/own.teamwork"]
    assert "train/team/clip_frac" not in metrics, "an own loss has no clip"

    learning = project / "learning.py"
    learning.write_text(f"{learning.read_text()}\n# another thought\n")
    changed = trainings.command(project, *train)
    assert changed.returncode == 2
    *_, line = lines_without_waits(changed.stderr)
    assert "other files of learning:winners, learning:reinforce" in line
    assert "--from-stage compute_advantages --step N" in line


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[wire_server.WireServer]:
    """A server of the example's model, whose grade of an answer is its share of letters e."""
    monkeypatch.setattr(wire_server, "MODEL", "gpt-4o-mini")
    with wire_server.wire_server() as wire:
        wire.answer = lambda prompt, index: share_of_e(prompt.split("<answer>\n")[1].split("\n</answer>")[0])
        yield wire


def share_of_e(answer: str) -> str:
    return f"{answer.count('e') / max(1, len(answer)):.2f}"


def reaching(judge: wire_server.WireServer) -> dict[str, str]:
    """What the environment of a process has whose API is the judge's server."""
    return {"OPENAI_BASE_URL": judge.base_url("openai"), KEY_VARIABLES["openai"]: wire_server.KEY}


def rows_of_grades(project: Path) -> list[dict[str, Any]]:
    return [row for _, row in json_lines(project / "grades.jsonl", "grades")]


@pytest.mark.parametrize("project", ["judge"], indirect=True)
def test_a_judge_is_paid_once_for_a_text_and_never_above_the_cap(
    project: Path, trainings: Trainings, judge: wire_server.WireServer
) -> None:
    env, store = reaching(judge), f"file://{project.parent / 'store'}"
    train = [*training("judge.yaml", store), "--set", "evaluation.sampling=[greedy]"]
    capped = trainings.command(project, *train, **env, JUDGE_MAX_COST_DOLLARS="0.00025")
    assert capped.returncode == 2, capped.stderr
    *_, line = lines_without_waits(capped.stderr)
    assert "of 0.00025 dollars are spent" in line
    assert "raise JUDGE_MAX_COST_DOLLARS" in line
    num_before = len(judge.exchanges)
    assert 0 < sum(row["dollars"] for row in rows_of_grades(project)) <= 0.00025

    trained = trainings.command(project, *train, **env)
    assert trained.returncode == 0, trained.stderr
    prompts = Counter(body["messages"][-1]["content"] for body in judge.bodies)
    assert 0 < num_before < len(prompts)
    assert set(prompts.values()) == {1}, "a text is paid for once"
    spent = sum(row["dollars"] for row in rows_of_grades(project))
    assert spent == pytest.approx(len(prompts) * (wire_server.NUM_PROMPT_TOKENS * 0.15 + 3 * 0.60) / 1e6)
    before = show(store, "judge")
    assert 0 < before["steps"][0]["metrics"]["reward/clerk/own.helpfulness"] < 1

    restart = ("resume", "judge", "--from-stage", "compute_rewards", "--step", "0", "--store", store)
    again = trainings.command(project, *restart, **env)
    assert again.returncode == 0, again.stderr
    assert len(judge.exchanges) == len(prompts)
    after = show(store, "judge")
    assert len(after["lineages"]) == len(before["lineages"]) + 1
    assert [step["checkpoint_digest"] for step in after["steps"]] == [
        step["checkpoint_digest"] for step in before["steps"]
    ]
    kept = b"".join(path.read_bytes() for path in project.parent.rglob("*") if path.is_file())
    assert wire_server.KEY.encode() not in kept


@pytest.mark.long
@pytest.mark.parametrize("project", ["judge"], indirect=True)
def test_two_processes_share_the_grades(project: Path, judge: wire_server.WireServer) -> None:
    answers = ["eel", "tree", "eel", "oak"]
    grading = (
        "from types import SimpleNamespace as Value; from judge import helpfulness\n"
        "print('imported', flush=True); input()\n"
        "episode = Value(problem=Value(payload={'order': '417', 'day': 'Monday'}))\n"
        f"print(helpfulness(episode, Value(candidates=[Value(text=text) for text in {answers}])))"
    )
    judge.delay_of = lambda prompt: 0.5
    together = [
        subprocess.Popen(
            [sys.executable, "-c", grading],
            cwd=project,
            env={**os.environ, **reaching(judge)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in together:
        assert process.stdout is not None
        assert process.stdout.readline() == "imported\n"
    for process in together:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in together:
        assert json.loads(process.communicate()[0]) == [float(share_of_e(answer)) for answer in answers]
    assert len(judge.exchanges) == len(set(answers))
    assert sorted(row["reply"] for row in rows_of_grades(project) if "reply" in row) == ["0.00", "0.50", "0.67"]


@pytest.mark.long
@needs_smollm
@pytest.mark.parametrize("project", ["own_problems"], indirect=True)
def test_own_problems_are_written_and_trained_with_a_chat_model(project: Path, trainings: Trainings) -> None:
    for kind in ("words", "sums"):
        subprocess.run([sys.executable, "make_problems.py", kind], cwd=project, check=True)
        rows = [row for _, row in json_lines(project / "problems.jsonl", "problems")]
        assert len({row["question"] for row in rows}) == len(rows) == 300
        assert len({row["answer"] for row in rows}) > 50, "they vary"
    store = f"file://{project.parent / 'store'}"
    small = (
        "rollout={num_problems: 2, group_size: 2}",
        "evaluation.num_problems=2",
        "agents.tool_agent.max_new_tokens=8",
        "agents.reasoner.max_new_tokens=4",
        "tracking.kind=none",
    )
    overrides = [word for each in small for word in ("--set", each)]
    done = trainings.command(project, "train", "own_problems.yaml", "--steps", "1", "--store", store, *overrides)
    assert done.returncode == 0, done.stderr
    assert "GGUF" not in done.stderr
    document = show(store, "own_problems")
    assert (document["state"], len(document["steps"])) == ("completed", 1)


SILENT = """
from troupe import Environment, MalformedAnswer, Step


class Sql(Environment):
    roles = ("writer",)

    def draw(self, options, rng):
        return {"least": rng.randrange(1000)}

    def observe(self, state, agent):
        return f"total age in rome over {state['least']}"

    def step(self, state, agent, answer):
        if len(answer) % 2:
            raise MalformedAnswer("no query")
        return Step(state=state, solved=answer == f"select sum(age) from rome where age > {state['least']}")
"""
SILENT_CONFIGURATION = """
num_steps: 1
environment: {name: "silent:Sql", max_turns: 1, answer_format: strict}
agents: {writer: {policy: team, max_new_tokens: 12}}
policies: {team: {base: smollm2-135m, prompt_format: chat, adapter: {rank: 4}}}
rollout: {num_problems: 4, group_size: 4}
evaluation: {num_problems: 8}
tracking: {kind: none}
"""


@pytest.mark.long
@needs_smollm
def test_a_chat_model_that_is_told_nothing_is_named_before_after_the_first_evaluation_and_after_the_first_step(
    tmp_path: Path, trainings: Trainings
) -> None:
    (tmp_path / "silent.py").write_text(SILENT)
    (tmp_path / "silent.yaml").write_text(SILENT_CONFIGURATION)
    tried = trainings.command(tmp_path, "try", "silent.yaml", "--problems", "8", "--json")
    assert tried.returncode == 0, tried.stderr
    trial = json.loads(tried.stdout)
    writer = trial["agents"]["writer"]
    assert (trial["num_problems"], trial["num_solved"], writer["num_answers"], writer["right"]) == (8, 0, 8, 0.0)
    assert "total age in rome over" in writer["prompt"]
    assert 0.0 < writer["malformed"] < 1.0
    assert "has no instructions for writer" in trial["remarks"][0]

    done = trainings.command(tmp_path, "train", "silent.yaml", "--store", f"file://{tmp_path / 'store'}")
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    for words in (
        "silent:Sql has no instructions for writer",
        "none of 8 problems is solved",
        "none of 16 answers solves",
    ):
        assert sum(words in line for line in warnings) == 1, done.stderr
    for words in ("answers before training, sample: writer 0% right, ", "answers in step 0: writer 0% right, "):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("program", "arguments", "preset"),
    [
        ("plain_loop/plain_loop.py", ["tiny", "3", *SHORT], "tiny"),
        ("plain_population.py", ["2"], "population-tiny"),
        ("plain_hybrid.py", ["hybrid-tiny", "3"], "hybrid-tiny"),
    ],
)
def test_a_plain_loop_of_each_method_ends_in_the_weights_of_its_flow(
    program: str,
    arguments: list[str],
    preset: str,
    trainings: Trainings,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    if preset == "population-tiny":
        changes = runpy.run_path(str(ROOT / "examples" / program))["TWO_MEMBERS"]
        config = with_overrides(preset_values()[preset], [*changes, "num_steps=2"])
        local = {"store": {"kind": "local", "root": str(tmp_path / "store")}, "tracking": {"kind": "none"}}
        assert trainings.run(order(tmp_path, "flow", config={**config, **local})).code == 0, trainings.log()
        steps = outcome(LocalArtifactStore(tmp_path / "store"), "flow")["steps"]
    elif preset == "tiny":
        steps = request.getfixturevalue("uninterrupted")["steps"]
    else:
        steps = outcome(LocalArtifactStore(request.getfixturevalue("whole_hybrid") / "store"), "whole")["steps"]
    learned = [{*step["checkpoint_digest"].values()} for step in steps]
    assert not set.intersection(*learned), "the updates change nothing"
    ran = trainings.command(tmp_path, str(ROOT / "examples" / program), *arguments)
    assert ran.returncode == 0, ran.stderr
    printed = ran.stdout.splitlines()[len(steps) :]
    assert printed == [f"{name}: {digest}" for name, digest in sorted(steps[-1]["checkpoint_digest"].items())]
