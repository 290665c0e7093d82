"""The weights that all arms start from: a tiny model cloned from noisy expert play of the one agent, alone.

The project's own cloning shows the last agent proposals too, which it never sees when it plays alone; here it is shown none.

    python -m benchmarks.versus_trl.warm_start ORDER.json
"""

import json
import sys
from functools import partial
from pathlib import Path

from benchmarks.versus_trl.game import ROLE
from benchmarks.versus_trl.order import Order
from benchmarks.versus_trl.registry import run_config
from benchmarks.versus_trl.task import POLICY
from components.methods.first_checkpoints import success_of
from components.models.loading import prepare_model_folder
from components.models.tokenizer import HuggingFaceTokenizer
from components.rollout.prompts import encode_observation
from components.runs.run import Run
from components.session.session import Session
from components.training.demonstrations import Student, Teacher
from components.training.warm_start import warm_start


def clone(order: Order) -> tuple[int, float]:
    """Write the cloned model into `order.model_folder`; the number of steps, and the success at the last check."""
    config = run_config(order)
    config = config.model_copy(
        update={"policies": {POLICY: config.policies[POLICY].model_copy(update={"base": "tiny"})}}
    )
    session = Session(Run(run_id="versus-trl", config=config))
    family, options = session.scenario.family, session.scenario.options
    folder = Path(order.model_folder)
    prepare_model_folder(config.policies[POLICY], alphabet=family.alphabet(options), seed=config.seed, into=folder)
    tokenizer = HuggingFaceTokenizer.from_folder(folder)
    encode = partial(encode_observation, tokenizer=tokenizer, prompt_format="compact")
    student = Student(folder=folder, roles=(ROLE,), tokenizer=tokenizer, encode=encode)
    checks: list[tuple[int, float | None]] = []
    warm_start(
        {POLICY: student},
        Teacher(family=family, turn_order=(ROLE,), options=options, config=config.warm_start, seed=config.seed),
        success_of=lambda versions: success_of(session, {POLICY: folder}, versions),
        progress=lambda step, _, __, success: checks.append((step, success)),
        num_threads=config.generation.num_threads,
    )
    num_steps, success = checks[-1]
    assert success is not None, "the last step has no check"
    return num_steps, success


if __name__ == "__main__":
    ordered = Order(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    num_steps, success = clone(ordered)
    print(f"cloned in {num_steps} steps: success {success:.3f}")
    ordered.result_file.write_text(
        json.dumps({"told": f"warm start: success {success:.3f}", "success": success, "num_steps": num_steps}),
        encoding="utf-8",
    )
