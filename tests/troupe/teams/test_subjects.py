"""Whoever is named plays: runs, exported folders, adapters, teams of several; and what was played is not played again."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigurationError, StoreRefused
from components.models.loading import prepare_model_folder
from components.runs.lineages import freeze_config
from components.runs.run import Run
from components.runs.steps import finish_step
from components.schema import EvalReport
from components.session.engines import Engines
from components.session.session import Session
from components.training.checkpoint import write_initial_checkpoint
from flows.presets import preset_config
from flows.train import PIPELINE
from tasks.warm_start import warm_start
from troupe.cli import app
from troupe.teams.evaluation import evaluate

BOARDS = ("environment.options.max_moves=5", "environment.max_turns=3")
ADAPTERS = (
    "policies={team: {base: tiny, tiny: {hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64}, "
    "adapter: {rank: 4, alpha: 8.0}}}"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> LocalArtifactStore:
    """Holds the runs "cloned", whose one update left random weights, and "adapted", a fresh adapter on a cloned base."""
    root = tmp_path_factory.mktemp("subjects")
    (root / "store").mkdir()
    local = ["store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none", "num_steps=1", *BOARDS]
    with Session(Run(run_id="cloned", config=preset_config("tiny", local))) as session:
        warm_start.fn(session)
        freeze_config(session.store, "cloned", session.config, PIPELINE)
        alphabet = session.scenario.family.alphabet(session.scenario.options)
        prepare_model_folder(session.config.policies["team"], alphabet=alphabet, seed=7, into=root / "model")
        write_initial_checkpoint(root / "model", root / "checkpoint", "team")
        checkpoint = session.copies.store(root / "checkpoint", base=None)
        finish_step(session.store, session.run, 0, {"team": checkpoint.model_copy(update={"step": 1})})
    with Session(Run(run_id="adapted", config=preset_config("tiny", [*local, ADAPTERS]))) as session:
        warm_start.fn(session)
        freeze_config(session.store, "adapted", session.config, PIPELINE)
    return LocalArtifactStore(root / "store")


def evaluated(store: LocalArtifactStore, subject: str, suite: str | None = None, **wanted: Any) -> EvalReport:
    values = {"num_problems": 20, "sampling": "sample", "store": store.uri} | wanted
    return evaluate(subject, suite, **values)


def blocks(store: LocalArtifactStore) -> int:
    """The blocks of problems that were played and kept."""
    keys = store.list("runs/_shared/steps/000000/play_suite-v1/")
    return sum(key.endswith("/manifest.json") for key in keys)


def test_what_was_played_is_read_whoever_asks(store: LocalArtifactStore) -> None:
    first = evaluated(store, "cloned@0", seed=11)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engines, "of", lambda *_: pytest.fail("an engine was asked for"))
        assert evaluated(store, "cloned@0", seed=11) == first
        assert evaluated(store, "cloned", step=0, seed=11) == first
        in_one_team = evaluated(store, "tool_agent=cloned@0,plan_agent=cloned@0", seed=11)
        assert in_one_team.num_solved_P == first.num_solved_P
    before = blocks(store)
    longer = evaluated(store, "cloned@0", seed=11, num_problems=30)
    assert blocks(store) == before + 1, "the first 20 problems are one block, and were played"
    assert longer.num_solved_P[:20] == first.num_solved_P
    assert longer.suite_digest != first.suite_digest
    assert evaluated(store, "cloned@0", seed=12).suite_digest != first.suite_digest
    assert blocks(store) == before + 2


def test_a_role_is_played_by_the_subject_that_is_named_for_it(store: LocalArtifactStore) -> None:
    own = {step: evaluated(store, f"cloned@{step}", seed=3) for step in (0, 1)}
    mixed = evaluated(store, "tool_agent=cloned@1,plan_agent=cloned@0", seed=3)
    assert mixed.agent == "tool_agent=cloned@1,plan_agent=cloned@0"
    rates = [report.metrics["eval/sample/tool_agent/malformed_rate"] for report in (own[0], mixed, own[1])]
    assert rates[0] < rates[1] == pytest.approx(rates[2], abs=0.2)
    with pytest.raises(ConfigurationError, match=r"cloned@1 has no role 'judge'; its roles are plan_agent, tool_agent"):
        evaluated(store, "judge=cloned@1")
    with pytest.raises(ConfigurationError, match=r"its roles \['tool_agent'\] are played by nobody"):
        evaluated(store, "plan_agent=cloned@1")
    with pytest.raises(ConfigurationError, match=r"step 7 of run cloned: it has finished 1 updates"):
        evaluated(store, "tool_agent=cloned@7,plan_agent=cloned@1")


@pytest.mark.parametrize(("run", "options"), [("cloned", []), ("adapted", []), ("adapted", ["--merged"])])
def test_an_exported_folder_plays_as_its_run(
    store: LocalArtifactStore, run: str, options: list[str], tmp_path: Path
) -> None:
    told = CliRunner().invoke(app, ["export", f"{run}@0", str(tmp_path / "out"), "--store", store.uri, *options])
    assert told.exit_code == 0, told.output
    wanted = {"overrides": BOARDS, "seed": 5, "sampling": "greedy"}
    ours, theirs = (evaluated(store, who, "tiny", **wanted) for who in (f"{run}@0", str(tmp_path / "out" / "team")))
    assert theirs.num_solved_P == ours.num_solved_P
    assert theirs.suite_digest == ours.suite_digest
    assert ours.num_successes > 0


def test_a_damaged_adapter_is_named(store: LocalArtifactStore, tmp_path: Path) -> None:
    CliRunner().invoke(
        app, ["export", "adapted@0", str(tmp_path / "out"), "--store", store.uri], catch_exceptions=False
    )
    folder = tmp_path / "out" / "team"
    config = folder / "adapter_config.json"
    values = json.loads(config.read_text())
    (folder / "adapter_model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ConfigurationError, match=r"the adapter in .* cannot be read: .*name a LoRA adapter's folder"):
        evaluated(store, str(folder), "tiny")
    config.write_text(json.dumps({**values, "base_model_name_or_path": None}))
    with pytest.raises(ConfigurationError, match=r"base_model_name_or_path is None; set it to the model"):
        evaluated(store, str(folder), "tiny")
    config.write_text("{")
    with pytest.raises(ConfigurationError, match="no adapter's configuration"):
        evaluated(store, str(folder), "tiny")


def test_what_is_set_changes_who_plays_and_what(store: LocalArtifactStore) -> None:
    plain, before = evaluated(store, "cloned@0", seed=2), blocks(store)
    cold = evaluated(store, "cloned@0", seed=2, overrides=("agents.tool_agent.temperature=0.05",))
    assert (plain.temperatures, cold.temperatures) == (None, {"tool_agent": 0.05})
    assert blocks(store) == before + 1, "another question is other play"
    assert cold.suite_digest == plain.suite_digest
    short = evaluated(store, "cloned@0", seed=2, overrides=("environment.max_turns=1",))
    assert short.suite_digest != plain.suite_digest
    with pytest.raises(ConfigurationError, match=r"generation\.device"):
        evaluated(store, "cloned@0", overrides=("generation.device=abacus",))


def test_an_evaluation_that_cannot_be_kept_is_given_all_the_same(
    store: LocalArtifactStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = evaluated(store, "cloned@0", seed=21)

    create = LocalArtifactStore.create

    def refuse(self: LocalArtifactStore, key: str, content: bytes) -> bool:
        if self.uri == store.uri:
            raise StoreRefused("the disk is full")
        return create(self, key, content)

    monkeypatch.setattr(LocalArtifactStore, "create", refuse)
    with caplog.at_level(logging.WARNING):
        found = evaluated(store, "cloned@0", seed=22)
    assert (found.n, found.suite) == (wanted.n, wanted.suite)
    assert "the evaluation is not kept, and will be played again: the disk is full" in caplog.text
