"""Loss and gradient against TRL's GRPOTrainer on the same batches: another team's code as the oracle."""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from components.algorithms.loss_registry import policy_loss
from components.algorithms.losses import minibatch_loss
from components.config import LossConfig, TrainingConfig
from components.training.packing import pack_groups, without_truncated
from components.training.rank_batches import RecordedValues, minibatch_size, record_logprobs
from components.training.ranks import Ranks
from components.training.reference_logprobs import Recorded, loss_inputs, record_batch
from tests.sections import choose_loss

TEMPERATURE = 0.9
GROUP_SIZE = 4
LONGEST = 11


@dataclass(frozen=True)
class Case:
    """One loss of ours, and the fields that make TRL's the same."""

    ours: LossConfig
    theirs: dict[str, Any] = field(default_factory=dict)


def cases() -> list[Any]:
    """Every loss that TRL has too, with and without a reference."""
    clip = {"clip_low": 0.2, "clip_high": 0.28}
    bounds = {"epsilon": 0.2, "epsilon_high": 0.28}
    named = {
        "dapo": Case(choose_loss(**clip), {"loss_type": "dapo", **bounds}),
        "grpo": Case(choose_loss(aggregation="sequence_mean"), {"loss_type": "grpo", "epsilon": 0.2}),
        "dr_grpo": Case(
            choose_loss(aggregation="fixed_length", fixed_length=LONGEST, **clip), {"loss_type": "dr_grpo", **bounds}
        ),
        # GSPO in TRL is its mean of completions' means with one ratio a completion.
        "gspo": Case(
            choose_loss(policy_loss="gspo", clip_low=0.03, clip_high=0.04),
            {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.03, "epsilon_high": 0.04},
        ),
        # TRL's epsilon_high is the largest weight itself, and it has no lower bound.
        "cispo": Case(
            choose_loss(policy_loss="cispo", clip_low=1.0, clip_high=0.2), {"loss_type": "cispo", "epsilon_high": 1.2}
        ),
        "dual_clip": Case(choose_loss(dual_clip=1.3), {"loss_type": "dapo", "epsilon": 0.2, "delta": 1.3}),
    }
    return [
        pytest.param(
            Case(case.ours.model_copy(update={"kl_coefficient": beta}), {**case.theirs, "beta": beta}),
            id=f"{name}-beta-{beta}",
        )
        for name, case in named.items()
        for beta in (0.0, 0.05)
    ]


@pytest.fixture(scope="module")
def make_trl(tmp_path_factory: pytest.TempPathFactory, make_model: Any) -> Any:
    """Builds a real GRPOTrainer around the tiny model."""
    # With a KL term TRL loads its own reference from the model's folder; the tests give reference log-probs instead.
    folder = tmp_path_factory.mktemp("model")
    make_model().save_pretrained(folder)

    def make(**arguments: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from datasets import Dataset
            from trl import GRPOTrainer

            trainer = GRPOTrainer(
                model=type(make_model()).from_pretrained(folder),
                reward_funcs=lambda completions, **_: [0.0] * len(completions),
                args=_trl_arguments(str(tmp_path_factory.mktemp("trl")), **arguments),
                train_dataset=Dataset.from_list([{"prompt": "t2 t3"}] * GROUP_SIZE),
                processing_class=_trl_tokenizer(),
            )
        trainer.current_gradient_accumulation_steps = 1
        return trainer

    return make


def _trl_arguments(folder: str, **arguments: Any) -> Any:
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
        max_completion_length=LONGEST,
        use_bias_correction_kl=False,  # plain k3; TRL's default weighs it by the ratio
        temperature=TEMPERATURE,
        **arguments,
    )


def _trl_tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {"<pad>": 0, "<eos>": 1, **{f"t{number}": number for number in range(2, 30)}}
    words_alone = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=words_alone, pad_token="<pad>", eos_token="<eos>")


def _pad(rows: list[Any], *, left: bool, dtype: torch.dtype = torch.long) -> torch.Tensor:
    width = max(len(row) for row in rows)
    tensor = torch.zeros(len(rows), width, dtype=dtype)
    for number, row in enumerate(rows):
        part = slice(width - len(row), width) if left else slice(0, len(row))
        tensor[number, part] = torch.tensor(row, dtype=dtype)
    return tensor


def _trl_inputs(groups: list[Any], recorded: Recorded) -> dict[str, torch.Tensor]:
    """The batch as TRL holds it: padded, a mask of ones where a completion counts."""
    prompts = [group.prompt_tokens for group in groups for _ in group.completions_K_T]
    completions = [c for group in groups for c in group.completions_K_T]
    sampled = [p for group in groups for p in group.sampler_logprobs_K_T]
    mask = _pad([[1] * len(c) for c in completions], left=False)

    def rows(values: RecordedValues) -> torch.Tensor:
        tensor = torch.zeros(mask.shape)
        tensor[mask.bool()] = values.values
        return tensor

    inputs = {
        "prompt_ids": _pad(prompts, left=True),
        "prompt_mask": _pad([[1] * len(p) for p in prompts], left=True),
        "completion_ids": _pad(completions, left=False),
        "completion_mask": mask,
        "advantages": torch.tensor([a for group in groups for a in group.advantages_K]),
        "old_per_token_logps": _pad(sampled, left=False, dtype=torch.float32)
        if recorded.old is None
        else rows(recorded.old),
        "num_items_in_batch": mask.sum(),
    }
    if recorded.reference is not None:
        inputs["ref_per_token_logps"] = rows(recorded.reference)
    return inputs


def _ours(model: Any, groups: Any, job: Any, recorded: Recorded, *, share: bool = True) -> tuple[float, torch.Tensor]:
    model.zero_grad()
    loss = 0.0
    for micro_batch in pack_groups(groups, tokens_per_micro_batch=96, share_prompts=share):
        inputs = loss_inputs(model, micro_batch, job, recorded)
        part = minibatch_loss(inputs, job.loss, size=minibatch_size(groups))
        part.backward()
        loss += part.item()
    return loss, _gradient(model)


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
    # Token losses are around 1 and cancel in the mean, so its last bits are float32's.
    assert ours[0] == pytest.approx(theirs[0], rel=1e-5, abs=5e-7)
    cosine = torch.nn.functional.cosine_similarity(ours[1], theirs[1], dim=0).item()
    assert cosine >= 1 - 1e-6
    assert ours[1].norm().item() == pytest.approx(theirs[1].norm().item(), rel=1e-4)


def _batch(make_model: Any, make_groups: Any, score_groups: Any) -> tuple[Any, list[Any]]:
    """A model and ragged groups whose sampler was off by enough that the clip acts on both sides."""
    model = make_model()
    return model, score_groups(model, make_groups(5, longest=7), noise=0.3)


def _record(config: LossConfig, make_model: Any, groups: Any) -> Recorded:
    if not config.kl_coefficient:
        return Recorded()
    reference = make_model(seed=1)
    return Recorded(
        reference=record_logprobs(reference, groups, training=TrainingConfig(), temperature=TEMPERATURE, ranks=Ranks())
    )


@pytest.mark.parametrize("case", cases())
def test_loss_and_gradient_equal_trls(make_trl, make_model, make_groups, score_groups, make_job, case: Case) -> None:
    model, groups = _batch(make_model, make_groups, score_groups)
    recorded = _record(case.ours, make_model, groups)
    job = make_job(loss=case.ours, temperature=TEMPERATURE)
    theirs = _theirs(make_trl(**case.theirs), _trl_inputs(groups, recorded))
    for share in (True, False):
        _agree(_ours(model, groups, job, recorded, share=share), theirs)


def test_answers_that_are_masked_for_their_length_leave_the_token_mean_as_in_trl(
    make_trl, make_model, make_groups, score_groups, make_job
) -> None:
    model, groups = _batch(make_model, make_groups, score_groups)
    marked = [replace(g, truncated_K=(i == 0, i < 2, False, i == 0)) for i, g in enumerate(groups)]
    marked[2] = replace(groups[2], truncated_K=(True,) * GROUP_SIZE)
    inputs = _trl_inputs(marked, Recorded())
    kept = torch.tensor([[not t] for group in marked for t in group.truncated_K])
    inputs["completion_mask"] = inputs["completion_mask"] * kept
    inputs["num_items_in_batch"] = inputs["completion_mask"].sum()
    job = make_job(temperature=TEMPERATURE)
    theirs = _theirs(make_trl(loss_type="dapo"), inputs)
    _agree(_ours(model, without_truncated(marked), job, Recorded()), theirs)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_truncated_importance_weights_equal_trls(
    make_trl, make_model, make_groups, score_groups, make_job, level
) -> None:
    model, groups = _batch(make_model, make_groups, score_groups)
    start = make_model()
    with torch.no_grad():
        for number, parameter in enumerate(start.parameters()):
            generator = torch.Generator().manual_seed(number)
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
    loss = choose_loss(importance_cap=1.4, importance_level=level)
    job = make_job(loss=loss, temperature=TEMPERATURE)
    recorded = record_batch(start, groups, job, ranks=Ranks(), reference=None)
    inputs = _trl_inputs(groups, recorded)
    sampled = _pad([p for g in groups for p in g.sampler_logprobs_K_T], left=False, dtype=torch.float32)
    differences = (inputs["old_per_token_logps"] - sampled) * inputs["completion_mask"]
    if level == "sequence":
        differences = differences.sum(-1, keepdim=True)
    inputs["importance_sampling_ratio"] = differences.exp().clamp(max=1.4)
    trl = make_trl(loss_type="dapo")
    # The weights are an input of TRL's loss when vLLM sampled; there is none here.
    trl.use_vllm, trl.vllm_importance_sampling_correction = True, True
    assert (inputs["importance_sampling_ratio"] == 1.4).any()
    _agree(_ours(model, groups, job, recorded), _theirs(trl, inputs))


def test_the_bounds_act_in_these_batches(make_model, make_groups, score_groups, make_job) -> None:
    model, groups = _batch(make_model, make_groups, score_groups)
    (micro_batch,) = pack_groups(groups, tokens_per_micro_batch=4096, share_prompts=True)
    inputs = loss_inputs(model, micro_batch, make_job(temperature=TEMPERATURE), Recorded())
    by_token = policy_loss(choose_loss()).log_ratios(inputs).exp()
    assert (by_token > 1.28).any()
    assert (by_token < 0.8).any()
    assert ((by_token > 1.3) & (inputs.advantages_N < 0)).any()
    by_answer = policy_loss(choose_loss(policy_loss="gspo")).log_ratios(inputs).exp()
    assert ((by_answer > 1.04) & (inputs.advantages_N > 0)).any()
    assert ((by_answer < 0.97) & (inputs.advantages_N < 0)).any()
