"""A policy that always does the right thing, by tokens: the tools that its prompt offers, then the answer."""

import json
import time
from dataclasses import dataclass, field
from typing import Any

from components.gateway.encoder import ChatEncoder
from components.generation.base import Completion, GenerationRequest
from components.models.tokenizer import HuggingFaceTokenizer
from components.schema import PolicyVersion
from tests.components.gateway.talks import make_chat_tokenizer

VERSION = PolicyVersion(policy="team", step=3, weights_digest="d" * 16)
TOKENIZER = HuggingFaceTokenizer(make_chat_tokenizer())
ENCODER = ChatEncoder(TOKENIZER)
SHELLS = ("bash", "shell", "shell_command", "exec_command")
_KNOWN = {"path": "note.txt", "filePath": "note.txt", "timeout": 1000, "description": "work", "answer": "42 blue"}


@dataclass(slots=True)
class ScriptedPolicy:
    """Calls a calculator and a reader in turn, `num_calls` times, by name, in a shell or as code, and reports."""

    num_calls: int = 2
    seconds: float = 0.0
    asked: list[GenerationRequest] = field(default_factory=list)

    def sample(self, policy: str, request: GenerationRequest) -> tuple[Completion, ...]:
        self.asked.append(request)
        time.sleep(self.seconds)
        text = self.write(TOKENIZER.decode_with_specials(request.prompt_tokens))
        tokens = (*TOKENIZER.encode(text), TOKENIZER.end_token)
        logprobs = tuple(-0.5 for _ in tokens)
        return (Completion(tokens=tokens, logprobs=logprobs, finish_reason="stop", version=VERSION),)

    def write(self, prompt: str) -> str:
        """What it answers to a prompt."""
        said = prompt.count("<|start|>assistant\n") - 1
        tools = _read_tools(prompt)
        is_done = said >= self.num_calls
        sum_, command = "6*7" + "+0" * (said // 2), "cat note.txt" if said % 2 else "echo $((6*7))"
        if not tools and "<code>" in prompt:
            code = (
                "final_answer('42 blue')"
                if is_done
                else ("print(read_file('note.txt'))" if said % 2 else f"print(calculator('{sum_}'))")
            )
            return f"Thought: go.\n<code>\n{code}\n</code>"
        names = ("read_file", "read") if said % 2 else ("calculator",)
        name = next((name for name in (*names, *SHELLS) if name in tools), "")
        if is_done and ("bash" in tools and list(tools) == ["bash"]):
            name, command = "bash", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo 42 blue"
        elif is_done or not name:
            name = "final_answer" if "final_answer" in tools else ""
        if not name:
            return "42 blue" if tools else "a title"
        known = {**_KNOWN, "expression": sum_, "command": command, "cmd": command}
        schema = tools[name]["parameters"]
        arguments = {each: known[each] for each in schema.get("required") or list(schema["properties"])[:1]}
        call = f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"
        return f"Let me see. {call}" if said == 0 else call


def _read_tools(prompt: str) -> dict[str, Any]:
    """The tools by name, of the lines in which the gateway tells a model that knows none."""
    _, found, rest = prompt.partition("Tools, one JSON object a line:\n")
    tools = [json.loads(line) for line in rest.split("\nTo call one")[0].splitlines()] if found else []
    return {tool["name"]: tool for tool in tools}
