"""The weights that all arms start from: a pretrained model, as it is.

python -m benchmarks.versus_trl.pretrained_start ORDER.json
"""

import json
import sys
from pathlib import Path

from benchmarks.versus_trl.order import Order
from components.config import PolicyConfig
from components.models.loading import prepare_model_folder

BASE = "smollm2-135m"

if __name__ == "__main__":
    ordered = Order(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    policy = PolicyConfig(base=BASE, prompt_format="chat")
    prepare_model_folder(policy, alphabet="", seed=ordered.seed, into=Path(ordered.model_folder))
    ordered.result_file.write_text(json.dumps({"told": f"{BASE} as it is"}), encoding="utf-8")
