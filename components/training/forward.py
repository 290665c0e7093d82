"""The trainer's forward: log-probabilities of all completion tokens of a micro-batch from one pass through the model.

Works with any Hugging Face causal language model with sdpa or eager attention, which accept a prepared 4-D mask.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from components.training.packing import PADDING, PROMPT, MicroBatch


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """A micro-batch on a device, ready for the model. C cells predict tokens, several where completions fork.

    `mask_S_T_T[s, 0, q, k]` is true where column q of sequence s attends to column k. `predicting_S_T` marks the C cells whose
    logits are needed; `cells_N` is the index of the cell that predicts each completion token. `temperatures_C`, 0 for the
    update's, is None if no group has its own: all tokens that a cell predicts are of one group.
    """

    tokens_S_T: Tensor
    positions_S_T: Tensor
    mask_S_T_T: Tensor
    predicting_S_T: Tensor
    cells_N: Tensor
    targets_N: Tensor
    temperatures_C: Tensor | None = None


def completion_logprobs(model: nn.Module, micro_batch: MicroBatch, *, temperature: float) -> Tensor:
    """The float32 log-probabilities (N,) of the completion tokens under `softmax(logits / temperature)`, differentiable.

    They are in the order of `micro_batch.targets_N`. Logits are computed only where a completion token is predicted. A group's
    own temperature comes before `temperature`.
    """
    inputs = model_inputs(micro_batch, device_of(model))
    return _gathered(cell_logprobs(model, inputs, temperature=temperature), inputs)


def logprobs_and_entropies(
    model: nn.Module, micro_batch: MicroBatch, *, temperature: float, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """`completion_logprobs` and, for each token, the entropy of the distribution it was drawn from, in nats; both (N,).

    Without `entropy_gradient` the entropies are detached, which saves the memory of their graph.
    """
    inputs = model_inputs(micro_batch, device_of(model))
    logprobs_C_V = cell_logprobs(model, inputs, temperature=temperature)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        entropies_C = -(logprobs_C_V.exp() * logprobs_C_V).sum(-1)
    return _gathered(logprobs_C_V, inputs), entropies_C[inputs.cells_N]


def cell_logprobs(model: nn.Module, inputs: ModelInputs, *, temperature: float) -> Tensor:
    """Log-probabilities (C, V) over the vocabulary at the predicting cells, in float32."""
    output = model(
        input_ids=inputs.tokens_S_T,
        attention_mask=inputs.mask_S_T_T,
        position_ids=inputs.positions_S_T,
        use_cache=False,
        logits_to_keep=inputs.predicting_S_T,
    )
    logits_C_V: Tensor = output.logits
    divisor: float | Tensor = temperature
    if (own_C := inputs.temperatures_C) is not None:
        divisor = torch.where(own_C == 0, temperature, own_C)[:, None]
    return (logits_C_V.float() / divisor).log_softmax(-1)


def model_inputs(micro_batch: MicroBatch, device: torch.device) -> ModelInputs:
    """`micro_batch` as tensors on `device`."""
    predicting_S_T = np.zeros(micro_batch.tokens_S_T.shape, bool)
    predicting_S_T[micro_batch.rows_N, micro_batch.columns_N] = True
    cell_of_S_T = predicting_S_T.reshape(-1).cumsum().reshape(predicting_S_T.shape) - 1

    def on_device(array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    cells_N = cell_of_S_T[micro_batch.rows_N, micro_batch.columns_N]
    temperatures_C = None
    if micro_batch.temperatures_N is not None:
        temperatures_C = np.zeros(predicting_S_T.sum(), np.float32)
        temperatures_C[cells_N] = micro_batch.temperatures_N
    return ModelInputs(
        tokens_S_T=on_device(micro_batch.tokens_S_T),
        positions_S_T=on_device(micro_batch.positions_S_T),
        mask_S_T_T=attention_mask(on_device(micro_batch.segments_S_T)),
        predicting_S_T=on_device(predicting_S_T),
        cells_N=on_device(cells_N),
        targets_N=on_device(micro_batch.targets_N),
        temperatures_C=None if temperatures_C is None else on_device(temperatures_C),
    )


def attention_mask(segments_S_T: Tensor) -> Tensor:
    """The attention mask: (S, 1, T, T) booleans, query axis before key axis.

    A token attends to the prompt and to its own completion up to itself. Padding attends to itself, because the softmax of
    a row without keys would be NaN.

    **Example** segments [0, 1, 2, -1] give rows [1,0,0,0], [1,1,0,0], [1,0,1,0], [0,0,0,1].
    """
    queries, keys = segments_S_T[:, :, None], segments_S_T[:, None, :]
    num_columns = segments_S_T.shape[1]
    ones = torch.ones(num_columns, num_columns, dtype=torch.bool, device=segments_S_T.device)
    related = ((queries == keys) | (keys == PROMPT)) & (queries != PADDING)
    return ((related & ones.tril()) | torch.diag(ones.diagonal()))[:, None]


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's parameters."""
    return next(model.parameters()).device


def _gathered(logprobs_C_V: Tensor, inputs: ModelInputs) -> Tensor:
    return logprobs_C_V[inputs.cells_N, inputs.targets_N]
