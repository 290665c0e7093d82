"""`troupe export`: what plain libraries load from it, what its cards tell, and what it refuses."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from components.config import EnvironmentConfig
from components.errors import ArtifactCorrupt, ConfigurationError
from components.exporting.card import RecordedNode
from components.models.digests import model_digest, tensors_digest
from components.models.tokenizer import HuggingFaceTokenizer
from tests.exported_runs import PROMPTS, ExportedRun, export_run
from troupe.cli import app
from troupe.exporting.export import ExportReport, export
from troupe.exporting.facts import answer_limits, decode_nodes, read_recorded_nodes

TOLERANCE = 1e-4
TEXTS = [("AB\nCD ", "FEED"), ("G", "A"), ("GAG A\n" * 9, "BCDEFG\n ")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ExportedRun:
    return export_run(tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="module")
def folders(made: ExportedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest step as it is, in "out", and merged, in "merged"."""
    root = tmp_path_factory.mktemp("folders")
    export_made(made, root / "out")
    export_made(made, root / "merged", is_merged=True)
    return root


def export_made(made: ExportedRun, place: Path, checkpoint: str = "team", **wanted: Any) -> ExportReport:
    values = {"policy": None, "is_merged": False, "store_uri": made.store.uri} | wanted
    return export(checkpoint, str(place), **values, progress=lambda done, total: None)


def plain_scores(model: Any, tokenizer: Any) -> list[list[float]]:
    """The same log-probabilities by a plain forward of a plain model."""
    found = []
    for prompt, answer in TEXTS:
        first, last = tokenizer(prompt)["input_ids"], tokenizer(answer)["input_ids"]
        with torch.no_grad():
            logprobs = model(torch.tensor([first + last])).logits[0].float().log_softmax(-1)
        found.append([logprobs[len(first) - 1 + i, token].item() for i, token in enumerate(last)])
    return found


def difference(ours: Any, theirs: Any) -> float:
    return max(abs(a - b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))


def test_weights_are_the_checkpoints_byte_for_byte(made: ExportedRun, folders: Path) -> None:
    for exported_file, checkpoint in (
        ("out/tool/model.safetensors", made.folders["tool", 2] / "model.safetensors"),
        ("out/tool/config.json", made.folders["tool", 2] / "config.json"),
        ("out/plan/adapter_model.safetensors", made.folders["plan", 2] / "adapter_model.safetensors"),
        ("out/_base/model.safetensors", made.base / "model.safetensors"),
        ("merged/tool/model.safetensors", made.folders["tool", 2] / "model.safetensors"),
    ):
        assert (folders / exported_file).read_bytes() == checkpoint.read_bytes(), exported_file
    assert tensors_digest(load_file(folders / "out/tool/model.safetensors")) == made.versions["tool", 2].weights_digest
    assert sorted(path.name for path in (folders / "out").iterdir()) == ["_base", "plan", "tool"]
    assert sorted(path.name for path in (folders / "merged").iterdir()) == ["plan", "tool"]
    assert not list(folders.rglob("optimizer")), "nobody needs it to answer"


def test_plain_libraries_give_the_log_probabilities_of_our_engine(made: ExportedRun, folders: Path) -> None:
    for policy in ("tool", "plan"):
        ours = made.scores(policy, 2, TEXTS)
        for place in ("out", "merged"):
            folder = folders / place / policy
            model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
            assert difference(ours, plain_scores(model, tokenizer)) <= TOLERANCE, folder
    assert difference(made.scores("plan", 2, TEXTS), made.scores("plan", 1, TEXTS)) > 0.01


PLAIN = """
import json, os, sys, torch
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer
texts, found = json.loads(sys.argv[1]), {}
for folder in map(Path, sys.argv[2:]):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    found[str(folder)] = []
    for prompt, answer in texts:
        first, last = tokenizer(prompt)["input_ids"], tokenizer(answer)["input_ids"]
        logprobs = model(torch.tensor([first + last])).logits[0].log_softmax(-1)
        found[str(folder)].append([logprobs[len(first) - 1 + i, token].item() for i, token in enumerate(last)])
    os.chdir(folder.parent)
    exec((folder / "README.md").read_text().split("```python")[1].split("```")[0])
ours = {"troupe", "components", "tasks", "flows", "infra", "tests"}
print(json.dumps([found, sorted(ours & {name.split(".")[0] for name in sys.modules})]))
"""


@pytest.mark.slow
def test_a_program_without_any_of_our_code_loads_it_and_runs_the_lines_of_the_card(
    made: ExportedRun, folders: Path
) -> None:
    places = [folders / place / policy for place in ("out", "merged") for policy in ("tool", "plan")]
    command = [sys.executable, "-I", "-c", PLAIN, json.dumps(TEXTS), *map(str, places)]
    env = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HOME": str(folders), "PATH": os.environ["PATH"]}
    ended = subprocess.run(command, cwd=folders, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found, imported = json.loads(ended.stdout.splitlines()[-1])
    assert imported == []
    for folder in places:
        assert difference(made.scores(folder.name, 2, TEXTS), found[str(folder)]) <= TOLERANCE


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # PEFT asks for it
def test_a_folder_that_was_moved_loads_by_the_lines_of_its_card(
    made: ExportedRun, folders: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(folders / "out", tmp_path / "elsewhere")
    base = AutoModelForCausalLM.from_pretrained(moved / "_base")
    model = PeftModel.from_pretrained(base, moved / "plan")
    theirs = plain_scores(model, AutoTokenizer.from_pretrained(moved / "plan"))
    assert difference(made.scores("plan", 2, TEXTS), theirs) <= TOLERANCE


@pytest.mark.parametrize(("checkpoint", "step"), [("team@0", 0), ("team@1", 1), ("team@2", 2), ("team", 2)])
def test_each_step_has_its_own_weights(checkpoint: str, step: int, made: ExportedRun, tmp_path: Path) -> None:
    report = export_made(made, tmp_path / "x", checkpoint, policy="tool")
    assert (report.step, [each.policy for each in report.policies], report.left_out) == (step, ["tool"], {})
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "x" / "tool")
    assert model_digest(model) == report.policies[0].weights_digest == made.versions["tool", step].weights_digest


def test_the_card_tells_what_the_run_recorded(made: ExportedRun, folders: Path, tmp_path: Path) -> None:
    text = (folders / "out" / "plan" / "README.md").read_text()
    told = yaml.safe_load(text.split("---\n")[1])["troupe"]
    assert (told["run"], told["step"], told["policy"], told["roles"]) == ("team", 2, "plan", ["plan_agent"])
    assert told["weights_digest"] == made.versions["plan", 2].weights_digest
    assert [(row["step"], row["n"], row["success_rate"]) for row in told["evaluations"]] == [
        (0, 40, 0.75),
        (2, 40, 0.75),
    ]
    assert (told["temperature"], told["max_new_tokens"]) == (0.8, {"plan_agent": 9})
    assert f"```\n{PROMPTS['plan_agent']}\n```" in text
    assert "```\nFACE\n```" in text
    assert PROMPTS["tool_agent"] + "\n```" not in text, "another policy's"
    export_made(made, tmp_path / "x", "team@1")
    earlier = (tmp_path / "x" / "tool" / "README.md").read_text()
    assert [row["step"] for row in yaml.safe_load(earlier.split("---\n")[1])["troupe"]["evaluations"]] == [0]
    assert "The last evaluation before these weights was after 0." in earlier


def test_a_prompt_that_text_cannot_give_is_not_told_as_exact(made: ExportedRun) -> None:
    tokenizer = HuggingFaceTokenizer.from_folder(made.base)
    turn = read_recorded_nodes(made.store, made.run, 1)["plan_agent"]
    assert decode_nodes({"a": turn}, tokenizer)["a"] == RecordedNode(prompt="AB\nCD FEED", answer="FACE", is_exact=True)
    ended = replace(turn, prompt_tokens=(*turn.prompt_tokens, tokenizer.end_token))
    assert decode_nodes({"a": ended}, tokenizer)["a"] == RecordedNode(
        prompt="AB\nCD FEED<end>", answer="FACE", is_exact=False
    )


def test_own_code_is_not_run_for_a_card(made: ExportedRun) -> None:
    roles = ["plan_agent", "tool_agent"]
    known = answer_limits(made.run.config, roles)
    assert known["plan_agent"] == 9
    assert (known["tool_agent"] or 0) > 1
    own = EnvironmentConfig(name="nowhere_at_all:Guess", source="9f2c")
    config = made.run.config.model_copy(update={"environment": own})
    assert answer_limits(config, roles) == {"plan_agent": 9, "tool_agent": None}


def test_a_rollout_that_is_damaged_costs_the_prompt_alone(made: ExportedRun, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(made.store.uri.removeprefix("file://"), store)
    for payload in (store / "payloads").rglob("*/*"):
        payload.write_bytes(b"flipped")
    report = export_made(made, tmp_path / "x", store_uri=store.as_uri())
    assert [re.sub(r"payloads/\S+", "P", warning)[:40] for warning in report.warnings] == [
        "the model cards show no prompt: P 7 byte"
    ]
    assert "No prompt of this run is recorded." in (tmp_path / "x" / "plan" / "README.md").read_text()


def test_damaged_weights_are_refused_with_what_mends_them(made: ExportedRun, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(made.store.uri.removeprefix("file://"), store)
    for weights in (store / "folders").rglob("adapter_model.safetensors"):
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
    with pytest.raises(ArtifactCorrupt, match=r"adapter_model\.safetensors"):
        export_made(made, tmp_path / "x", store_uri=store.as_uri())
    assert os.listdir(tmp_path) == ["store"]
    export_made(made, tmp_path / "x", store_uri=store.as_uri(), policy="tool")


@pytest.fixture
def thinned(made: ExportedRun, tmp_path: Path) -> Path:
    """A copy of the store without the files of the whole weights after one update, as `troupe gc` leaves it."""
    store = tmp_path / "store"
    shutil.copytree(made.store.uri.removeprefix("file://"), store)
    for manifest in list((store / "folders").rglob("checkpoint.json")):
        if json.loads(manifest.read_text())["step"] == 1:
            shutil.rmtree(manifest.parent)
    return store


@pytest.mark.parametrize(
    ("checkpoint", "wanted", "line"),
    [
        ("team@1", {}, "step 1 of run team: `troupe gc` removed that checkpoint; use a step that has one: 0, 2"),
        ("team@7", {}, "step 7 of run team: it has finished 2 updates; use a step that has one: 0, 2"),
        ("team@last", {}, "RUN@STEP 'team@last': 'last' is no step; write RUN@STEP, as team@100"),
        (f"team@{'9' * 5000}", {}, "is no step"),
        ("teem", {}, "run 'teem' is not in file://.*; runs there: team; did you mean 'team'[?]$"),
        (
            "team",
            {"policy": "tol"},
            "--policy 'tol': run team has none of this name; did you mean 'tool'[?] policies: judge, ",
        ),
        ("team", {"policy": "judge"}, "--policy 'judge': it is played by openai's gpt, which has no weights here"),
    ],
)
def test_a_wrong_order_is_told_and_leaves_nothing(
    checkpoint: str, wanted: dict[str, Any], line: str, thinned: Path, made: ExportedRun, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=line) as caught:
        export_made(made, tmp_path / "x", checkpoint, store_uri=thinned.as_uri(), **wanted)
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["store"]


def test_a_place_that_is_taken_stays_as_it_is(made: ExportedRun, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine").write_text("mine")
    with pytest.raises(ConfigurationError, match="is not empty; name a folder that does not exist yet"):
        export_made(made, tmp_path / "x")
    assert (tmp_path / "x" / "mine").read_text() == "mine"
    assert os.listdir(tmp_path) == ["x"]


def test_nothing_is_left_when_the_store_ends_in_the_middle(
    made: ExportedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_folder, calls = type(made.store).get_folder, iter((True, True, False))

    def failing(self: Any, *arguments: Any, **named: Any) -> Path:
        if not next(calls):
            raise KeyboardInterrupt
        return get_folder(self, *arguments, **named)

    monkeypatch.setattr(type(made.store), "get_folder", failing)
    with pytest.raises(KeyboardInterrupt):
        export_made(made, tmp_path / "x")
    assert os.listdir(tmp_path) == []


@pytest.fixture
def read_only(made: ExportedRun) -> Iterator[dict[Path, tuple[int, int]]]:
    """The store without any right to write, and what it holds."""
    root = Path(made.store.uri.removeprefix("file://"))
    paths = [root, *root.rglob("*")]
    modes = {path: path.stat().st_mode for path in paths}
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}
    for path, mode in modes.items():
        path.chmod(mode)


def test_the_command_tells_what_it_wrote_and_writes_nothing_else(
    made: ExportedRun, read_only: dict[Path, tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TROUPE_STORE", made.store.uri)
    told = CliRunner().invoke(app, ["export", "team@2", "my models"], catch_exceptions=False)
    assert told.stdout.splitlines()[0] == "team after 2 updates:"
    assert f"  {tmp_path}/my models/plan: an adapter, " in told.stdout
    assert "  no folder for judge: it is played by openai's gpt" in told.stdout
    assert told.stdout.splitlines()[-1].startswith(
        f"next: vllm serve '{tmp_path}/my models/_base' --dtype float32 --enable-lora "
    )
    document = json.loads(CliRunner().invoke(app, ["export", "team", "x", "--merged", "--json"]).stdout)
    assert (document["run_id"], document["step"], document["folder"]) == ("team", 2, str(tmp_path / "x"))
    assert [(each["policy"], each["weights"], each["base"]) for each in document["policies"]] == [
        ("plan", "merged", None),
        ("tool", "model", None),
    ]
    assert document["left_out"].keys() == {"judge"}
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in read_only} == read_only
    root = Path(made.store.uri.removeprefix("file://"))
    assert {root, *root.rglob("*")} == read_only.keys()
