"""The method `hybrid`: what has no effect, or does not fit, is refused by name with a remedy."""

from typing import Any

import pytest

from components.config import parse_config
from components.config.hybrid import Homebrew, find_tuned_model
from components.errors import ConfigurationError, ServiceMissing
from components.methods.hybrid import settings
from components.methods.hybrid.settings import check_cartridge, check_hybrid
from components.session.scenario import scenario_of
from flows.presets import preset_values

MODEL = {
    "agents": {"player": {"policy": "m"}},
    "policies": {"m": {"base": "smollm2-135m", "prompt_format": "chat", "trained": False}},
}


def stage(name: str, llm_confidence: float) -> dict[str, Any]:
    return {"name": name, "reward_threshold": 1.0, "llm_confidence": llm_confidence}


def taught(**curriculum: Any) -> dict[str, Any]:
    return {"mode": {"type": "adaptive", "curriculum": curriculum}}


def config(method: dict[str, Any] | None = None, /, **sections: Any) -> Any:
    values = preset_values()["hybrid-tiny"]
    return parse_config(
        {**values, "method": values["method"] if method is None else {"type": "hybrid", **method}, **sections}
    )


@pytest.mark.parametrize(
    ("said", "hybrid", "sections"),
    [
        ("method.game.rom: unknown key; type crystal has it", {"game": {"type": "homebrew", "rom": "roms/x.gbc"}}, {}),
        ("method.game.rom: required and missing", {"game": "crystal"}, {}),
        ("method.game.starts: unknown key; type twin has it", {"game": {"starts": {}}}, {}),
        ("method.mode.strategy: unknown key; type adaptive has it", {"mode": {"type": "rl_only", "strategy": "balanced"}}, {}),
        ("learner.network cnn: game twin has no screen to see; set game to homebrew",
         {"game": "twin", "learner": {"network": "cnn"}}, {}),
        ("method.learner.network.state_gains: unknown key; type mlp has it",
         {"learner": {"network": {"type": "cnn", "state_gains": {"x": 25.0}}}}, {}),
        ("method.mode.questions_per_episode: unknown key; type adaptive has it",
         {"mode": {"type": "llm_only", "questions_per_episode": 9}}, MODEL),
        ("method.mode: strategy balanced and curriculum exclude each other",
         {"mode": {"type": "adaptive", "strategy": "balanced", "curriculum": {}}}, MODEL),
        ("stages.1.llm_confidence 0.9 is above that of the stage before, 0.5: trust only falls; lower it, or change the order",
         taught(stages=[stage("a", 0.5), stage("b", 0.9)]), MODEL),
        ("stages: two are called 'a'; give each a name", taught(stages=[stage("a", 0.5)] * 2), MODEL),
        ("method.mode.curriculum.stages.0.llm_confidense: unknown key",
         taught(stages=[{**stage("a", 0.5), "llm_confidense": 1}]), MODEL),
        ("method.mode.curriculum.decay", taught(decay=0.0), MODEL),
        ("weights.subgoals pays for subgoals, and there are none", {"weights": {"subgoals": 1.0}}, {}),
        ("method.conditions: unknown key", {"conditions": "python", "subgoals": ["exit: x > 7"]}, {}),
        ("share 0.1: help only falls", {"game": {"type": "twin", "starts": {"share": 0.1}}}, {}),
        ("method.mode adaptive asks a language model", {"mode": "adaptive"}, {}),
        ("method.mode rl_only asks no language model", {}, MODEL),
        ("name it player", {"mode": "adaptive"}, {**MODEL, "agents": {"hero": {"policy": "m"}}}),
        ("policies.m.trained: a teacher presses no buttons to learn from", {"mode": "teacher"},
         {**MODEL, "policies": {"m": {"base": "tiny"}}}),
        ("rollout: method hybrid does not read this section", {"mode": "adaptive"}, {**MODEL, "rollout": {"group_size": 4}}),
        ("algorithm: method hybrid does not read this section; leave it out", {}, {"algorithm": {"advantage": "grpo"}}),
        ("environment.options.game: leave it out; a hybrid run plays method.game", {},
         {"environment": {"name": "game_boy", "options": {"game": "homebrew"}}}),
        ("hybrid plays game_boy; name that", {}, {"environment": {"name": "plan_path"}}),
        ("hybrid: unknown key; write method: {type: hybrid, ...}", {}, {"hybrid": {"game": "twin"}}),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(said: str, hybrid: dict[str, Any], sections: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        config(hybrid, **sections)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("said", "hybrid"),
    [
        ("state_gains.altitude: no state variable", {"learner": {"network": {"state_gains": {"altitude": 2.0}}}}),
        ("method.subgoals: line 1", {"subgoals": ["win: fight()"]}),
        ("neither party nor badges pays", {"subgoals": ["exit: x > 7"], "weights": {"party": 0.0, "badges": 0.0}}),
        ("weight step 1.0: give a finite number up to 0", {"weights": {"step": 1.0}}),
    ],
)
def test_what_the_game_does_not_know_is_refused_before_anything_starts(said: str, hybrid: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_hybrid(scenario_of(config(hybrid)))
    assert said in str(refused.value)


def test_a_rom_that_is_not_there_is_asked_for_with_its_place() -> None:
    with pytest.raises(ConfigurationError, match=r"rom roms/crystal.gbc: there is no such file. Put your own copy"):
        check_cartridge("crystal", parse_config(preset_values()["hybrid-crystal"]).method.game.rom)  # type: ignore[union-attr]


def test_an_emulator_and_pictures_need_what_draws_them_and_are_turned_off_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    off = {"tracking": {"kind": "none", "episode_pictures": False}}
    assert not config({"mode": "rl_only", "game": "homebrew"}, **off).tracking.episode_pictures
    with pytest.raises(ConfigurationError, match=r"tracking.episode_pictures false: only a hybrid run on an emulator"):
        config({"mode": "rl_only", "game": "twin"}, **off)
    assert config({}).method.game == Homebrew()
    monkeypatch.setattr(settings, "find_spec", lambda name: None if name == "pyboy" else name)
    with pytest.raises(
        ServiceMissing, match=r"PyBoy: get it by `pip install 'troupe\[hybrid\]'`, or set method.game to twin"
    ):
        check_cartridge("homebrew")
    check_cartridge("twin")
    monkeypatch.setattr(settings, "find_spec", lambda name: None if name == "PIL" else name)
    check_cartridge("homebrew")
    with pytest.raises(ServiceMissing, match=r"tracking.episode_pictures needs Pillow: .* or set it to false"):
        check_cartridge("homebrew", makes_pictures=True)


def test_a_model_may_be_asked_and_a_history_is_kept_where_it_is() -> None:
    asked = config({"mode": "adaptive"}, **MODEL).method
    assert (asked.asks_model, asked.has_history) == (True, True)
    alone = config({"mode": "teacher", "subgoals": ["exit: map_number == 3"]}).method
    assert (alone.asks_model, alone.has_history) == (False, False)


def test_a_model_that_learns_has_a_loss_and_a_training() -> None:
    policies = {"m": {"base": "tiny"}}
    made = config({"mode": "llm_only"}, **{**MODEL, "policies": policies}, loss={"entropy_coefficient": 0.5})
    assert find_tuned_model(made) == "m"
    assert find_tuned_model(config({"mode": "llm_only"}, **MODEL)) is None


def test_a_stored_configuration_with_a_model_is_read_again() -> None:
    made = config({"mode": "adaptive"}, **MODEL)
    assert parse_config(made.model_dump(mode="json")) == made
