"""The weights that all arms start from: a tiny model cloned from noisy expert play of the one agent, alone.

The project's own cloning shows the last agent proposals too, which it never sees when it plays alone; here it is shown none.

    python -m tests.benchmarks.versus_trl.warm_start ORDER.json
"""

import json
import sys
from functools import partial
from pathlib import Path

from components.generation.tokenizer import HuggingFaceTokenizer
from components.rollout.prompts import encode_observation
from components.training.demonstrations import Student, Teacher
from components.training.models import prepare_model_folder
from components.training.warm_start import WarmStartReport, warm_start
from tasks.run import Run
from tasks.session import Session
from tasks.warm_start import success_of
from tests.benchmarks.versus_trl.game import POLICY, ROLE, Order, run_config


def clone(order: Order) -> WarmStartReport:
    """Write the cloned model into `order.model_folder`."""
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
    return warm_start(
        {POLICY: student},
        Teacher(family=family, turn_order=(ROLE,), options=options, config=config.warm_start, seed=config.seed),
        success_of=lambda versions: success_of(session, {POLICY: folder}, versions),
        num_threads=config.generation.num_threads,
    )


if __name__ == "__main__":
    ordered = Order(**json.loads(Path(sys.argv[1]).read_text()))
    report = clone(ordered)
    print(f"cloned in {report.num_steps} steps: success {report.success_rate:.3f}")
    ordered.result_file.write_text(json.dumps({"success": report.success_rate, "num_steps": report.num_steps}))
