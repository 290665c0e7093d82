"""A program that asks three policies: two learn, each on problems of its own, and a judge does not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from components.frozen import Frozen
from troupe import AgentProgram, ProgramEnd, ProgramEnvironment, Step

NOTE = {"type": "function", "function": {"name": "note", "parameters": {"type": "object", "properties": {}}}}


class RelayOptions(Frozen):
    """How long a program's work is."""

    num_rounds: int = 6


class Relay(ProgramEnvironment):
    """Worth the share of vowels in what a program leaves."""

    roles = ("first", "second", "judge")
    Options = RelayOptions
    weights: ClassVar[Mapping[str, float]] = {"team.vowels": 1.0}

    def draw(self, options: RelayOptions, rng: Any) -> Mapping[str, Any]:
        author = rng.choice(["first", "second"])
        return {"author": author, "name": rng.randrange(10**6), "num_rounds": options.num_rounds}

    def program(self, problem: Mapping[str, Any]) -> AgentProgram:
        return AgentProgram(function="tests.integration.agent_team:write", outputs=("said.json",), seconds=300.0)

    def finish(self, state: Any, end: ProgramEnd) -> Step:
        said = "".join(json.loads(end.files.get("said.json", "[]")))
        share = sum(letter in "aeiou" for letter in said.lower()) / max(len(said), 1)
        return Step(state=state, solved=share > 0.5, team={"vowels": share})


def write(problem: dict[str, Any]) -> str:
    """Ask an author for one word after another, the judge after every second one, and first for a title."""
    import openai

    with openai.OpenAI() as client:

        def ask(model: str, messages: list[Any], **also: Any) -> str:
            return (
                client.chat.completions.create(model=model, messages=messages, **also).choices[0].message.content or ""
            )

        title = ask(problem["author"], [{"role": "user", "content": f"A title for {problem['name']}"}])
        messages: list[Any] = [{"role": "user", "content": f"Begin {problem['name']}"}]
        said = []
        for number in range(problem["num_rounds"]):
            said.append(ask(problem["author"], messages, tools=[NOTE]))
            verdict = ask("judge", [{"role": "user", "content": said[-1] or "?"}], tools=[NOTE]) if number % 2 else ""
            messages += [{"role": "assistant", "content": said[-1]}, {"role": "user", "content": f"{number} {verdict}"}]
    Path("said.json").write_text(json.dumps(said))
    return title
