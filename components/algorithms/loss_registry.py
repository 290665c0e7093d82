"""Policy losses by their name in the configuration: built-in, or custom as `module:function`."""

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from components.algorithms.cispo import CISPO
from components.algorithms.clip import CLIP
from components.algorithms.gspo import GSPO
from components.algorithms.loss_inputs import LossInputs, PolicyLoss
from components.config import LossConfig
from components.errors import ConfigurationError
from components.user_code import as_config_error, load_function, source_location

POLICY_LOSSES: Mapping[str, PolicyLoss] = {"clip": CLIP, "gspo": GSPO, "cispo": CISPO}
TAKES = ("inputs", "config")
"""The parameters of a custom policy loss, a LossInputs and the LossConfig. It returns the loss of each token (N,)."""


def policy_loss(config: LossConfig) -> PolicyLoss:
    """The policy loss that `config` names. Raises ConfigurationError if custom code cannot be used."""
    return POLICY_LOSSES.get(config.policy_loss) or _own(config.policy_loss, config.source)


@cache
def _own(name: str, source: str | None) -> PolicyLoss:
    function = load_function("loss.policy_loss", name, takes=TAKES, source=source)
    what = f"loss.policy_loss {name!r}"

    def losses(inputs: LossInputs, config: LossConfig) -> Tensor:
        if not inputs.logprobs_N.numel():
            return inputs.logprobs_N  # a rank without tokens still takes part in the backward pass
        with as_config_error(what):
            found = function(inputs, config)
        if fault := _fault(found, inputs.logprobs_N):
            raise ConfigurationError(f"{what}: {source_location(function)}: {fault}")
        checked: Tensor = found
        return checked

    return PolicyLoss(losses=losses)


def _fault(found: object, logprobs_N: Tensor) -> str | None:
    """What is wrong with the returned value; None if it is the loss of each token."""
    shape = f"({len(logprobs_N)},), one loss per token"
    if not isinstance(found, Tensor):
        return f"returned {type(found).__name__}; return a tensor of shape {shape}"
    if found.shape != logprobs_N.shape:
        return f"returned the shape {tuple(found.shape)}; return {shape}"
    if not found.is_floating_point():
        return f"returned {found.dtype}; return floats"
    if num_broken := int((~torch.isfinite(found)).sum()):
        return f"returned {num_broken} of {len(found)} losses that are not finite"
    if logprobs_N.requires_grad and not found.requires_grad:
        return "returned losses that do not depend on inputs.logprobs_N, so that nothing can be learned"
    return None
