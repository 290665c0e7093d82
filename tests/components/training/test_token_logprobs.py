import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.training import token_logprobs as module
from components.training.token_logprobs import EntropyNeed, TokenQuery, compute_at_layer, compute_at_logits

NEEDS = [EntropyNeed(), EntropyNeed(True), EntropyNeed(True, True)]


def whole(logits_C_V: torch.Tensor, query: TokenQuery) -> torch.Tensor:
    """The oracle: autograd through the softmax of whole logits, in float64; choices as a softmax over what is allowed alone."""
    logprobs, entropies = [], []
    for c, (logits_V, divisor) in enumerate(zip(logits_C_V.double(), query.divisors_C.double(), strict=True)):
        allowed = [] if query.allowed_C_A is None else [token for token in query.allowed_C_A[c].tolist() if token >= 0]
        among = torch.tensor(allowed) if allowed else torch.arange(len(logits_V))
        logprobs_A = (logits_V[among] / divisor).log_softmax(-1)
        for target in query.targets_P[query.distributions_P == c].tolist():
            logprobs.append(logprobs_A[among.tolist().index(target)])
            entropies.append(-(logprobs_A.exp() * logprobs_A).sum())
    found = torch.stack([torch.stack(logprobs), torch.stack(entropies)], 1)
    return found if query.need.gradient else torch.stack([found[:, 0], found[:, 1].detach()], 1)


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    num_cells, vocabulary, width = (draw(st.integers(1, most)) for most in (9, 30, 7))
    random = torch.Generator().manual_seed(draw(st.integers(0, 99)))

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random)

    layer = torch.nn.Linear(width, vocabulary, bias=draw(st.booleans()))
    layer.load_state_dict({name: normal(*value.shape) * 2 for name, value in layer.state_dict().items()})
    chooses = torch.rand(num_cells, generator=random) < draw(st.sampled_from([0.0, 0.5]))
    allowed_C_A = torch.full((num_cells, 4), -1)
    pairs = set()
    for c in range(num_cells):
        tokens = torch.randperm(vocabulary, generator=random)[:3].tolist()
        allowed_C_A[c, : len(tokens)] = torch.tensor(tokens) if chooses[c] else -1
        pairs |= {(c, token) for token in tokens[: draw(st.integers(0, len(tokens)))]}
    pairs |= set() if pairs else {(num_cells - 1, tokens[0])}
    distributions_P, targets_P = torch.tensor(sorted(pairs)).T
    return {
        # Steep ones too, where nearly all probability is one token's.
        "hidden": normal(num_cells, width) * draw(st.sampled_from([0.3, 3.0])),
        "layer": layer.requires_grad_(draw(st.booleans())),
        "query": TokenQuery(
            torch.rand(num_cells, generator=random) + 0.5,
            distributions_P.contiguous(),
            targets_P.contiguous(),
            draw(st.sampled_from(NEEDS)),
            allowed_C_A if chooses.any() else None,
        ),
        "weights": normal(len(targets_P), 2),
        "rows": draw(st.integers(1, 9)),
    }


@given(problems())
@settings(max_examples=150, deadline=None)
def test_values_and_gradients_are_those_of_whole_logits(problem: dict[str, Any]) -> None:
    """To 1e-6 of what they sum, for layers that are trained and that are not, with and without a bias, and of logits alone."""
    layer, query, weights = problem["layer"], problem["query"], problem["weights"]
    size = len(layer.weight)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ELEMENTS_PER_BLOCK", {"cpu": problem["rows"] * size})
        patch.setattr(module, "_ELEMENTS_PER_PART", {"cpu": 2 * size})
        results = []
        for how in ("oracle", "layer", "logits"):
            exact = how == "oracle"
            inputs = [problem["hidden"], *layer.parameters()]
            hidden, *parameters = ((x.double() if exact else x).detach().requires_grad_() for x in inputs)
            for live, found in zip(layer.parameters(), parameters, strict=True):
                found.requires_grad_(live.requires_grad)
            if how == "layer":
                found = torch.func.functional_call(
                    _AsModule(layer, query), dict(zip(_names(layer), parameters, strict=True)), (hidden,)
                )
            else:
                logits = torch.nn.functional.linear(hidden, *parameters)
                found = whole(logits, query) if exact else compute_at_logits(logits, query)
            columns = found.shape[1] if not exact else 2 if query.need.values else 1
            (found * weights)[:, : 2 if query.need.gradient else 1].sum().backward()
            results.append([found[:, :columns].detach(), *(x.grad for x in (hidden, *parameters) if x.requires_grad)])
    expected, *others = results
    largest = float((layer(problem["hidden"]) / query.divisors_C[:, None]).detach().abs().max())
    # What a gradient sums before its terms cancel: no gradient of a value is known better than to the rounding of those.
    terms = float(
        weights.norm() * max(1.0, *(float(x.detach().norm()) for x in (problem["hidden"], *layer.parameters())))
    )
    for found in others:
        for place, (mine, exact) in enumerate(zip(found, expected, strict=True)):
            assert mine.dtype == torch.float32
            size = float(exact.norm()) + (terms if place else 0.0)
            # A logit is rounded by its size, and a probability by as much.
            assert float((mine - exact).norm()) <= 1e-6 * max(1.0, largest) * size + 1e-12


def _names(layer: torch.nn.Linear) -> list[str]:
    return [f"layer.{name}" for name, _ in layer.named_parameters()]


class _AsModule(torch.nn.Module):
    def __init__(self, layer: torch.nn.Linear, query: TokenQuery) -> None:
        super().__init__()
        self.layer, self.query = layer, query

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return compute_at_layer(hidden, self.layer, self.query)


@pytest.mark.parametrize("trained", [False, True])
def test_a_nearly_certain_token_keeps_its_gradient_in_bfloat16(trained: bool) -> None:
    """1 - p is 2e-4, less than bfloat16 tells apart from 0 beside 1; the gradient is right to its rounding."""
    random = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 8, generator=random).bfloat16().requires_grad_()
    layer = torch.nn.Linear(8, 50, bias=False).bfloat16().requires_grad_(trained)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(50, 8, generator=random))
        layer.weight[7] = hidden[1] * 4
    query = TokenQuery(torch.ones(3), torch.tensor([1]), torch.tensor([7]))
    compute_at_layer(hidden, layer, query).sum().backward()
    weight = layer.weight.detach()
    logits = (hidden.detach() @ weight.T).double().requires_grad_()
    expected = whole(logits, query)
    expected[:, 0].sum().backward()
    exact = logits.grad @ weight.double()
    assert -1e-3 < float(expected[0, 0].detach()) < -1e-6
    assert float((hidden.grad - exact).norm()) < 0.01 * float(exact.norm())


@pytest.mark.parametrize("trained", [False, True])
def test_no_matrix_of_tokens_by_vocabulary_is_made(trained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor in its gradient: the largest tensors are a block and what the weights take."""
    monkeypatch.setattr(module, "_ELEMENTS_PER_BLOCK", {"cpu": 4 * 512})
    hidden = torch.randn(64, 16, requires_grad=True)
    layer = torch.nn.Linear(16, 512, bias=False).requires_grad_(trained)
    query = TokenQuery(torch.ones(64), torch.arange(64), torch.arange(64), EntropyNeed(True))
    largest = _Largest()
    with largest:
        compute_at_layer(hidden, layer, query)[:, 0].sum().backward()
    assert largest.elements == 512 * 16


class _Largest(torch.utils._python_dispatch.TorchDispatchMode):
    elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        for each in found if isinstance(found, tuple | list) else [found]:
            if isinstance(each, torch.Tensor):
                self.elements = max(self.elements, each.numel())
        return found


def test_the_documented_example() -> None:
    layer = torch.nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0], [math.log(3)]]))
    query = TokenQuery(torch.ones(1), torch.tensor([0, 0]), torch.tensor([0, 1]), EntropyNeed(True))
    logprobs_P, entropies_P = compute_at_layer(torch.ones(1, 1), layer, query).T
    assert logprobs_P.tolist() == pytest.approx([math.log(0.25), math.log(0.75)])
    assert entropies_P.tolist() == pytest.approx([0.5623, 0.5623], abs=1e-4)
