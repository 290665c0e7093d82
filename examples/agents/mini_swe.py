"""A task in a shell, by mini-swe-agent: it executes what the policy writes, so it belongs in a box."""

import json
import os
from pathlib import Path

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

model = LitellmModel(
    model_name="openai/coder",
    cost_tracking="ignore_errors",
    model_kwargs={"api_base": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]},
)
agent = DefaultAgent(
    model, LocalEnvironment(), system_template="Use the shell.", instance_template="{{task}}", step_limit=4
)
agent.run(json.loads(Path("problem.json").read_text(encoding="utf-8"))["task"])
