"""Tickets into queues, on LangGraph."""

import json
from pathlib import Path
from typing import Literal

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent


@tool(return_direct=True)
def assign(queue: Literal["billing", "shipping", "returns", "technical"]) -> str:
    """Put the ticket into a queue."""
    Path("queue.txt").write_text(queue, encoding="utf-8")
    return "done"


clerk = create_react_agent(ChatOpenAI(model="clerk"), [assign])
clerk.invoke({"messages": [("user", json.loads(Path("problem.json").read_text(encoding="utf-8"))["ticket"])]})
