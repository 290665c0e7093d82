"""An optimizer's state on disk, in pieces that any number of ranks can read.

<folder>/optimizer-00000-of-00002.safetensors    what the first of two ranks holds

Each rank writes its own pieces and reads those that overlap its own places, so nothing is gathered and no rank ever holds
more than its share. A piece is a flat tensor `<kind>/<start>/<parameter>`: the elements of one parameter from `start` on.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from components.errors import ArtifactCorrupt
from components.models.digests import join_digests, tensors_digest
from components.models.value_head import is_value_head
from components.training.ranks import Ranks

_MOMENTS = ("exp_avg", "exp_avg_sq")
_WEIGHT = "weight"
"""The optimizer's copy of the weights, saved if the model computes in another type, and for a critic, which is nowhere else."""
_COUNTS = "counts"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """This rank's part of one parameter: flat `held` from `offset` on is the flat parameter from `start` on."""

    parameter: str
    start: int
    length: int
    held: Tensor
    offset: int
    own_weight: bool

    def of(self, tensor: Tensor) -> Tensor:
        """This part of a tensor shaped like `held`, as a view."""
        return tensor.detach().view(-1)[self.offset : self.offset + self.length]


def write_optimizer(learner: Any, folder: Path, ranks: Ranks) -> str:
    """Write the optimizer of `learner`, which has taken a step, into `folder`; returns the digest of the state.

    If every rank holds the whole state, the first one writes it. Equal states of equally many ranks have equal digests.
    """
    num_files = ranks.size if learner.zero_optimization() else 1
    if ranks.first:
        folder.mkdir(parents=True)
    ranks.broadcast(None)  # no rank writes before the folder exists
    digest = None
    if ranks.rank < num_files:
        tensors = _pieces(learner, ranks)
        digest = tensors_digest(tensors)
        _save(tensors, folder / f"optimizer-{ranks.rank:05d}-of-{num_files:05d}.safetensors")
    return join_digests(str(part) for part in ranks.gather(digest)[:num_files])


def read_optimizer(learner: Any, folder: Path, ranks: Ranks) -> str:
    """Load the state in `folder` into the optimizer of a new `learner`; returns its digest.

    Raises ArtifactCorrupt when a file is missing, damaged, or of another model.
    """
    from safetensors import SafetensorError, safe_open

    try:
        paths = _files(folder)
        digest = _digest(paths, ranks)
        with ExitStack() as stack:
            _fill(learner, ranks, [stack.enter_context(safe_open(path, framework="pt")) for path in paths])
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ArtifactCorrupt(f"{folder} cannot be read: {error}") from error
    return digest


def make_fresh(learner: Any) -> None:
    """Undo the step with zero gradients in which DeepSpeed's bfloat16 optimizer without ZeRO creates its state.

    It would decay the weights once, and put Adam's bias correction one step ahead of other stages.
    """
    for parameter, copy in _copies(learner.optimizer):
        _inner(learner.optimizer).state.pop(copy, None)
        copy.data.copy_(parameter.data)


def places(learner: Any, ranks: Ranks) -> Iterator[Place]:
    """This rank's parts of the parameters that require gradients, in the order of the model."""
    optimizer = learner.optimizer
    whole = _list_unpartitioned(optimizer)
    for name, parameter in learner.module.named_parameters():
        if not parameter.requires_grad:
            continue
        if hasattr(parameter, "ds_id"):
            group, offset, length = optimizer.grad_position[optimizer.get_param_id(parameter)]
            held = optimizer.fp32_partitioned_groups_flat[group]
            start = length * ranks.rank
            length = min(length, parameter.ds_numel - start)  # the last part is padded
        elif not whole:
            mapping = parameter._hp_mapping  # None if other ranks hold all of it
            if mapping is None:
                continue
            held = _inner(optimizer).param_groups[mapping.param_group_index]["params"][0]
            start, offset = mapping.lp_fragment_address.start, mapping.hp_fragment_address.start
            length = mapping.lp_fragment_address.numel
        else:
            held, start, offset, length = whole[id(parameter)], 0, 0, parameter.numel()
        if length > 0:
            yield Place(
                parameter=name,
                start=start,
                length=length,
                held=held,
                offset=offset,
                own_weight=held.dtype != parameter.dtype or is_value_head(name),
            )


def _list_unpartitioned(optimizer: Any) -> dict[int, Tensor]:
    """By parameter id, what ZeRO 0's optimizer updates: the parameter or its float32 copy; empty for other stages."""
    if isinstance(optimizer, torch.optim.Optimizer):
        return {id(parameter): parameter for group in optimizer.param_groups for parameter in group["params"]}
    return {id(parameter): copy for parameter, copy in _copies(optimizer)}


def _copies(optimizer: Any) -> list[tuple[Tensor, Tensor]]:
    """Each parameter and the float32 copy that DeepSpeed's bfloat16 optimizer without ZeRO updates in its place."""
    copies = getattr(optimizer, "fp32_groups", [])
    parameters = optimizer.fp16_groups if copies else []
    return [pair for group in zip(parameters, copies, strict=True) for pair in zip(*group, strict=True)]


def _inner(optimizer: Any) -> Any:
    return getattr(optimizer, "optimizer", optimizer)


def _pieces(learner: Any, ranks: Ranks) -> dict[str, Tensor]:
    state = _inner(learner.optimizer).state
    steps = {int(values["step"]) for values in state.values()}
    assert len(steps) <= 1, f"parameters have taken different numbers of steps: {sorted(steps)}"
    pieces = {_COUNTS: torch.tensor([learner.global_steps, *steps])}
    for place in places(learner, ranks):
        kinds = {kind: state[place.held][kind] for kind in _MOMENTS}
        if place.own_weight:
            kinds[_WEIGHT] = place.held
        for kind, tensor in kinds.items():
            pieces[f"{kind}/{place.start}/{place.parameter}"] = place.of(tensor)
    return pieces


def _save(pieces: Mapping[str, Tensor], path: Path) -> None:
    from safetensors.torch import save_file

    save_file({name: piece.cpu().contiguous() for name, piece in pieces.items()}, path)


def _files(folder: Path) -> list[Path]:
    """The files of all ranks, in order. Raises ValueError when one is missing."""
    paths = sorted(folder.glob("optimizer-*-of-*.safetensors"))
    wanted = [f"optimizer-{number:05d}-of-{len(paths):05d}.safetensors" for number in range(len(paths))]
    if not paths or [path.name for path in paths] != wanted:
        raise ValueError(f"expected one file per rank, found {[path.name for path in paths]}")
    return paths


def _digest(paths: list[Path], ranks: Ranks) -> str:
    """The digest of all files, each read by one rank."""
    from safetensors.torch import load_file

    mine = {number: tensors_digest(load_file(paths[number])) for number in range(ranks.rank, len(paths), ranks.size)}
    digests: dict[str, str] = {}
    for text in ranks.gather(json.dumps(mine)):
        digests.update(json.loads(str(text)))
    return join_digests(digests[str(number)] for number in range(len(paths)))


def _fill(learner: Any, ranks: Ranks, files: list[Any]) -> None:
    """Copy the content of `files` into the optimizer's tensors, which are created first."""
    counts = max((file.get_tensor(_COUNTS).tolist() for file in files), key=len)
    pieces: dict[tuple[str, str], list[tuple[int, Any, str]]] = {}
    for file in files:
        for key in file.keys():  # noqa: SIM118  a safetensors file has no iterator
            if key != _COUNTS:
                kind, start, parameter = key.split("/", 2)
                pieces.setdefault((kind, parameter), []).append((int(start), file, key))
    learner.global_steps = counts[0]
    state = _inner(learner.optimizer).state
    for place in places(learner, ranks):
        values = state[place.held]
        if not values:  # places of ZeRO share one tensor
            values["step"] = torch.tensor(float(counts[1]))
            values.update({kind: torch.zeros_like(place.held) for kind in _MOMENTS})
        targets = {kind: values[kind] for kind in _MOMENTS}
        if place.own_weight:
            targets[_WEIGHT] = place.held
        for kind, tensor in targets.items():
            _copy(place, pieces.get((kind, place.parameter), []), into=place.of(tensor))
    heads = {id(parameter) for name, parameter in learner.module.named_parameters() if is_value_head(name)}
    for parameter, copy in _copies(learner.optimizer):
        if id(parameter) in heads:
            parameter.data.copy_(copy.data)


def _copy(place: Place, pieces: list[tuple[int, Any, str]], *, into: Tensor) -> None:
    """Copy the parts of `pieces` that overlap `place`. Raises ValueError when they do not fill it."""
    num_copied = 0
    for start, file, key in pieces:
        piece = file.get_slice(key)
        (length,) = piece.get_shape()
        begin, end = max(place.start, start), min(place.start + place.length, start + length)
        if begin < end:
            into[begin - place.start : end - place.start].copy_(piece[begin - start : end - start])
            num_copied += end - begin
    if num_copied != place.length:
        raise ValueError(
            f"only {num_copied} of {place.length} elements of {place.parameter} from {place.start} on were found"
        )
