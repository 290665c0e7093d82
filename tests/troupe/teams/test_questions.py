"""The questions of an evaluation: a served team answers them as it plays, asked by the OpenAI SDK, lm-eval and inspect."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import openai
import pytest
from typer.testing import CliRunner

from components.errors import ConfigurationError
from components.runs.initial_checkpoints import record_initial_checkpoints
from components.runs.lineages import freeze_config
from components.runs.run import Run
from components.session.scenario import scenario_of
from components.session.session import Session
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tasks.warm_start import warm_start
from troupe.cli import app
from troupe.teams.questions import find_only_agent
from troupe.teams.run_team import Team, find_run, run_team
from troupe.teams.serving import serve_team

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / ".venv-evals" / "bin"
REQUIRED = bool(os.environ.get("TROUPE_TEST_EVALS"))
"""Where it is set, a test fails rather than be skipped for want of these programs."""
needs_evals = pytest.mark.skipif(not (TOOLS / "inspect").exists() and not REQUIRED, reason="not installed: make evals")
SMALL = (
    "policies.team.tiny={hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64}",
    "warm_start={noise: 0.5, min_success: 0.0, max_success: 1.0, max_steps: 20, check_every: 20, num_check_problems: 8}",
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A copy of the example with a run "flip" of its team as cloned, smaller by the parameter, in the folder `store`."""
    folder = Path(shutil.copytree(ROOT / "examples/evals", tmp_path / "evals"))
    (folder / "store").mkdir()
    monkeypatch.chdir(folder)
    where = [f"store={{kind: local, root: {folder / 'store'}}}", "tracking.kind=none"]
    config = preset_config("flip.yaml", [*where, *getattr(request, "param", ())])
    with Session(Run(run_id="flip", config=config)) as session:
        warm_start.fn(session)
        freeze_config(session.store, "flip", config, PIPELINE)
        record_initial_checkpoints(session.store, session.run, PIPELINE)
    return folder


def run_command(folder: Path, *command: str) -> str:
    told = CliRunner().invoke(app, [*command, "--store", (folder / "store").as_uri()], catch_exceptions=False)
    assert told.exit_code == 0, told.output
    return told.stdout


def read_questions(folder: Path, num: int) -> list[dict[str, Any]]:
    assert f"{num} questions to speller" in run_command(
        folder, "questions", "flip", "--to", "questions.jsonl", "--problems", str(num), "--seed", "3"
    )
    return [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]


def load(folder: Path) -> Team:
    return run_team(find_run("flip", (folder / "store").as_uri()), 0)


@pytest.mark.parametrize("project", [SMALL], indirect=True)
def test_a_question_asked_with_its_seed_is_answered_as_in_an_evaluation(project: Path) -> None:
    lines = {line["id"]: line for line in read_questions(project, 5)}
    assert all(line["target"] == line["messages"][-1]["content"][::-1] for line in lines.values())
    with load(project) as team:
        drawn = [team.play(index, seed=3, sampling="sample") for index in range(6)]
    with serve_team(load(project)) as served, openai.OpenAI(base_url=served.url, api_key=served.key) as client:
        asked = 0
        for episode in drawn:
            if (line := lines.get(episode.problem.problem_id)) is not None:
                said = client.chat.completions.create(
                    model=line["model"], messages=line["messages"], seed=line["seed"], temperature=1, top_p=1
                )
                assert said.choices[0].message.content == episode.nodes[0].candidates[0].text
                asked += 1
        assert asked == 5
        narrow = {"model": "speller", "messages": [{"role": "user", "content": "0618"}]}
        greedy = client.chat.completions.create(**narrow, temperature=0).choices[0].message.content
        cut = [client.chat.completions.create(**narrow, temperature=1, top_p=1e-6, seed=seed) for seed in range(3)]
        assert {each.choices[0].message.content for each in cut} == {greedy}


def test_a_team_of_more_than_one_answer_has_no_questions() -> None:
    with pytest.raises(ConfigurationError, match=r"mine: an episode is up to 2 turns of tool_agent, plan_agent"):
        find_only_agent(scenario_of(preset_config("tiny", [])), "mine")


@needs_evals
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_lm_eval_and_inspect_score_a_served_team_as_troupe_evaluates_it(project: Path) -> None:
    """100 problems, greedily and drawn at temperature 1 with the evaluation's seeds."""
    read_questions(project, 100)
    with serve_team(load(project), key="k") as served:
        own = dict.fromkeys(("OPENAI_API_KEY", "TROUPE_API_KEY"), "k")
        own |= {"TROUPE_BASE_URL": served.url, "HF_HUB_OFFLINE": "1", "HF_HOME": str(project / "hub")}

        def run_tool(*command: str) -> None:
            told = subprocess.run(
                [str(TOOLS / command[0]), *command[1:]], env={**os.environ, **own}, capture_output=True
            )
            assert told.returncode == 0, told.stderr.decode()[-3000:]

        for sampling, temperature in (("greedy", "0"), ("sample", "1")):
            evaluated = run_command(
                project, "evaluate", "flip@0", "--problems", "100", "--seed", "3", "--sampling", sampling, "--json"
            )
            expected = json.loads(evaluated[evaluated.index("{") :])["success_rate"]
            assert 0.05 < expected < 0.95, "a score that another answer would change"
            place = project / sampling
            run_tool(
                *(
                    "lm_eval",
                    "run",
                    "--model",
                    "local-chat-completions",
                    "--apply_chat_template",
                    "--include_path",
                    ".",
                ),
                *("--model_args", f"model=speller,base_url={served.url}/chat/completions"),
                *(
                    "--tasks",
                    "troupe_questions",
                    "--gen_kwargs",
                    f"temperature={temperature}",
                    "--output_path",
                    str(place),
                ),
            )
            (scores,) = (json.loads(file.read_text()) for file in place.rglob("results_*.json"))
            assert scores["results"]["troupe_questions"]["exact_match,none"] == pytest.approx(expected, abs=1e-9)
            run_tool(
                *(
                    "inspect",
                    "eval",
                    "inspect_questions.py",
                    "--model",
                    "openai-api/troupe/speller",
                    "--display",
                    "none",
                ),
                *("--temperature", temperature, "--log-format", "json", "--log-dir", str(place)),
            )
            (log,) = (json.loads(file.read_text()) for file in place.glob("*.json"))
            assert log["status"] == "success"
            assert log["results"]["scores"][0]["metrics"]["mean"]["value"] == pytest.approx(expected, abs=1e-9)
