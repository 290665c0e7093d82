"""An environment of one's own is tried before a run trusts it, and what is wrong has its file and line."""

import logging
from pathlib import Path

import pytest

from components.config import parse_config
from components.errors import ConfigurationError
from components.session.scenario import Scenario, scenario_of
from flows.preflight import checks, contract
from flows.preflight.contract import check_contract
from flows.presets import preset_config
from tests.recorded_calls import RecordedCalls

BASE = """
import random, time
from troupe import Environment, MalformedAnswer, Step

class Echo(Environment):
    roles = ("pupil",)
    max_answer_characters = 8
    def draw(self, options, rng): return {"number": rng.randrange(1000)}
    def observe(self, state, agent): return str(state["number"])
    def step(self, state, agent, answer): return Step(state=state, solved=answer == str(state["number"]))

class Mine(Echo):
    calls = 0
"""
LINE = BASE.count("\n") + 1


def own(folder: Path, name: str, method: str, **sections: object) -> Scenario:
    (folder / f"{name}.py").write_text(f"{BASE}{method}\n")
    values = {
        "num_steps": 1,
        "environment": {"name": f"{name}:Mine", "max_turns": 2},
        "agents": {"pupil": {"policy": "p"}},
        "policies": {"p": {}},
    }
    return scenario_of(parse_config(values | sections))


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("    def draw(self, options, rng): return {'number': random.randrange(1000)}", "equal seeds gave .* use only `rng`"),
        ("    def draw(self, options, rng): return {'number': time.time_ns()}", "equal seeds gave"),
        ("    def draw(self, options, rng): return {'number': (rng.random(), 1)}", "comes back from JSON"),
        ("    def observe(self, state, agent): return str(random.random())", r"observe\(\) gave two results"),
        ("    def observe(self, state, agent): return 3", r"observe\(\) returned int"),
        ("    def step(self, state, agent, answer): return 'hello'", r"step\(\) returned str"),
        ("    def step(self, state, agent, answer): return None", r"step\(\) returned NoneType"),
        ("    def step(self, state, agent, answer): return Step(state=state, solved=int(answer) == 1)", "ValueError"),
        ("    def step(self, state, agent, answer): return Step(state={'number': random.random()})", "had two effects"),
        ("    def step(self, state, agent, answer): return Step(state=state, local={'kind': 1.0})", "has no weight"),
        ("    def choices(self, state, agent): return [str(random.random())]", r"choices\(\) gave two lists"),
        ("    def next_role(self, state): return 'nobody'", "is no role"),
        ("    def render(self, state): return 3", r"render\(\) returned int"),
    ],
)  # fmt: skip
def test_what_breaks_the_contract_is_refused_with_file_and_line(
    method: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"broken_{abs(hash(request.node.name))}"
    with pytest.raises(ConfigurationError, match=rf"{name}\.py:{LINE}: .*{told}|{name}\.py:{LINE}.*{told}") as caught:
        check_contract(own(tmp_path, name, method))
    assert "\n" not in str(caught.value)


def test_what_never_returns_is_named_after_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(contract, "LIMIT_SECONDS", 2.0)
    waiting = "    def observe(self, state, agent):\n        time.sleep(600)"
    with pytest.raises(ConfigurationError, match=rf"waiting\.py:{LINE + 1}: has not returned after 2 s"):
        check_contract(own(tmp_path, "waiting", waiting))


def test_one_that_is_slow_is_not_tried_for_long_and_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(contract, "ENOUGH_SECONDS", 0.05)
    slow = (
        "    def step(self, state, agent, answer):\n        type(self).calls += 1\n        time.sleep(0.02)\n"
        "        return Step(state=state)"
    )
    scenario = own(tmp_path, "slow", slow)
    check_contract(scenario)
    assert type(scenario.family.environment).calls <= 12  # type: ignore[attr-defined]


def test_one_that_keeps_it_passes_and_built_in_ones_are_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    calls = RecordedCalls()
    calls.replace(monkeypatch, contract, "check_play")
    check_contract(own(tmp_path, "fine", ""))
    assert {tuple(call["problem"].payload) for _, call in calls} == {("number",)}
    assert len(calls) == 5, "one answer, to see how long it takes, and four problems"
    calls.clear()
    check_contract(scenario_of(preset_config("tiny")))
    assert not len(calls)


def test_a_reward_function_without_a_weight_is_named_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "weighed.py").write_text("def brevity(episode, node): return [0.0 for _ in node.candidates]\n")
    for weights, is_told in (({}, True), ({"own.brevity": 1.0}, False)):
        rewards = {"functions": ["weighed:brevity"], "weights": weights}
        with caplog.at_level(logging.WARNING):
            checks.check_own_code(own(tmp_path, "paid", "", rewards=rewards))
        assert ("own.brevity, so it has weight 1" in caplog.text) == is_told
        caplog.clear()
