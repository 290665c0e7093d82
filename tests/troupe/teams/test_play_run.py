"""A run's team plays in the terminal: which weights, on what, as an evaluation plays, and drawn for people."""

import io
import itertools
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from typer.testing import CliRunner

import troupe
from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigurationError
from components.evaluation.held_out import Sampling
from components.evaluation.suites import suite_problems
from components.models.loading import prepare_model_folder
from components.runs.initial_checkpoints import record_initial_checkpoints
from components.runs.lineages import freeze_config
from components.runs.run import Run
from components.runs.steps import finish_step
from components.session.engines import Engines
from components.session.session import Session
from components.training.checkpoint import write_initial_checkpoint
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tasks.warm_start import warm_start
from troupe.cli import app, serving
from troupe.teams.play import play
from troupe.teams.reports import PlayReport
from troupe.teams.run_team import Team


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> LocalArtifactStore:
    """Holds the run "cloned": step 0 is a team cloned from an expert, and its one update left random weights."""
    root = tmp_path_factory.mktemp("played")
    (root / "store").mkdir()
    overrides = ["store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none", "num_steps=1"]
    config = preset_config("tiny", [*overrides, "environment.options.max_moves=5", "environment.max_turns=3"])
    with Session(Run(run_id="cloned", config=config)) as session:
        warm_start.fn(session)
        freeze_config(session.store, "cloned", config, PIPELINE)
        record_initial_checkpoints(session.store, session.run, PIPELINE)
        alphabet = session.scenario.family.alphabet(session.scenario.options)
        prepare_model_folder(config.policies["team"], alphabet=alphabet, seed=7, into=root / "model")
        write_initial_checkpoint(root / "model", root / "checkpoint", "team")
        checkpoint = session.copies.store(root / "checkpoint", base=None)
        finish_step(session.store, session.run, 0, {"team": checkpoint.model_copy(update={"step": 1})})
    return LocalArtifactStore(root / "store")


def run_play(store: LocalArtifactStore, environment: str | None, agent: str, **wanted: Any) -> tuple[PlayReport, str]:
    values: dict[str, Any] = {"episodes": 1, "seed": 0, "options": {}, "split": None, "max_turns": None} | wanted
    values = {"sampling": None, "store": store.uri} | values
    stdout = io.StringIO()
    return play(environment, agent, stdin=io.StringIO(), stdout=stdout, **values), stdout.getvalue()


def test_one_episode_says_who_plays_and_what_each_agent_answered(store: LocalArtifactStore) -> None:
    report, text = run_play(store, None, "cloned@0")
    assert text.startswith("run cloned after 0 updates, greedy, plays plan_path (test problems)\n")
    turns = [line.partition(": ")[0] for line in text.splitlines() if line.startswith("turn ")]
    assert turns[:2] == ["turn 1, tool_agent", "turn 1, plan_agent"]
    assert (report.env, report.agent, report.n) == ("plan_path", "cloned@0", 1)
    assert [line for line in text.splitlines() if len(line) == 7], "the run's own size of 4"


def test_the_newest_weights_play_unless_a_step_is_named(store: LocalArtifactStore) -> None:
    newest, before = run_play(store, None, "cloned", episodes=8), run_play(store, None, "cloned@0", episodes=8)
    assert newest[0].agent == "cloned@1"
    assert newest[0] == run_play(store, None, "cloned@1", episodes=8)[0]
    assert newest[0].success_rate == 0.0, "random weights solve nothing"
    assert before[0].mean_reward > newest[0].mean_reward
    _, drawn = run_play(store, None, "cloned")
    assert "run cloned after 1 update, greedy" in drawn
    assert "not understood: " in drawn


@pytest.mark.parametrize("sampling", ["greedy", "sample"])
def test_what_is_played_is_what_an_evaluation_counts(store: LocalArtifactStore, sampling: str) -> None:
    wanted = ["--json", "--store", store.uri, "--sampling", sampling, "--seed", "3"]
    runner = CliRunner()
    evaluated = json.loads(runner.invoke(app, ["evaluate", "cloned@0", "--problems", "12", *wanted]).stdout)
    counted = json.loads(runner.invoke(app, ["play", "--agent", "cloned@0", "--episodes", "12", *wanted]).stdout)
    assert set(counted) == {"env", "agent", "success_rate", "n", "interval", "mean_reward"}
    assert {name: evaluated[name] for name in ("agent", "success_rate", "n", "interval")} == {
        name: counted[name] for name in ("agent", "success_rate", "n", "interval")
    }
    assert counted["mean_reward"] == pytest.approx(evaluated["mean_reward"])


def test_a_seed_decides_every_draw(store: LocalArtifactStore) -> None:
    first = run_play(store, None, "cloned@0", sampling="sample", seed=5)
    assert run_play(store, None, "cloned@0", sampling="sample", seed=5) == first
    others = [run_play(store, None, "cloned@0", sampling="sample", seed=seed)[1] for seed in (6, 7, 8)]
    assert first[1] not in others


def test_the_next_command_after_an_evaluation_runs(store: LocalArtifactStore) -> None:
    runner = CliRunner()
    told = runner.invoke(app, ["evaluate", "cloned", "--step", "0", "--problems", "2", "--store", store.uri]).stdout
    command = told.splitlines()[-1].removeprefix("next: troupe ").split()
    assert command == ["play", "plan_path", "--agent", "cloned@0", "--store", store.uri]
    assert "after 0 updates" in runner.invoke(app, command, catch_exceptions=False).stdout
    told = runner.invoke(app, ["evaluate", "random", "--suite", "tiny", "--problems", "2"]).stdout
    assert told.splitlines()[-1] == "next: troupe play tiny --agent expert"


def test_a_preset_brings_its_own_options(store: LocalArtifactStore) -> None:
    _, text = run_play(store, "plan-path-6x6", "cloned@0")
    assert [line for line in text.splitlines() if len(line) == 11]
    _, text = run_play(store, "plan_path", "cloned@0", options={"size": 3})
    assert [line for line in text.splitlines() if len(line) == 5]
    _, text = run_play(store, "plan-path-6x6", "expert")
    assert "solved" in text


@pytest.mark.parametrize(
    ("environment", "agent", "wanted", "line"),
    [
        ("code", "cloned", {}, r"code: its roles \['coder', 'tester'\] are played by nobody in cloned"),
        (None, "cloned@2", {}, "step 2 of run cloned: it has finished 1 updates; use 0 to 1"),
        (None, "cloned@last", {}, "agent 'cloned@last': 'last' is no step; write RUN@STEP, as cloned@100"),
        (None, "cloned@-1", {}, "'-1' is no step"),
        (None, "@1", {}, "agent '@1': use one of human"),
        (None, "clone", {}, "agent 'clone': .*or a run's name .*run 'clone' is not in .*; runs there: cloned"),
        (None, "../cloned", {}, "agent '../cloned'"),
        ("plan_pth", "cloned", {}, "'plan_pth': no environment and no preset; did you mean 'plan_path'"),
        (None, "cloned", {"sampling": "best"}, "--sampling 'best': use sample or greedy"),
        (None, "cloned", {"options": {"sise": 3}}, "did you mean 'size'"),
        ("plan_path", "noop", {"max_turns": 0}, "max_turns 0: ask for at least 1"),
    ],
)
def test_a_wrong_order_is_explained_before_anything_is_loaded(
    store: LocalArtifactStore, environment: str | None, agent: str, wanted: dict[str, Any], line: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(Engines, "of", lambda *_: pytest.fail("an engine was asked for"))
    with pytest.raises(ConfigurationError, match=line):
        run_play(store, environment, agent, **wanted)


def test_what_an_agent_writes_does_not_command_the_terminal(
    store: LocalArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.rollout.router.Router.decode", lambda *_: "\x1b[2Jgone\x07")
    _, text = run_play(store, None, "cloned@0")
    assert "turn 1, tool_agent: \\x1b[2Jgone\\x07" in text
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize("sampling", ["greedy", "sample"])
def test_a_team_in_python_plays_as_an_evaluation_does(store: LocalArtifactStore, sampling: Sampling) -> None:
    team = troupe.load_team("cloned", step=0, store=store.uri)
    assert (team.name, team.roles) == ("cloned@0", ("tool_agent", "plan_agent"))
    report = troupe.evaluate("cloned", step=0, num_problems=8, seed=3, sampling=sampling, store=store.uri)
    family, options = team.session.scenario.family, team.session.scenario.options
    wanted = {each.problem_id for each in suite_problems("test", family, options, num_problems=8, seed=3)}
    episodes = {}
    for index in itertools.count():
        if episodes.keys() == wanted:
            break
        episode = team.play(index, seed=3, sampling=sampling)
        episodes.setdefault(episode.problem.problem_id, episode)
    assert sum(episode.success for episode in episodes.values()) == round(report.success_rate * report.n)


def test_a_team_answers_to_what_an_agent_sees(store: LocalArtifactStore) -> None:
    team = troupe.load_team("cloned", step=0, store=store.uri)
    episode = team.play(2)
    family = team.session.scenario.family
    seen = family.build(episode.problem).observe("tool_agent")
    first = episode.nodes[0].candidates[0].text
    assert (first, first) == (team.answer("tool_agent", seen), team.answer("tool_agent", seen.state))
    drawn = [team.answer("tool_agent", seen, sampling="sample", seed=seed) for seed in (1, 2, 3, 4, 1)]
    assert drawn[0] == drawn[4]
    assert len(set(drawn)) > 1


def test_two_teams_of_one_process_play_in_turns_and_at_once(store: LocalArtifactStore) -> None:
    def load(step: int) -> Team:
        return troupe.load_team("cloned", step=step, store=store.uri)

    with load(0) as alone:
        expected = [alone.play(i) for i in range(3)]
    with load(0) as before, load(1) as after, ThreadPoolExecutor(2) as threads:
        for i in range(3):
            assert (before.play(i) == expected[i], after.play(i).success) == (True, False)
        together = threads.map(lambda team: [team.play(i) for i in range(3)], (before, after))
        assert next(together) == expected
        assert not any(episode.success for episode in next(together))
        after.close()
        assert before.play(0) == expected[0]


def test_programs_get_the_answers_of_an_evaluation(store: LocalArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An SDK's client plays through `troupe serve`, at temperature 0, as the team plays an evaluation."""
    with troupe.load_team("cloned", step=0, store=store.uri) as team:
        played = [team.play(i) for i in range(4)]
        family = team.session.scenario.family
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def play_as_a_program() -> None:
        with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="k") as client:
            assert {each.id for each in client.models.list()} == {"tool_agent", "plan_agent", "team"}
            for episode in played:
                game = family.build(episode.problem)
                for node in episode.path:
                    seen = game.observe(node.group.agent).state
                    answer = client.chat.completions.create(
                        model=node.group.agent, messages=[{"role": "user", "content": seen}], temperature=0
                    )
                    asked.append(answer.choices[0].message.content or "")
                    assert asked[-1] == node.candidates[0].text
                    game.apply(node.group.agent, asked[-1])
                assert game.success == episode.success

    monkeypatch.setattr(serving, "wait_for_interrupt", play_as_a_program)
    served = CliRunner().invoke(app, ["serve", "cloned@0", "--port", str(port), "--key", "k", "--store", store.uri])
    assert served.exit_code == 0, served.output
    assert f"cloned@0 answers at http://127.0.0.1:{port}/v1 as tool_agent, plan_agent, team" in served.output
    assert len(asked) == sum(len(episode.path) for episode in played) > 4
