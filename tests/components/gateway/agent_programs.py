"""Programs of agents for tests: they know an address and a key, and nothing of Troupe."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx


def ask(model: str, *texts: str, tools: Any = None) -> str:
    """The answer to a conversation in which user and assistant speak in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]
    body = {"model": model, "messages": messages, **({"tools": tools} if tools else {})}
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    answer = httpx.post(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json=body, headers=headers, timeout=60, verify=False
    )
    answer.raise_for_status()
    return str(answer.json()["choices"][0]["message"]["content"])


def hand_on(problem: dict[str, Any]) -> str:
    """A clerk and a boss speak in turn, three times; what they said is left as a file."""
    said = []
    for number in range(problem["num_rounds"]):
        said.append(ask("clerk", f"{problem['name']} {number} after {said[-1:]}"))
        said.append(ask("boss", f"{number}: {said[-1]}"))
    Path("said.txt").write_text("\n".join(said))
    return said[-1]


def ask_at_once(problem: dict[str, Any]) -> str:
    """As `hand_on`, but both are asked at the same time."""
    said: list[str] = []
    with ThreadPoolExecutor(2) as threads:
        for number in range(problem["num_rounds"]):
            texts = {role: f"{problem['name']} {number} to {role} after {said[-2:]}" for role in ("clerk", "boss")}
            said += threads.map(ask, texts, texts.values())
    Path("said.txt").write_text("\n".join(said))
    return said[-1]


def talk(problem: dict[str, Any]) -> str:
    """One conversation that grows with each call."""
    said = [f"be brief, {problem['name']}"]
    for number in range(problem["num_calls"]):
        said += [ask("clerk", *said), f"{number}? " * 3]
    return said[-2]


def ask_beside_its_work(problem: dict[str, Any]) -> str:
    """A title first, as some agents do, then two calls that offer a tool."""
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
    ask("clerk", "a title for this talk, please")
    first = ask("clerk", "add", tools=tools)
    return ask("clerk", "add", first, "again", tools=tools)


def crash(problem: dict[str, Any]) -> str:
    ask("clerk", "before it goes wrong")
    raise RuntimeError("the program's own fault")


def give_up(problem: dict[str, Any]) -> str:
    """Go while an answer is sampled."""
    body = {"model": "clerk", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    try:
        httpx.post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json=body, headers=headers, timeout=0.3)
    except httpx.ReadTimeout:
        return "gone"
    return "answered"


def ask_nothing(problem: dict[str, Any]) -> str:
    return "idle"


def hang(problem: dict[str, Any]) -> str:
    ask("clerk", "before it hangs")
    time.sleep(600)
    return "never"


def ask_for_ever(problem: dict[str, Any]) -> str:
    for number in range(1000):
        ask("clerk", str(number))
    return "never"


def die_at_times(problem: dict[str, Any]) -> str:
    """As `hand_on`, but killed after its first answer until its folder of marks holds `num_deaths`; one that `differs` says how
    many there are."""
    marks = Path(problem["marks"])
    num_deaths = len(list(marks.iterdir()))
    ask("clerk", f"{problem['name']} 0 after []" + f" and {num_deaths} deaths" * problem["differs"])
    if num_deaths < problem["num_deaths"]:
        (marks / str(num_deaths)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return hand_on(problem)


def get_further(problem: dict[str, Any]) -> str:
    """Is killed after one answer more in each of five lives."""
    marks = Path(problem["marks"])
    num_deaths = len(list(marks.iterdir()))
    for number in range(6):
        said = ask("clerk", f"question {number}")
        if number == num_deaths < 5:
            (marks / str(num_deaths)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return said


def ask_at_random(problem: dict[str, Any]) -> str:
    """Each life of it asks something else."""
    ask("clerk", "hello")
    ask("clerk", os.urandom(8).hex())
    return ask("clerk", "bye")
