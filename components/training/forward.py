"""The trainer's forward: log-probabilities of all completion tokens of a micro-batch from one pass through the model.

Works with any Hugging Face causal language model with sdpa or eager attention, which accept a prepared 4-D mask.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from components.training.packing import MicroBatch
from components.training.token_logprobs import EntropyNeed, choice_logprobs, token_logprobs


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """A micro-batch on a device, ready for the model. C distributions predict tokens, several where completions fork.

    `mask_S_T_T[s, 0, q, k]` is true where column q of row s attends to column k. `predicting_S_T` marks the cells whose logits
    are needed. `cells_C` is the index among these of the one that each distribution is computed from; None: each of one.
    They differ from cells where equal beginnings have other temperatures or choices. `distributions_N` is the index of the one
    that predicts each completion token. `temperatures_C`, 0 for the update's, is None if no group has its own. `allowed_C_A`
    are the tokens among which those of a distribution are drawn, as in the micro-batch.
    """

    tokens_S_T: Tensor
    positions_S_T: Tensor
    mask_S_T_T: Tensor
    predicting_S_T: Tensor
    cells_C: Tensor | None
    distributions_N: Tensor
    targets_N: Tensor
    temperatures_C: Tensor | None = None
    allowed_C_A: Tensor | None = None


def completion_logprobs(model: nn.Module, micro_batch: MicroBatch, *, temperature: float) -> Tensor:
    """The float32 log-probabilities (N,) of the completion tokens under `softmax(logits / temperature)`, differentiable; of
    answers by choice, among the tokens that continue a choice.

    They are in the order of `micro_batch.targets_N`. Logits are computed only where a completion token is predicted. A group's
    own temperature comes before `temperature`.
    """
    return _at_tokens(model, micro_batch, temperature, EntropyNeed())[0]


def logprobs_and_entropies(
    model: nn.Module, micro_batch: MicroBatch, *, temperature: float, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """`completion_logprobs` and, for each token, the entropy of the distribution it was drawn from, in nats; both (N,).

    Without `entropy_gradient` the entropies are detached, which saves the memory of their graph.
    """
    logprobs_N, entropies_N = _at_tokens(model, micro_batch, temperature, EntropyNeed(True, entropy_gradient))
    assert entropies_N is not None
    return logprobs_N, entropies_N


def _at_tokens(
    model: nn.Module, micro_batch: MicroBatch, temperature: float, need: EntropyNeed
) -> tuple[Tensor, Tensor | None]:
    inputs = model_inputs(micro_batch, device_of(model))
    output = model(
        input_ids=inputs.tokens_S_T,
        attention_mask=inputs.mask_S_T_T,
        position_ids=inputs.positions_S_T,
        use_cache=False,
        logits_to_keep=inputs.predicting_S_T,
    )
    logits_C_V = output.logits if inputs.cells_C is None else output.logits[inputs.cells_C]
    own_C = inputs.temperatures_C
    divisors_C = torch.full_like(logits_C_V[:, 0], temperature, dtype=torch.float32)
    if own_C is not None:
        divisors_C = torch.where(own_C == 0, divisors_C, own_C)
    if inputs.allowed_C_A is None:
        return token_logprobs(logits_C_V, divisors_C, inputs.distributions_N, inputs.targets_N, need)
    return choice_logprobs(logits_C_V, divisors_C, inputs.distributions_N, inputs.targets_N, need, inputs.allowed_C_A)


def predicting_cells(micro_batch: MicroBatch) -> tuple[np.ndarray, np.ndarray]:
    """Where logits are needed, booleans (S, T), and the index (N,) among these cells of the one that predicts each token."""
    predicting_S_T = np.zeros(micro_batch.tokens_S_T.shape, bool)
    predicting_S_T[micro_batch.rows_N, micro_batch.columns_N] = True
    cell_of_S_T = predicting_S_T.reshape(-1).cumsum().reshape(predicting_S_T.shape) - 1
    return predicting_S_T, cell_of_S_T[micro_batch.rows_N, micro_batch.columns_N]


def model_inputs(micro_batch: MicroBatch, device: torch.device) -> ModelInputs:
    """`micro_batch` as tensors on `device`."""
    predicting_S_T, cells_N = predicting_cells(micro_batch)
    own_N, allowed_N_A = micro_batch.temperatures_N, micro_batch.allowed_N_A
    kinds: list[np.ndarray] = [] if own_N is None else [own_N.view(np.int32)[:, None]]
    kinds += [] if allowed_N_A is None else [allowed_N_A]
    cells_C, distributions_N, first_C = None, cells_N, None
    if kinds:
        told_apart = np.concatenate([cells_N[:, None], *kinds], axis=1)
        _, first_C, distributions_N = np.unique(told_apart, axis=0, return_index=True, return_inverse=True)
        distributions_N = distributions_N.reshape(-1)
        cells_C = cells_N[first_C] if len(first_C) > predicting_S_T.sum() else None

    def on_device(array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    return ModelInputs(
        tokens_S_T=on_device(micro_batch.tokens_S_T),
        positions_S_T=on_device(micro_batch.positions_S_T),
        mask_S_T_T=attention_mask(on_device(micro_batch.ends_S_T)),
        predicting_S_T=on_device(predicting_S_T),
        cells_C=None if cells_C is None else on_device(cells_C),
        distributions_N=on_device(distributions_N),
        targets_N=on_device(micro_batch.targets_N),
        temperatures_C=None if own_N is None else on_device(own_N[first_C]),
        allowed_C_A=None if allowed_N_A is None else on_device(allowed_N_A[first_C]),
    )


def attention_mask(ends_S_T: Tensor) -> Tensor:
    """The attention mask: (S, 1, T, T) booleans, query axis before key axis.

    A token attends to itself and to those that it goes on from. Padding attends to itself, because the softmax of a row
    without keys would be NaN.

    **Example** ends [3, 2, 3, 4] give rows [1,0,0,0], [1,1,0,0], [1,0,1,0], [0,0,0,1].
    """
    columns_T = torch.arange(ends_S_T.shape[1], device=ends_S_T.device)
    begun = columns_T[None, :] <= columns_T[:, None]
    return (begun & (columns_T[:, None] < ends_S_T[:, None, :]))[:, None]


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's parameters."""
    return next(model.parameters()).device
