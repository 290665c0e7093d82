"""The optimizer on disk in bfloat16, where it keeps float32 weights of its own; in a process of its own, as DeepSpeed wants."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.preflight.checks import imitates_bfloat16

ROOT = Path(__file__).resolve().parents[3]

_SCRIPT = """
import copy, json, sys
from pathlib import Path
from components.training.deepspeed_backend import RealDeepSpeed
import deepspeed, torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from components.models.digests import tensors_digest
from components.config import TrainingConfig
from components.training.optimizer_state import read_optimizer, write_optimizer
from components.training.ranks import Ranks

class Job:
    pass

def step(learner, number):
    tokens = torch.arange(12)[None] + number
    learner.set_gradient_accumulation_boundary(True)
    learner.backward(learner(input_ids=tokens, labels=tokens).loss, scale_wrt_gas=False)
    learner.step()

deepspeed.init_distributed(dist_backend="gloo")
outputs, files = Path(sys.argv[1]), Path(sys.argv[2])
shape = dict(vocab_size=30, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4, head_dim=8)
for stage in (0, 1, 3):
    training = TrainingConfig(zero_stage=stage, learning_rate=1e-2, weight_decay=0.1)
    job = Job()
    job.training = training.model_copy(update={"dtype": "bfloat16"})
    real = RealDeepSpeed(job.training, json.loads((files / f"zero{stage}.json").read_text()))
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(intermediate_size=64, tie_word_embeddings=True, **shape)).to(torch.bfloat16)

    def weights(learner):
        with real.whole(list(learner.module.parameters())):
            return {name: tensor.detach().clone() for name, tensor in learner.module.named_parameters()}

    warm = real.learner(copy.deepcopy(model), job)
    for number in range(3):
        step(warm, number)
    written = write_optimizer(warm, outputs / str(stage), Ranks())
    model.load_state_dict(weights(warm), strict=False)
    step(warm, 3)
    cold = real.learner(model, job)
    read = read_optimizer(cold, outputs / str(stage), Ranks())
    step(cold, 3)
    ended = [tensors_digest(weights(learner)) for learner in (warm, cold)]
    print("FOUND", json.dumps([written, read, cold.global_steps, *ended]))
"""


@pytest.mark.slow
def test_bfloat16_goes_on_bit_by_bit_and_every_stage_takes_the_same_steps(tmp_path: Path) -> None:
    values = {"DS_ACCELERATOR": "cpu", "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1"}
    network = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path), str(ROOT / "infra" / "deepspeed")],
        env={**os.environ, **values, **network},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line.removeprefix("FOUND")) for line in done.stdout.splitlines() if line.startswith("FOUND")]
    assert len(found) == 3
    for written, read, num_steps, warm, cold in found:
        assert read == written
        assert num_steps == 4
        assert cold == warm
    # Where bfloat16 is imitated, sums depend on how a stage cuts the parameters.
    assert len({warm for *_, warm, _ in found}) == 1 or imitates_bfloat16()
