"""Behaviour cloning of a noisy expert, so that reinforcement learning starts from a weak but well-formed team.

Limited by steps, never by time: equal arguments give equal weights.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from components.config import WarmStartConfig
from components.errors import ConfigurationError, WarmStartTooWeak
from components.machine.torch_state import computing_with
from components.models.digests import model_digest
from components.models.model_folder import write_weights
from components.schema import PolicyVersion, TrainGroup
from components.training.architectures import check_trainable
from components.training.checkpoint import load_model
from components.training.demonstrations import Student, Teacher
from components.training.forward import completion_logprobs
from components.training.packing import pack_groups

_ADAM_BETAS = (0.9, 0.98)
_WEIGHT_DECAY = 0.01
_MAX_GRAD_NORM = 1.0
_TOKENS_PER_MICRO_BATCH = 16384

SuccessOf = Callable[[Mapping[str, PolicyVersion]], float]
"""Plays the team with the weights in the students' folders, whose versions are given, at temperature 1 and without the tree;
returns the fraction of solved problems."""
Progress = Callable[[int, int, float, float | None], None]
"""(step, max_steps, loss, success), called after every step; success is None between checks."""


@dataclass(slots=True)
class _Clone:
    """A student in training."""

    student: Student
    model: nn.Module
    optimizer: torch.optim.Optimizer
    num_updates: int = 0


def warm_start(
    students: Mapping[str, Student],
    teacher: Teacher,
    *,
    success_of: SuccessOf,
    progress: Progress | None = None,
    num_threads: int = 1,
) -> None:
    """Clone `students` (by policy name) until the team reaches min_success, and write their weights into their folders.

    Steps cycle through the roles. Every `check_every` steps the weights are written and `success_of` plays them; cloning
    stops at the first check that reaches `min_success`. With `max_steps` 0 the random weights are accepted as they are.

    Raises WarmStartTooWeak below min_success at `max_steps`, ConfigurationError above `max_success`.
    """
    config = teacher.config
    if config.max_steps == 0:
        return
    roles = [role for role in teacher.roles if any(role in student.roles for student in students.values())]
    with computing_with(num_threads):
        clones = {policy: _clone(student, config) for policy, student in students.items()}
        for step in range(config.max_steps):
            role = roles[step % len(roles)]
            clone = next(clone for clone in clones.values() if role in clone.student.roles)
            loss = _learn(clone, teacher.lesson(clone.student, role, step), config)
            success = None
            if (step + 1) % config.check_every == 0 or step + 1 == config.max_steps:
                success = success_of(_write(clones, step + 1))
            if progress is not None:
                progress(step + 1, config.max_steps, loss, success)
            if success is not None and success >= config.min_success:
                break
    assert success is not None, "the last step has no check"
    _check_success(success, step + 1, config)


def _clone(student: Student, config: WarmStartConfig) -> _Clone:
    model = load_model(student.folder)
    check_trainable(model, share_prompts=True, longest_row=_TOKENS_PER_MICRO_BATCH)
    model = model.float().train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, betas=_ADAM_BETAS, weight_decay=_WEIGHT_DECAY, fused=True
    )
    return _Clone(student=student, model=model, optimizer=optimizer)


def _learn(clone: _Clone, groups: list[TrainGroup], config: WarmStartConfig) -> float:
    """Take one optimizer step on the demonstrated tokens; returns the loss before it."""
    clone.num_updates += 1
    for settings in clone.optimizer.param_groups:
        settings["lr"] = config.learning_rate * min(1.0, clone.num_updates / max(1, config.num_warmup_steps))
    num_tokens = sum(len(tokens) for group in groups for tokens in group.completions_K_T)
    clone.optimizer.zero_grad()
    total = 0.0
    for micro_batch in pack_groups(groups, tokens_per_micro_batch=_TOKENS_PER_MICRO_BATCH, share_prompts=True):
        loss = -completion_logprobs(clone.model, micro_batch, temperature=1.0).sum() / num_tokens
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    nn.utils.clip_grad_norm_(clone.model.parameters(), _MAX_GRAD_NORM)
    clone.optimizer.step()
    return total


def _write(clones: Mapping[str, _Clone], step: int) -> dict[str, PolicyVersion]:
    """Write every clone's weights into its folder; returns their versions."""
    versions = {}
    for policy, clone in clones.items():
        write_weights(clone.model, clone.student.folder)
        versions[policy] = PolicyVersion(policy=policy, step=step, weights_digest=model_digest(clone.model))
    return versions


def _check_success(success: float, num_steps: int, config: WarmStartConfig) -> None:
    if success < config.min_success:
        raise WarmStartTooWeak(
            f"after warm_start.max_steps {config.max_steps} steps the team solves {success:.3f} of "
            f"{config.num_check_problems} problems, below warm_start.min_success {config.min_success}: raise max_steps, lower "
            "noise, use a smaller environment or a larger model (policies.<name>.tiny)"
        )
    if success > config.max_success:
        raise ConfigurationError(
            f"warm_start.max_success {config.max_success}: after {num_steps} steps the team already solves "
            f"{success:.3f} of {config.num_check_problems} problems, which leaves too little to learn: "
            f"lower check_every {config.check_every}, raise noise {config.noise}, or use a larger environment"
        )
