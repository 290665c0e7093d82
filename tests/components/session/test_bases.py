"""What a model that is made from nothing needs of its environment, and a pretrained one does not."""

from pathlib import Path
from typing import Any

import pytest

from components.config import RunConfig
from components.errors import ConfigurationError
from components.methods.first_checkpoints import check_bases
from components.session.scenario import scenario_of
from components.session.stores import open_store
from tasks.warm_start import warm_start
from tests.sections import make_config as make_team_config

ECHO = """
from troupe import Environment, Step


class Echo(Environment):
    roles = ("pupil",)

    def draw(self, options, rng):
        return {"number": rng.randrange(1000)}

    def observe(self, state, agent):
        return str(state["number"])

    def step(self, state, agent, answer):
        return Step(state=state, solved=answer == str(state["number"]))
"""


def make_config(folder: Path, module: str, **policy: Any) -> RunConfig:
    store = {"kind": "local", "root": str(folder / "store")}
    return make_team_config(f"{module}:Echo", "pupil", policies={"p": policy}, store=store)


def check(config: RunConfig) -> None:
    check_bases(open_store(config.store), scenario_of(config), warm_start.stage)


def test_only_a_model_that_is_made_from_nothing_needs_an_expert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "silent_echo.py").write_text(ECHO)
    (tmp_path / "shown_echo.py").write_text(
        f"{ECHO}\n    def expert(self, state, agent):\n        return str(state['number'])\n"
    )
    remedies = r"policies\.<name>\.base.*warm_start: {max_steps: 0}"
    with pytest.raises(ConfigurationError, match=rf"'silent_echo:Echo' has no expert.*{remedies}") as caught:
        check(make_config(tmp_path, "silent_echo", base="tiny"))
    assert "\n" not in str(caught.value)
    check(make_config(tmp_path, "shown_echo", base="tiny"))
    pretrained = {"api": {"provider": "openai", "model": "any"}, "prompt_format": "chat", "trained": False}
    check(make_config(tmp_path, "silent_echo", **pretrained))
