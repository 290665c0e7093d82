"""TRL's GRPOTrainer on the same model, prompts and rewards, tuned or as it is shipped.

python -m benchmarks.versus_trl.trl_arm ORDER.json
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.versus_trl.order import AS_SHIPPED, FLOAT32_ADAPTER, SMALL_BATCHES, Order
from benchmarks.versus_trl.referee import Referee, seat_of
from benchmarks.versus_trl.registry import TASKS, run_config
from benchmarks.versus_trl.task import POLICY
from components.config import RunConfig


class Stopwatch(TrainerCallback):  # type: ignore[misc]
    """When each step ended."""

    def __init__(self) -> None:
        self.step_ended_at: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.step_ended_at.append(time.perf_counter())


def arguments(order: Order, config: RunConfig) -> GRPOConfig:
    """As shipped: only device, precision, lengths and the number of steps. Tuned: Troupe's batch, optimizer and loss, and
    nothing that costs time for nothing."""
    shared: dict[str, Any] = {
        "output_dir": str(Path(order.work_folder) / "trl"),
        "use_cpu": True,
        "bf16": False,
        "report_to": [],
        "disable_tqdm": True,
        "max_steps": order.num_steps,
        "max_completion_length": seat_of(config, TASKS[order.task].role).max_new_tokens,
        "seed": order.seed,
    }
    if order.arm == AS_SHIPPED:
        return GRPOConfig(**shared)
    training, loss = config.training, config.loss
    num_parts = max(order.num_samples // 8, 1) if order.arm == SMALL_BATCHES else 1
    return GRPOConfig(
        **shared,
        activation_checkpointing=False,
        per_device_train_batch_size=order.num_samples // num_parts,
        gradient_accumulation_steps=num_parts,
        steps_per_generation=num_parts,
        num_iterations=1,
        num_generations=order.group_size,
        shuffle_dataset=False,
        temperature=config.rollout.temperature,
        top_p=1.0,
        top_k=0,
        beta=0.0,
        epsilon=loss.clip_low,
        epsilon_high=loss.clip_high,
        loss_type="dapo",
        scale_rewards="group",
        learning_rate=training.learning_rate,
        lr_scheduler_type="constant",
        optim="adamw_torch_fused",
        adam_beta1=training.adam_betas[0],
        adam_beta2=training.adam_betas[1],
        weight_decay=training.weight_decay,
        max_grad_norm=training.max_grad_norm,
        dataloader_num_workers=0,
        save_strategy="no",
        logging_steps=order.num_steps,
    )


def model_of(order: Order, config: RunConfig) -> Any:
    """The model that is trained: all of its weights, or the policy's adapter on them.

    In bfloat16 the adapter is in bfloat16 too, which needs no casts, except in the arm with PEFT's default, one in float32.
    """
    model = AutoModelForCausalLM.from_pretrained(order.model_folder, dtype=getattr(torch, order.dtype))
    adapter = config.policies[POLICY].adapter
    if adapter is None:
        return model
    lora = LoraConfig(
        r=adapter.rank,
        lora_alpha=adapter.alpha,  # type: ignore[arg-type]  # PEFT divides it by the rank, so a float works
        target_modules=sorted(adapter.targets),
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
    )
    torch.manual_seed(order.seed)
    return get_peft_model(model, lora, autocast_adapter_dtype=order.arm == FLOAT32_ADAPTER)


def train(order: Order) -> dict[str, Any]:
    """Train as ordered; when steps ended, and how well they went."""
    torch.set_num_threads(order.num_threads)
    config = run_config(order)
    folder = Path(order.model_folder)
    referee, watch = Referee(config, TASKS[order.task].role, folder), Stopwatch()
    trainer = GRPOTrainer(
        model=model_of(order, config),
        reward_funcs=referee,
        args=arguments(order, config),
        train_dataset=Dataset.from_list(referee.prompts()),
        processing_class=AutoTokenizer.from_pretrained(folder),
        callbacks=[watch],
    )
    batch = trainer.args.generation_batch_size
    assert order.arm == AS_SHIPPED or batch == order.num_samples, f"{order.arm}: {batch} samples per step"
    trainer.train()
    recomputes = trainer.model.is_activation_checkpointing
    assert recomputes == (order.arm == AS_SHIPPED), f"{order.arm}: activations are recomputed: {recomputes}"
    return {
        "step_ended_at": watch.step_ended_at,
        "success_rates": referee.success_rates,
        "num_tokens": referee.num_tokens,
        "num_samples": batch,
        "num_threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    ordered = Order(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    ordered.result_file.write_text(json.dumps(train(ordered)), encoding="utf-8")
