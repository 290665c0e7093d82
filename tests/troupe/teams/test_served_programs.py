"""A program asks a served team as it asks the gateway of an evaluation, by the same names."""

import sys
from pathlib import Path

import pytest

from components.runs.initial_checkpoints import record_initial_checkpoints
from components.runs.lineages import freeze_config
from components.runs.run import Run
from components.session.session import Session
from components.user_code import import_object
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE
from tasks.warm_start import warm_start
from troupe.teams.run_team import find_run, run_team
from troupe.teams.serving import serve_team

TELLER = """
from troupe import AgentProgram, ProgramEnvironment, Step

WAYS = {"type": "string", "enum": ["left", "right", "straight on", "back", "up", "down"]}
GO = {"name": "go", "parameters": {"type": "object", "properties": {"way": WAYS}, "required": ["way"]}}

class Teller(ProgramEnvironment):
    roles = ("first", "second")

    def draw(self, options, rng):
        return {"n": rng.randrange(10**6)}

    def program(self, problem):
        return AgentProgram(function="own_teller:tell", models={"gpt-5": "first"}, sub_agents="second")

    def finish(self, state, end):
        return Step(state=state, solved="left" in end.output)

def tell(problem):
    import openai

    said, parent = [], {"x-claude-code-parent-agent-id": "1"}
    with openai.OpenAI() as client:
        for headers in ({}, parent) * 2:
            asked = [{"role": "user", "content": f"{problem['n']} {said}"}]
            tools = [{"type": "function", "function": GO}]
            answer = client.chat.completions.create(
                model="gpt-5", messages=asked, tools=tools, temperature=0, extra_headers=headers
            )
            said.append(answer.choices[0].message.tool_calls[0].function.arguments)
    return " ".join(said)
"""
CONFIG = """
num_steps: 1
environment: {name: "own_teller:Teller", max_turns: 2, answer_format: choice}
agents: {first: {policy: ann}, second: {policy: bob}}
policies:
  ann: &small {base: tiny, tiny: {hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64}, adapter: {rank: 4}}
  bob: *small
rollout: {mode: independent}
algorithm: {advantage: grpo}
warm_start: {max_steps: 0}
tracking: {kind: none}
"""


def test_a_program_gets_from_a_served_team_what_an_evaluation_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_teller.py").write_text(TELLER)
    (tmp_path / "teller.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    config = preset_config("teller.yaml", [f"store={{kind: local, root: {tmp_path / 'store'}}}"])
    with Session(Run(run_id="teller", config=config)) as session:
        warm_start.fn(session)
        freeze_config(session.store, "teller", config, TEAM_PIPELINE)
        record_initial_checkpoints(session.store, session.run, TEAM_PIPELINE)
    run = find_run("teller", (tmp_path / "store").as_uri())
    team = run_team(run, 0)
    with serve_team(team, key="k") as served:
        episodes = [team.play(index) for index in range(2)]
        assert served.models == ("first", "second", "ann", "bob", "gpt-5")
        monkeypatch.setenv("OPENAI_BASE_URL", served.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        tell = import_object("tell", "own_teller:tell")
        told = [tell(dict(each.problem.payload)) for each in episodes]
    assert told == [each.ended and each.ended.output for each in episodes]
    assert [node.policy for node in episodes[0].nodes] == ["ann", "bob"] * 2
    sys.modules.pop("own_teller", None)
