"""The trainer equals a plain forward of each completion on small random models of many architectures, or refuses them."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from components.config import AdapterConfig, TrainingConfig
from components.errors import ConfigurationError
from components.identity import GroupKey
from components.models.stored_models import EXACT_BASES
from components.schema import TrainGroup
from components.training import row_attention
from components.training.architectures import largest_error, shortest_window
from components.training.checkpoint import load_trainable, write_initial_adapter, write_initial_checkpoint
from components.training.forward import completion_logprobs
from components.training.packing import pack_groups
from flows.preflight.checks import imitates_bfloat16
from tests.components.model_types import LONGEST_ROW, MODEL_TYPES, NUM_TOKENS

TRAINING = TrainingConfig(tokens_per_micro_batch=LONGEST_ROW)
APART = TrainingConfig(tokens_per_micro_batch=LONGEST_ROW, share_prompts=False)


@pytest.fixture(autouse=True)
def rows_attend_along_their_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short ones too, in the models whose attention is replaced."""
    monkeypatch.setattr(row_attention, "_LEAST_COLUMNS", 4)
    monkeypatch.setattr(row_attention, "_COST_OF_CALL", 0)


def save(name: str, folder: Path, *, dtype: torch.dtype = torch.float32) -> Any:
    model = MODEL_TYPES[name].model()
    model.to(dtype).save_pretrained(folder)
    return model


def groups() -> list[TrainGroup]:
    """Prompts and completions of many lengths, one of them as long as a row may be."""
    rng = random.Random(1)
    found = []
    for number, (prompt, lengths) in enumerate([(20, (1, 12, 7)), (3, (9, 2)), (LONGEST_ROW - 12, (13, 4))]):
        completions = tuple(tuple(rng.randrange(2, NUM_TOKENS) for _ in range(length)) for length in lengths)
        found.append(
            TrainGroup(
                group=GroupKey(problem_id=str(number), episode=0, turn=0, agent="a"),
                prompt_tokens=tuple(rng.randrange(2, NUM_TOKENS) for _ in range(prompt)),
                completions_K_T=completions,
                sampler_logprobs_K_T=tuple((0.0,) * length for length in lengths),
                advantages_K=tuple(rng.uniform(-1.0, 1.0) for _ in completions),
            )
        )
    return found


def compute_packed(
    model: Any, training: TrainingConfig
) -> tuple[dict[tuple[int, int, int], float], list[torch.Tensor]]:
    """The log-probability of each token, and the gradients of their sum weighted by advantages."""
    found = {}
    model.zero_grad()
    for batch in pack_groups(
        groups(), tokens_per_micro_batch=training.tokens_per_micro_batch, share_prompts=training.share_prompts
    ):
        logprobs_N = completion_logprobs(model, batch, temperature=1.0)
        places = zip(batch.groups_N.tolist(), batch.candidates_N.tolist(), batch.offsets_N.tolist(), strict=True)
        found.update(zip(places, logprobs_N.tolist(), strict=True))
        (logprobs_N * torch.from_numpy(batch.advantages_N)).sum().backward()
    return found, gradients(model)


def plain(model: Any) -> tuple[dict[tuple[int, int, int], float], list[torch.Tensor]]:
    found = {}
    model.zero_grad()
    for number, group in enumerate(groups()):
        for candidate, completion in enumerate(group.completions_K_T):
            tokens = torch.tensor([group.prompt_tokens + completion])
            logits_T_V = model(input_ids=tokens, use_cache=False).logits[0, len(group.prompt_tokens) - 1 : -1]
            logprobs_T = logits_T_V.float().log_softmax(-1)[range(len(completion)), list(completion)]
            found.update({(number, candidate, place): value for place, value in enumerate(logprobs_T.tolist())})
            (logprobs_T.sum() * group.advantages_K[candidate]).backward()
    return found, gradients(model)


def gradients(model: Any) -> list[torch.Tensor]:
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]


def assert_equal(model: Any, training: TrainingConfig) -> None:
    (found, found_gradients), (expected, expected_gradients) = compute_packed(model, training), plain(model)
    assert found == pytest.approx(expected, abs=1e-5)
    scale = max(float(gradient.abs().max()) for gradient in expected_gradients)
    for mine, theirs in zip(found_gradients, expected_gradients, strict=True):
        assert float((mine - theirs).abs().max()) <= 1e-5 * scale


@pytest.mark.parametrize("name", [name for name, each in MODEL_TYPES.items() if each.trainer])
def test_packed_rows_have_the_log_probabilities_and_gradients_of_plain_forwards(name: str, tmp_path: Path) -> None:
    save(name, tmp_path)
    assert_equal(load_trainable(tmp_path, training=TRAINING), TRAINING)
    assert_equal(load_trainable(tmp_path, training=APART), APART)


@pytest.mark.parametrize("name", [name for name, each in MODEL_TYPES.items() if not each.trainer])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_packed_rows_would_train_wrongly_is_refused_by_name(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    model = save(name, tmp_path, dtype=dtype)
    with pytest.raises(ConfigurationError, match=f"{type(model).__name__}.*{EXACT_BASES}") as refusal:
        load_trainable(tmp_path, training=TRAINING)
    assert ("set training.share_prompts to false" in str(refusal.value)) == MODEL_TYPES[name].trainer_apart


@pytest.mark.parametrize("name", [name for name, each in MODEL_TYPES.items() if not each.trainer])
def test_a_completion_for_each_row_is_accepted_where_it_is_exact(name: str, tmp_path: Path) -> None:
    save(name, tmp_path)
    if MODEL_TYPES[name].trainer_apart:
        assert_equal(load_trainable(tmp_path, training=APART), APART)
        return
    with pytest.raises(ConfigurationError):
        load_trainable(tmp_path, training=APART)


def test_a_window_is_harmless_only_if_no_row_can_be_longer(tmp_path: Path) -> None:
    save("mistral, window as long as any row", tmp_path)
    load_trainable(tmp_path, training=TRAINING)
    longer = TRAINING.model_copy(update={"tokens_per_micro_batch": LONGEST_ROW + 1})
    with pytest.raises(ConfigurationError, match=f"set training.tokens_per_micro_batch to at most {LONGEST_ROW}, or"):
        load_trainable(tmp_path, training=longer)


@pytest.mark.parametrize(
    ("name", "window"),
    [("llama", None), ("mistral, no window", None), ("qwen2", None), ("mistral", LONGEST_ROW - 1), ("llama4", 8)],
)
def test_the_window_is_that_of_the_layers_that_have_one(name: str, window: int | None) -> None:
    assert shortest_window(MODEL_TYPES[name].config()) == window


def test_a_policy_is_checked_before_training_and_one_that_stays_as_it_is_need_not_be_trainable(tmp_path: Path) -> None:
    save("lfm2", tmp_path / "model")
    adapter = AdapterConfig(rank=2, targets=("q_proj",))
    with pytest.raises(ConfigurationError, match="Lfm2ForCausalLM"):
        write_initial_checkpoint(tmp_path / "model", tmp_path / "whole", "p", training=TRAINING)
    with pytest.raises(ConfigurationError, match="Lfm2ForCausalLM"):
        write_initial_adapter(tmp_path / "model", tmp_path / "adapted", "p", adapter=adapter, seed=0, training=TRAINING)
    assert not (tmp_path / "whole").exists()
    assert write_initial_checkpoint(tmp_path / "model", tmp_path / "fixed", "p").step == 0


def test_rounding_in_bfloat16_is_no_reason_to_refuse() -> None:
    model = MODEL_TYPES["mixtral"].model().to(torch.bfloat16)
    error = largest_error(model, share_prompts=True)
    assert error < 0.05
    assert error > 0 or imitates_bfloat16(), "a processor that imitates bfloat16 may round both ways alike"


def test_positions_that_depend_on_the_longest_row_are_harmless_only_if_no_row_is_that_long(tmp_path: Path) -> None:
    config = MODEL_TYPES["llama"].config()
    config.max_position_embeddings = LONGEST_ROW
    config.rope_parameters = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    load_trainable(tmp_path, training=TRAINING)
    longer = TRAINING.model_copy(update={"tokens_per_micro_batch": LONGEST_ROW + 1})
    with pytest.raises(ConfigurationError, match=f"longer than {LONGEST_ROW} tokens"):
        load_trainable(tmp_path, training=longer)
