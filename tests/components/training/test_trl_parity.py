"""Loss and gradient against TRL's GRPOTrainer on the same batches: another team's code as the oracle."""

import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch

from components.algorithms.losses import token_losses, token_mean_loss
from components.config import LossConfig, TrainingConfig
from components.training.packing import pack_groups
from components.training.rank_batches import RecordedLogprobs, record_logprobs
from components.training.ranks import ALONE
from components.training.update import loss_inputs

TEMPERATURE = 0.9
GROUP_SIZE = 4
CASES = [
    pytest.param(LossConfig(clip_low=low, clip_high=high, kl_coefficient=kl), id=f"clip-{low}-{high}-kl-{kl}")
    for low, high in ((0.2, 0.2), (0.2, 0.28))
    for kl in (0.0, 0.05)
]


@pytest.fixture(scope="module")
def make_trl(tmp_path_factory: pytest.TempPathFactory, make_model: Any) -> Any:
    """Builds a real GRPOTrainer around the tiny model."""
    # With a KL term TRL loads its own reference from the model's folder; the tests give reference log-probs instead.
    folder = tmp_path_factory.mktemp("model")
    make_model().save_pretrained(folder)

    def make(loss_type: str, config: LossConfig) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from datasets import Dataset
            from trl import GRPOTrainer

            trainer = GRPOTrainer(
                model=type(make_model()).from_pretrained(folder),
                reward_funcs=lambda completions, **_: [0.0] * len(completions),
                args=_trl_arguments(str(tmp_path_factory.mktemp("trl")), loss_type, config),
                train_dataset=Dataset.from_list([{"prompt": "t2 t3"}] * GROUP_SIZE),
                processing_class=_trl_tokenizer(),
            )
        trainer.current_gradient_accumulation_steps = 1
        return trainer

    return make


def _trl_arguments(folder: str, loss_type: str, config: LossConfig) -> Any:
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        report_to=[],
        activation_checkpointing=False,
        per_device_train_batch_size=GROUP_SIZE,
        num_generations=GROUP_SIZE,
        steps_per_generation=1,
        gradient_accumulation_steps=1,
        loss_type=loss_type,
        epsilon=config.clip_low,
        epsilon_high=config.clip_high,
        beta=config.kl_coefficient,
        use_bias_correction_kl=False,  # plain k3; TRL's default weighs it by the ratio
        temperature=TEMPERATURE,
    )


def _trl_tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {"<pad>": 0, "<eos>": 1, **{f"t{number}": number for number in range(2, 30)}}
    words_alone = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=words_alone, pad_token="<pad>", eos_token="<eos>")


def _padded(rows: list[Any], *, left: bool, dtype: torch.dtype = torch.long) -> torch.Tensor:
    width = max(len(row) for row in rows)
    tensor = torch.zeros(len(rows), width, dtype=dtype)
    for number, row in enumerate(rows):
        part = slice(width - len(row), width) if left else slice(0, len(row))
        tensor[number, part] = torch.tensor(row, dtype=dtype)
    return tensor


def _trl_inputs(groups: list[Any], reference: RecordedLogprobs | None) -> dict[str, torch.Tensor]:
    prompts = [group.prompt_tokens for group in groups for _ in group.completions_K_T]
    completions = [c for group in groups for c in group.completions_K_T]
    mask = _padded([[1] * len(c) for c in completions], left=False)
    inputs = {
        "prompt_ids": _padded(prompts, left=True),
        "prompt_mask": _padded([[1] * len(p) for p in prompts], left=True),
        "completion_ids": _padded(completions, left=False),
        "completion_mask": mask,
        "advantages": torch.tensor([a for group in groups for a in group.advantages_K]),
        "old_per_token_logps": _padded(
            [p for group in groups for p in group.sampler_logprobs_K_T], left=False, dtype=torch.float32
        ),
        "num_items_in_batch": mask.sum(),
    }
    if reference is not None:
        values = torch.zeros(mask.shape)
        values[mask.bool()] = reference.values
        inputs["ref_per_token_logps"] = values
    return inputs


def _theirs(trl: Any, inputs: dict[str, torch.Tensor]) -> tuple[float, torch.Tensor]:
    trl.model.zero_grad()
    trl.model.train()
    loss = trl._compute_loss(trl.model, inputs)
    loss.backward()
    return loss.item(), _gradient(trl.model)


def _gradient(model: Any) -> torch.Tensor:
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()]).double()


def _agree(ours: tuple[float, torch.Tensor], theirs: tuple[float, torch.Tensor]) -> None:
    assert abs(theirs[0]) > 1e-3
    assert abs(ours[0] - theirs[0]) <= 1e-5 * abs(theirs[0])
    cosine = torch.nn.functional.cosine_similarity(ours[1], theirs[1], dim=0).item()
    assert cosine >= 1 - 1e-6
    assert ours[1].norm().item() == pytest.approx(theirs[1].norm().item(), rel=1e-4)


def _batch(make_model: Any, make_groups: Any, score_groups: Any, *, ragged: bool) -> tuple[Any, list[Any]]:
    """A model and groups whose sampler was off by enough that the clip acts on both sides."""
    model = make_model()
    groups = make_groups(5, longest=7)
    if not ragged:
        groups = [replace(g, completions_K_T=tuple((c * 7)[:5] for c in g.completions_K_T)) for g in groups]
    return model, score_groups(model, groups, noise=0.3)


def _reference(config: LossConfig, make_model: Any, groups: list[Any]) -> RecordedLogprobs | None:
    if not config.kl_coefficient:
        return None
    training = TrainingConfig()
    return record_logprobs(make_model(seed=1), groups, training=training, temperature=TEMPERATURE, ranks=ALONE)


@pytest.mark.parametrize("config", CASES)
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize(("loss_type", "ragged"), [("dapo", True), ("grpo", False)])
def test_token_mean_loss_equals_trls(
    make_trl, make_model, make_groups, score_groups, make_job, config, share, loss_type, ragged
) -> None:
    # TRL's dapo is the mean over tokens; its grpo, a mean of completions' means, is the same for equal lengths.
    model, groups = _batch(make_model, make_groups, score_groups, ragged=ragged)
    reference = _reference(config, make_model, groups)
    job = make_job(loss=config, temperature=TEMPERATURE)
    num_tokens = sum(len(c) for group in groups for c in group.completions_K_T)
    loss = 0.0
    for micro_batch in pack_groups(groups, tokens_per_micro_batch=96, share_prompts=share):
        part = token_mean_loss(loss_inputs(model, micro_batch, job, None, reference), config, num_tokens=num_tokens)
        part.backward()
        loss += part.item()
    _agree((loss, _gradient(model)), _theirs(make_trl(loss_type, config), _trl_inputs(groups, reference)))


@pytest.mark.parametrize("config", CASES)
def test_token_losses_equal_trls_under_its_mean_of_completion_means(
    make_trl, make_model, make_groups, score_groups, make_job, config
) -> None:
    model, groups = _batch(make_model, make_groups, score_groups, ragged=True)
    reference = _reference(config, make_model, groups)
    (micro_batch,) = pack_groups(groups, tokens_per_micro_batch=4096, share_prompts=True)
    inputs = loss_inputs(model, micro_batch, make_job(loss=config, temperature=TEMPERATURE), None, reference)
    lengths_N = torch.tensor(
        [len(groups[g].completions_K_T[k]) for g, k in zip(micro_batch.groups_N, micro_batch.candidates_N, strict=True)]
    )
    loss = (token_losses(inputs, config) / lengths_N).sum() / (len(groups) * GROUP_SIZE)
    loss.backward()
    _agree((loss.item(), _gradient(model)), _theirs(make_trl("grpo", config), _trl_inputs(groups, reference)))


def test_the_clip_acts_in_these_batches(make_model, make_groups, score_groups, make_job) -> None:
    model, groups = _batch(make_model, make_groups, score_groups, ragged=True)
    (micro_batch,) = pack_groups(groups, tokens_per_micro_batch=4096, share_prompts=True)
    inputs = loss_inputs(model, micro_batch, make_job(temperature=TEMPERATURE), None, None)
    log_ratios = inputs.logprobs_N - inputs.old_logprobs_N
    assert (log_ratios > 0.25).any()
    assert (log_ratios < -0.25).any()
