"""The programs of a candidate are found in the record of its shard, and nothing is run."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.rollout.router import Router
from components.rollout.sampler import collect_shard
from components.runs.lineages import freeze_config
from components.runs.run import Run
from components.runs.session_records import begin_session
from components.schema import ExecutionResult, Limits, PolicyVersion, RolloutShard
from components.session.scenario import Scenario, scenario_of
from components.tool_calls.ledger import ExecutionLedger, ToolSources
from components.tool_calls.tool_runs import ProgramRun, runs_in
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator
from tests.components.sandbox.scripted import ScriptedSandbox, sandbox_failed
from tests.recorded_rollouts import commit_rollouts
from troupe.viewing.documents import step_document
from troupe.viewing.recorded import read_recorded
from troupe.viewing.tool_results import program_runs

ALPHABET = "".join(map(chr, range(32, 127))) + "\n"
CONFIG = preset_config("tiny", ["environment.options={tool: python}", "agents.tool_agent.max_new_tokens=40"])
LIMITS = Limits(**CONFIG.execution.model_dump())


def make_result(program: str, stdin: str) -> ExecutionResult:
    """A result that depends on the program and its input alone; one in eight fails in the sandbox."""
    digest = sha256(f"{program}\n{stdin}".encode()).hexdigest()
    if digest[0] in "01":
        return sandbox_failed("box gone")
    return ExecutionResult(
        status="ok", stdout=f"U {digest}", stderr="", exit_code=0, wall_seconds=0.25, cpu_seconds=0.25
    )


def play(scenario: Scenario, sandbox: ScriptedSandbox) -> RolloutShard:
    """The first shard of a team whose tool agent writes short programs."""
    version = PolicyVersion(policy="team", step=0, weights_digest="w0")
    engine = ScriptedGenerator(
        lambda prompt, seed: f"```python\nprint({seed % 5})\n```", CharacterTokenizer(ALPHABET), version
    )
    plan = scenario.shard_plan(step=0, shard=0)
    plan = replace(plan, max_unscorable_fraction=1.0, settings=plan.settings.model_copy(update={"num_problems": 4}))
    limits = Limits(**scenario.config.execution.model_dump())
    return collect_shard(
        plan,
        family=scenario.family,
        router=Router({"team": engine}, seats=scenario.seats, versions={"team": version}),
        rubric=scenario.training_rubric,
        tools=ExecutionLedger(ToolSources(sandbox=lambda: sandbox, retriever=lambda: None, limits=limits)),
    )


@pytest.fixture(scope="module")
def shard() -> RolloutShard:
    return play(scenario_of(CONFIG), ScriptedSandbox(make_result, image_digest="image"))


def test_each_recorded_result_belongs_to_the_candidates_whose_programs_gave_it(shard: RolloutShard) -> None:
    family, assigned = scenario_of(CONFIG).family, set()
    for episode in shard.episodes:
        found = runs_in(episode, family, shard.tools, image="image", limits=LIMITS)
        for n, node in enumerate(episode.nodes):
            for k, candidate in enumerate(node.candidates):
                runs = found.get((n, k), ())
                assert (len(runs) == 1) == (node.group.agent == "tool_agent" and candidate.outcome.unscorable is None)
                for run in runs:
                    assert isinstance(run, ProgramRun)
                    assert run.result == make_result(run.execution.program, run.execution.stdin)
                    assert candidate.text.splitlines()[1] in run.execution.program
                    assigned.add(run.result.stdout)
    assert assigned == {result.stdout for result in shard.tools.executions.values()}
    assert any(c.outcome.unscorable for e in shard.episodes for node in e.nodes for c in node.candidates)


def test_the_document_holds_each_run_once(shard: RolloutShard, tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    freeze_config(store, "r", CONFIG, PIPELINE)
    commit_rollouts(store, Run(run_id="r", config=CONFIG), shard)
    image = tmp_path / "sandbox" / "rootfs" / "0123" / "digest"
    image.parent.mkdir(parents=True)
    image.write_text("image")
    recorded = read_recorded(store, "r")
    runs, notes = program_runs(recorded, sandbox_folder=tmp_path / "sandbox")
    assert notes == ()
    document = step_document(recorded, {}, runs=runs)
    candidates = [c for e in document["episodes"] for node in e["nodes"] for c in node["candidates"]]
    assert {index for each in candidates for index in each["programs"]} == set(range(len(document["programs"])))
    shown = document["programs"][candidates[0]["programs"][0]] if candidates[0]["programs"] else document["programs"][0]
    assert shown["ended"] == "ok, exit code 0, 0.25 s"
    assert [name for name, _ in shown["parts"]] == ["standard input", "standard output"], "the answer has the program"


def test_results_of_another_image_are_told_and_not_guessed(shard: RolloutShard, tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    freeze_config(store, "r", CONFIG, PIPELINE)
    commit_rollouts(store, Run(run_id="r", config=CONFIG), shard)
    runs, notes = program_runs(read_recorded(store, "r"), sandbox_folder=tmp_path / "sandbox")
    assert runs == {}
    assert notes == (
        "no results of programs: they ran in a sandbox image that no session recorded and that is not here, so that none can "
        "be assigned",
    )


def test_a_session_that_recorded_the_image_is_enough(shard: RolloutShard, tmp_path: Path) -> None:
    store, run = LocalArtifactStore(tmp_path / "store"), Run(run_id="r", config=CONFIG)
    freeze_config(store, "r", CONFIG, PIPELINE)
    commit_rollouts(store, run, shard)
    for image in ("image", "a newer one"):
        begin_session(store, run, PIPELINE, sandbox_image=image)
    runs, notes = program_runs(read_recorded(store, "r"), sandbox_folder=tmp_path / "sandbox")
    assert notes == ()
    assert {run.result.stdout for each in runs.values() for run in each} == {
        result.stdout for result in shard.tools.executions.values()
    }
