"""A critic: its loss in numbers, what it learns, and that it is in the checkpoint and in no policy."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file

from components.algorithms.losses import MinibatchSize
from components.config import AdapterConfig, TrainingConfig
from components.models.adapters import ADAPTER_FOLDER
from components.models.digests import model_digest
from components.models.value_head import add_value_head, hidden_states, predict_values
from components.population.asynchronous import discount_stale_batch
from components.schema import PolicyVersion, TrainBatch, TrainGroup
from components.training.base import MODEL_FOLDER, TRAINING_FOLDER, CriticTerms
from components.training.checkpoint import write_initial_adapter
from components.training.critic import judge, record_values, value_loss
from components.training.forward import completion_logprobs
from components.training.packing import pack_groups
from components.training.rank_batches import RecordedValues
from components.training.ranks import Ranks
from tests.sections import choose_loss

pytestmark = pytest.mark.usefixtures("forked")

CRITIC = CriticTerms(discount=0.9, trace=0.5, value_coefficient=0.5)
LOSS = choose_loss(mismatch_tolerance=100.0, importance_cap=2.0)
TRAINING = TrainingConfig(learning_rate=1e-2, tokens_per_micro_batch=256, num_minibatches=1)


def chain(groups: list[TrainGroup], returns: list[float]) -> list[TrainGroup]:
    """Each of four rows of a group is of an episode of its own; the groups of one agent follow each other in it."""
    return [
        replace(group, moves_K=tuple((k, number) for k in range(4)), advantages_K=(returns[number],) * 4)
        for number, group in enumerate(groups)
    ]


@pytest.fixture
def headed(make_model):
    """A model whose critic of policy p is not 0."""
    model = make_model()
    bare = model_digest(model)
    add_value_head(model, "p")
    assert model_digest(model) == bare  # engines compute the digest without a critic
    with torch.no_grad():
        for tensor in model.value_heads.parameters():
            tensor.copy_(torch.linspace(-1, 1, tensor.numel()).reshape(tensor.shape) + 0.3)
    return model


def test_values_are_of_the_last_token_of_each_prompt(headed, make_groups, jobs) -> None:
    groups = chain(make_groups(5), [0.0] * 5)
    job = jobs.first(groups, critic=CRITIC)
    recorded = record_values(headed, groups, job, ranks=Ranks(0, 1, None))
    for group, values in zip(groups, recorded.of_rows(groups), strict=True):
        with torch.no_grad():
            hidden = headed.model(input_ids=torch.tensor([group.prompt_tokens])).last_hidden_state[0, -1:]
            assert values == pytest.approx([float(predict_values(headed, "p", hidden))] * 4, abs=1e-5)


def test_the_loss_is_the_weighed_squared_error_and_moves_head_and_policy(headed, make_groups, jobs) -> None:
    groups = chain(make_groups(2), [2.0, -1.0])
    job = jobs.first(groups, critic=CRITIC)
    values = record_values(headed, groups, job, ranks=Ranks(0, 1, None))
    (micro_batch,) = pack_groups(groups, tokens_per_micro_batch=4096, share_prompts=True)
    judged = judge(groups, values, CRITIC)
    with hidden_states(headed) as hidden:
        completion_logprobs(headed, micro_batch, temperature=1.0)
    size = MinibatchSize(num_completions=16, num_tokens=99)  # as one of two micro-batches
    loss = value_loss(headed, hidden[-1], micro_batch, judged.targets, job, size=size)
    first, second = (rows[0] for rows in values.of_rows(groups))
    # Agents a and b act once an episode each: the target is what was earned.
    assert float(loss.detach()) == pytest.approx(0.5 * 4 * ((first - 2) ** 2 + (second + 1) ** 2) / 16, rel=1e-4)
    assert [group.advantages_K[0] for group in judged.groups] == pytest.approx([2 - first, -1 - second], abs=1e-5)
    loss.backward()
    assert all(tensor.grad.abs().sum() > 0 for tensor in headed.value_heads.parameters())
    assert headed.model.layers[0].self_attn.q_proj.weight.grad.abs().sum() > 0


def test_advantages_follow_an_agent_from_group_to_group(headed, make_groups, jobs) -> None:
    groups = chain(make_groups(4), [2.8, 0.0, 2.0, 0.0])  # a acts in moves 0 and 2
    values = record_values(headed, groups, jobs.first(groups, critic=CRITIC), ranks=Ranks(0, 1, None))
    v = [rows[0] for rows in values.of_rows(groups)]
    last = 2.0 - v[2]
    wanted = 2.8 - v[0] + 0.81 * (v[2] - 2.0 + 0.5 * last)
    assert judge(groups, values, CRITIC).groups[0].advantages_K == pytest.approx([wanted] * 4, abs=1e-4)


def test_a_critic_that_is_right_gives_no_advantages_however_old_the_weights(make_groups) -> None:
    returns = [2.0, -1.0, 0.5]
    groups = chain(make_groups(3), returns)
    played = PolicyVersion(policy="p", step=4, weights_digest="w")
    batch = TrainBatch(policy="p", step=5, groups=tuple(groups), num_groups_without_signal=0, version=played)
    aged = discount_stale_batch(batch, 0.5).groups
    lengths = [len(tokens) for group in groups for tokens in group.completions_K_T]
    starts = (torch.tensor(lengths).cumsum(0) - torch.tensor(lengths)).reshape(3, 4).numpy()
    tokens = torch.tensor(lengths).reshape(3, 4).sum(1)
    for off in (0.0, 1.0):
        values = RecordedValues(torch.tensor([earned - off for earned in returns]).repeat_interleave(tokens), starts)
        alone = CRITIC.model_copy(update={"discount": 0.0, "advantage_weight": 0.7})
        judged = judge(aged, values, alone)
        assert [group.advantages_K for group in judged.groups] == [pytest.approx((0.7 * off,) * 4, abs=1e-6)] * 3
        rows = [target for group in judged.targets.of_rows(groups) for target in group]
        assert rows == pytest.approx([earned for earned in returns for _ in range(4)])


@pytest.mark.parametrize(("kind", "dtype"), [("adapter", "float32"), ("full", "bfloat16")])
def test_a_restarted_critic_goes_on_bit_for_bit_and_is_in_no_policy(
    kind: str, dtype: str, make_trainer, jobs, make_groups, make_model, score_groups, initial, tmp_path: Path
) -> None:
    training = TRAINING.model_copy(update={"dtype": dtype})
    model = initial[0] / MODEL_FOLDER
    if kind == "adapter":
        adapter = AdapterConfig(rank=2, targets=("q_proj", "v_proj"))
        jobs.initial = (
            tmp_path / "start",
            write_initial_adapter(model, tmp_path / "start", "p", adapter=adapter, seed=0),
        )
        (tmp_path / "start" / MODEL_FOLDER).symlink_to(model)
    rng = Random(0)
    groups = chain(score_groups(make_model(), make_groups(6)), [rng.uniform(2, 3) for _ in range(6)])
    trainer, errors = make_trainer(training), []
    given = {"training": training, "loss": LOSS, "critic": CRITIC}
    job, result = jobs.first(groups, **given), None
    try:
        for number in range(8):
            job = jobs.after(job, result, groups, **given) if number else job
            result = trainer.update(job)
            errors.append(result.metrics["value_error"])
            if kind == "adapter":
                (job.output_folder / MODEL_FOLDER).symlink_to(model)
        trainer.close()
        cold = job.model_copy(update={"output_folder": job.output_folder.with_name("cold")})
        assert trainer.update(cold) == result
    finally:
        trainer.close()
    assert errors[0] == pytest.approx(2.5, abs=0.3)  # it expects nothing at first
    assert errors[-1] < 0.9 * errors[0]
    stored = load_file(job.output_folder / TRAINING_FOLDER / "optimizer-00000-of-00001.safetensors")
    heads = [name for name in stored if name.startswith("weight/") and "value_heads" in name]
    assert len(heads) == 2
    folder, file = (ADAPTER_FOLDER, "adapter_model") if kind == "adapter" else (MODEL_FOLDER, "model")
    policy = load_file(job.output_folder / folder / f"{file}.safetensors")
    assert policy
    assert not [name for name in policy if "value_heads" in name]
