"""The trainer's forward: log-probabilities of all completion tokens of a micro-batch from one pass through the model.

Works with any Hugging Face causal language model with sdpa attention, which accepts a prepared 4-D mask. In one that
`replace_where_exact` found to allow it, long rows attend as trees and no whole logits are made.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from components.training.packing import Ints, MicroBatch
from components.training.row_attention import ROW_ATTENTION, attention_mask, plan_rows
from components.training.token_logprobs import EntropyNeed, TokenQuery, compute_at_layer, compute_at_logits

PLAIN = "gives_logits"
"""On an output layer: what it gives are the model's logits, which nothing changes."""


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """A micro-batch on a device, ready for the model. C distributions predict tokens, several where completions fork.

    `predicting_S_T` marks the cells whose logits are needed. `cells_C` is the index among these of the one that each
    distribution is computed from; None: each of one. They differ from cells where equal beginnings have other temperatures or
    choices. P pairs of a distribution and a token differ from each other; `pairs_N` is the index of each completion token's.
    `temperatures_C`, 0 for the update's, is None if no group has its own. `allowed_C_A` are the tokens among which those of a
    distribution are drawn, as in the micro-batch.
    """

    tokens_S_T: Tensor
    positions_S_T: Tensor
    predicting_S_T: Tensor
    cells_C: Tensor | None
    distributions_P: Tensor
    targets_P: Tensor
    pairs_N: Tensor
    num_distributions: int
    temperatures_C: Tensor | None = None
    allowed_C_A: Tensor | None = None

    def make_query(self, temperature: float, need: EntropyNeed) -> TokenQuery:
        """What is computed at the logits, at `temperature` where no group has its own."""
        divisors_C = torch.full((self.num_distributions,), temperature, device=self.targets_P.device)
        if self.temperatures_C is not None:
            divisors_C = torch.where(self.temperatures_C == 0, divisors_C, self.temperatures_C)
        return TokenQuery(divisors_C, self.distributions_P, self.targets_P, need, self.allowed_C_A)


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
    device = device_of(model)
    inputs = model_inputs(micro_batch, device)
    query = inputs.make_query(temperature, need)
    layer = find_plain_layer(model)
    with answering(layer, query, inputs.cells_C):
        output = model(
            input_ids=inputs.tokens_S_T,
            position_ids=inputs.positions_S_T,
            use_cache=False,
            logits_to_keep=inputs.predicting_S_T,
            **attention_inputs(model, micro_batch.ends_S_T),
        )
    found_P = output.logits
    if layer is None:
        found_P = compute_at_logits(found_P if inputs.cells_C is None else found_P[inputs.cells_C], query)
    assert found_P.dtype == torch.float32, f"log-probabilities in {found_P.dtype}"
    found_N = found_P[inputs.pairs_N]
    if not need.values:
        return found_N[:, 0], None
    return found_N[:, 0], found_N[:, 1] if need.gradient else found_N[:, 1].detach()


def attention_inputs(model: nn.Module, ends_S_T: Ints) -> dict[str, Any]:
    """The arguments of `model` that say which columns attend to which."""
    device = device_of(model)
    trees = plan_rows(ends_S_T, device) if _text_config(model)._attn_implementation == ROW_ATTENTION else None
    if trees is not None:
        return {"attention_mask": trees.no_mask, "row_trees": trees}
    return {"attention_mask": attention_mask(torch.from_numpy(ends_S_T).to(device))}


def find_plain_layer(model: nn.Module) -> nn.Linear | None:
    """The output layer of `model` if it may answer in place of logits; an adapter on it makes it another one."""
    layer = _whole(model).get_output_embeddings()
    return layer if type(layer) is nn.Linear and getattr(layer, PLAIN, False) else None


@contextmanager
def answering(layer: nn.Linear | None, query: TokenQuery, cells_C: Tensor | None) -> Iterator[None]:
    """Inside, `layer` gives the answers (P, 1 or 2) to `query` in place of logits, in its own forward, in which ZeRO 3 has its
    weight whole."""
    if layer is None:
        yield
        return

    def answer(hidden: Tensor) -> Tensor:
        hidden_C_X = hidden.reshape(-1, hidden.shape[-1])
        return compute_at_layer(hidden_C_X if cells_C is None else hidden_C_X[cells_C], layer, query)

    layer.forward = answer  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        del layer.forward


def _whole(model: nn.Module) -> Any:
    """The Hugging Face model in a learner, or `model` itself."""
    return getattr(model, "module", model)


def _text_config(model: nn.Module) -> Any:
    return _whole(model).config.get_text_config()


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
        cells_C = cells_N[first_C] if len(first_C) > predicting_S_T.sum() else None
    pairs_N_2 = np.stack([distributions_N.reshape(-1), micro_batch.targets_N], axis=1)
    pairs_P_2, pairs_N = np.unique(pairs_N_2, axis=0, return_inverse=True)

    def on_device(array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    return ModelInputs(
        tokens_S_T=on_device(micro_batch.tokens_S_T),
        positions_S_T=on_device(micro_batch.positions_S_T),
        predicting_S_T=on_device(predicting_S_T),
        cells_C=None if cells_C is None else on_device(cells_C),
        distributions_P=on_device(pairs_P_2[:, 0]),
        targets_P=on_device(pairs_P_2[:, 1]),
        pairs_N=on_device(pairs_N.reshape(-1)),
        num_distributions=int(predicting_S_T.sum()) if first_C is None else len(first_C),
        temperatures_C=None if own_N is None else on_device(own_N[first_C]),
        allowed_C_A=None if allowed_N_A is None else on_device(allowed_N_A[first_C]),
    )


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's parameters."""
    return next(model.parameters()).device
