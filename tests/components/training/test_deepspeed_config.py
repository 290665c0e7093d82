import json
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from components.config import TrainingConfig
from components.errors import ConfigurationError
from components.training.deepspeed_config import complete_config, read_deepspeed_config

_FOLDER = Path(__file__).resolve().parents[3] / "infra" / "deepspeed"


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_every_shipped_file_fits_its_stage(stage: int) -> None:
    training = TrainingConfig(zero_stage=stage, num_ranks=2, max_grad_norm=0.5)
    config = complete_config(read_deepspeed_config(_FOLDER / f"zero{stage}.json"), training)
    assert config["zero_optimization"]["stage"] == stage
    assert config["train_batch_size"] == 2
    assert config["gradient_clipping"] == 0.5
    assert config["bf16"] == {"enabled": False}


def test_the_file_of_another_stage_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"training\.zero_stage 0: .*stage 2; give the file of stage 0"):
        complete_config(read_deepspeed_config(_FOLDER / "zero2.json"), TrainingConfig())


def test_a_file_may_not_set_what_the_run_decides() -> None:
    with pytest.raises(ConfigurationError, match="gradient_clipping"):
        complete_config({"zero_optimization": {"stage": 0}, "gradient_clipping": 1.0}, TrainingConfig())


@pytest.mark.parametrize(
    ("offload", "device", "wanted"),
    [
        ("none", "cuda", {}),
        ("optimizer", "cuda", {"offload_optimizer": {"device": "cpu", "pin_memory": True}}),
        (
            "all",
            "cpu",
            {name: {"device": "cpu", "pin_memory": False} for name in ("offload_optimizer", "offload_param")},
        ),
    ],
)
def test_offload_is_deepspeeds(
    offload: Literal["none", "optimizer", "all"], device: Any, wanted: dict[str, Any]
) -> None:
    file = read_deepspeed_config(_FOLDER / "zero3.json")
    config = complete_config(file, TrainingConfig(zero_stage=3, offload=offload, device=device))
    assert config["zero_optimization"] == {**file["zero_optimization"], **wanted}
    assert "offload_param" not in file["zero_optimization"]


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_offload_without_zero_3_is_refused(stage: Any) -> None:
    with pytest.raises(ValidationError, match="offload optimizer is part of ZeRO 3: set zero_stage to 3"):
        TrainingConfig(zero_stage=stage, offload="optimizer")


def test_a_file_may_not_offload_past_the_run() -> None:
    with pytest.raises(ConfigurationError, match=r"sets \['offload_param'\]"):
        complete_config({"zero_optimization": {"stage": 0, "offload_param": {"device": "nvme"}}}, TrainingConfig())


@pytest.mark.parametrize("content", ["{", "[1]", None])
def test_an_unreadable_file_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "zero0.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"zero0\.json"):
        read_deepspeed_config(path)


def test_values_may_be_given_instead_of_a_file() -> None:
    values = json.loads((_FOLDER / "zero0.json").read_text())
    assert read_deepspeed_config(values) == values
