"""LoRA adapters as values, and which of them may be mixed.

An adapter changes each target layer by `scale B A` with `scale = alpha / rank`. Only adapters of one base, rank, scale
and set of targets live in one space; a mean over others means nothing, so it is refused, and so is a member with a
number that is not finite, which would spread to every other. Tensors are named as PEFT saves them:
`<target>.lora_A.weight`, [rank, inputs], and `<target>.lora_B.weight`, [outputs, rank].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from components.errors import ConfigurationError

_A, _B = ".lora_A.weight", ".lora_B.weight"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adapter:
    """The tensors of one adapter. `base` is the digest of the model that it changes."""

    base: str
    scale: float
    weights: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        for name in self.weights:
            if not name.endswith((_A, _B)):
                raise ConfigurationError(f"tensor {name!r}: a LoRA adapter has names in {_A!r} and {_B!r} alone")
        for target in self.targets:
            if not {target + _A, target + _B} <= self.weights.keys():
                raise ConfigurationError(f"target {target!r}: give both of its tensors, {_A!r} and {_B!r}")
            a, b = self.a(target), self.b(target)
            if a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1]:
                raise ConfigurationError(
                    f"target {target!r}: A {list(a.shape)} and B {list(b.shape)}: use [rank, inputs] and [outputs, rank]"
                )

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the changed layers, sorted."""
        return tuple(sorted({name.removesuffix(_A).removesuffix(_B) for name in self.weights}))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the targets, in their order."""
        return tuple(self.a(target).shape[0] for target in self.targets)

    def a(self, target: str) -> Tensor:
        """A of a target, [rank, inputs]."""
        return self.weights[target + _A]

    def b(self, target: str) -> Tensor:
        """B of a target, [outputs, rank]."""
        return self.weights[target + _B]

    def weight_change(self, target: str) -> Tensor:
        """What the adapter adds to the weight of a target, `scale B A`, [outputs, inputs] in float64."""
        return self.scale * (self.b(target).double() @ self.a(target).double())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learner:
    """An adapter with the state of its Adam: both moments of each trained tensor, and the number of its updates."""

    adapter: Adapter
    num_updates: int = 0
    first_moments: Mapping[str, Tensor] = field(default_factory=dict)
    second_moments: Mapping[str, Tensor] = field(default_factory=dict)


def adapter_from_factors(base: str, scale: float, factors: Mapping[str, tuple[Tensor, Tensor]]) -> Adapter:
    """The adapter with (A, B) of each target."""
    weights: dict[str, Tensor] = {}
    for target, (a, b) in sorted(factors.items()):
        weights |= {target + _A: a, target + _B: b}
    return Adapter(base=base, scale=scale, weights=weights)


def check_mixable(adapters: Mapping[str, Adapter]) -> None:
    """Raise ConfigurationError unless all members have one base, scale, targets, shapes and type, and finite numbers.

    The message names the first field that differs, both members with their values, and the remedy.
    """
    if not adapters:
        raise ConfigurationError("members: none to mix; give one adapter or more")
    first_name, first = min(adapters.items())
    for name, adapter in sorted(adapters.items()):
        for what, value, other in (
            ("base", first.base, adapter.base),
            ("targets", first.targets, adapter.targets),
            ("rank", sorted(set(first.ranks)), sorted(set(adapter.ranks))),
            ("scale (alpha / rank)", first.scale, adapter.scale),
            *(
                (f"shape of {key}", list(first.weights[key].shape), _shape(adapter, key))
                for key in sorted(first.weights)
            ),
            *((f"type of {key}", first.weights[key].dtype, _type(adapter, key)) for key in sorted(first.weights)),
        ):
            if value != other:
                raise ConfigurationError(
                    f"{what}: {value} of {first_name!r}, {other} of {name!r}; mix members with equal base, rank, alpha"
                    " and targets, and coordinate the others in a group of their own"
                )
        for key, tensor in sorted(adapter.weights.items()):
            if not bool(torch.isfinite(tensor).all()):
                raise ConfigurationError(
                    f"{key} of {name!r}: holds NaN or infinity; take this member's previous version, or leave it out"
                )


def _shape(adapter: Adapter, key: str) -> list[int]:
    return list(adapter.weights[key].shape) if key in adapter.weights else []


def _type(adapter: Adapter, key: str) -> torch.dtype | None:
    return adapter.weights[key].dtype if key in adapter.weights else None


def check_shares(adapters: Mapping[str, object], shares: Mapping[str, float]) -> dict[str, float]:
    """The share of each member, in the order of the names. Raises ConfigurationError unless they are 0 or more and add to 1."""
    if shares.keys() != adapters.keys():
        raise ConfigurationError(f"shares for {sorted(shares)}, members {sorted(adapters)}: give one share each")
    if not all(share >= 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-9:
        raise ConfigurationError(f"shares {dict(sorted(shares.items()))}: use numbers of 0 or more that add to 1")
    return dict(sorted(shares.items()))


def equal_tensors(tensors: Sequence[Tensor]) -> bool:
    """Whether all tensors hold the same numbers."""
    return all(torch.equal(tensors[0], each) for each in tensors[1:])


def average_weighted(tensors: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    """`sum share x tensor` in the tensors' own type, computed in float64 as the first plus weighted differences to it.

    So the mean of equal tensors is that tensor to the bit, whatever the shares.

    **Example** 1 and 3 with shares .75 and .25: 1.5.
    """
    first = tensors[0].double()
    mean = first.clone()
    for tensor, share in zip(tensors[1:], shares[1:], strict=True):
        mean += share * (tensor.double() - first)
    return mean.to(tensors[0].dtype)
