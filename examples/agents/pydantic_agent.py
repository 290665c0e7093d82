"""Tickets into queues, on pydantic-ai: the answer is a value of a type."""

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel


class Assignment(BaseModel):
    queue: Literal["billing", "shipping", "returns", "technical"]


clerk = Agent(OpenAIChatModel("clerk"), output_type=Assignment)
said = clerk.run_sync(json.loads(Path("problem.json").read_text(encoding="utf-8"))["ticket"])
Path("queue.txt").write_text(said.output.queue, encoding="utf-8")
