"""What `--suite` and `troupe play` name: a suite, and the configuration that it is played with."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.config import RunConfig, parse_config
from components.config.parsing import parse_section
from components.environments.registry import FAMILIES, family, family_options, list_installed_environments
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.evaluation.suites import Suite, different_problems, suite
from components.methods.base import method_for
from components.runs.run import Run
from components.session.scenario import scenario_of
from components.text.suggestions import suggest
from components.turn_order import BRANCHING
from components.user_code import is_custom, suggest_custom
from flows.own_files import with_environment_source
from flows.presets import all_preset_values, file_values, is_file, preset_config, suite_values, with_overrides

_log = logging.getLogger(__name__)
NUM_PROBLEMS = 100
"""Of a suite that does not say how many."""
_PLAYED = ("environment", "execution", "sandbox", "rewards", "generation", "evaluation")
_TEAM = ("agents", "policies")
_PLACES = ("resources",)
_TURNS_WITHOUT_PRESET = 4
_PROBLEMS_PER_BLOCK = 50
_FILE = re.compile(r"(.+\.ya?ml)(?:/(.*))?")


def suite_config(text: str, overrides: Sequence[str] = ()) -> tuple[RunConfig, str]:
    """The configuration and the suite in `ENVIRONMENT_OR_PRESET_OR_FILE.yaml[/SUITE]`; SUITE is test by default. Raises
    ConfigurationError.

    A preset, preferred to an environment of its name, brings its options and turns; an environment has its default options and
    the most turns of any of its presets.
    """
    name, suite_name = find_named_suite(text)
    suite(suite_name)
    presets = {name: file_values(Path(name))} if is_file(name) else all_preset_values()
    if name not in presets and not _is_environment(name):
        known = ", ".join(_list_names())
        own = suggest_custom(name, kind="class")
        raise ConfigurationError(
            f"--suite {text!r}: {name!r} is no environment and no preset; {own or f'there are {known}'}"
        )
    return _make_played_config(presets.get(name) or _bare_values(name, _options_in(overrides)), overrides), suite_name


def find_named_suite(text: str) -> tuple[str, str]:
    """What is played, and the suite, test by default. **Example** "a/mine.yaml/train" is ("a/mine.yaml", "train")."""
    found = _FILE.fullmatch(text)
    name, suite_name = found.groups() if found else text.partition("/")[::2]
    return name, suite_name or "test"


def build_played_config(name: str | None, options: Mapping[str, Any], *, own: RunConfig | None) -> RunConfig:
    """The configuration of what `troupe play NAME` plays, with `options` set on top. Raises ConfigurationError.

    None, or the environment of a run (`own`), means the run's configuration.
    """
    if name is None and own is None:
        raise ConfigurationError(
            "ENV: name an environment, a preset or a file, as `troupe play plan_path`; only a run has its own"
        )
    presets = all_preset_values()
    if own is not None and name in (None, own.environment.name):
        chosen = own
    elif name is not None and is_file(name):
        chosen = preset_config(name)
    elif name is not None and _is_environment(name):
        return read_as(bare_config(name, options), own)
    elif name in presets:
        chosen = parse_config(presets[name])
    else:
        known = _list_names()
        listed = f"there are {', '.join(known)}"
        remedy = suggest_custom(str(name), kind="class") or suggest(str(name), known, otherwise=listed)
        raise ConfigurationError(f"environment.name {name!r}: no environment and no preset; {remedy}")
    environment = chosen.environment.model_copy(update={"options": {**chosen.environment.options, **options}})
    return read_as(chosen.model_copy(update={"environment": environment}), own)


def read_as(config: RunConfig, own: RunConfig | None) -> RunConfig:
    """`config` with answers read as in the configuration of the run that plays it (`own`), because its team learned so."""
    if own is None:
        return config
    environment = config.environment.model_copy(update={"answer_format": own.environment.answer_format})
    return config.model_copy(update={"environment": environment})


def bare_config(environment: str, options: Mapping[str, Any]) -> RunConfig:
    """A configuration that trains nothing: the environment with these options, and one policy in every role."""
    values = _bare_values(environment, options)
    return parse_config(values | {"environment": {**values["environment"], "options": options}})


def _options_in(overrides: Sequence[str]) -> Mapping[str, Any]:
    """The options of the environment that `overrides` set: they decide the roles of some."""
    options = with_overrides({}, [each for each in overrides if each.startswith("environment.options")])
    found = options.get("environment", {}).get("options", {})
    return found if isinstance(found, Mapping) else {}


def _is_environment(name: str) -> bool:
    return name in FAMILIES or is_custom(name) or name in list_installed_environments()


def _list_names() -> list[str]:
    """All environments and presets, each once."""
    return list(dict.fromkeys([*FAMILIES, *list_installed_environments(), *all_preset_values()]))


def _bare_values(environment: str, options: Mapping[str, Any]) -> dict[str, Any]:
    sections = [values.get("environment") for values in all_preset_values().values()]
    played = [section for section in sections if isinstance(section, dict) and section.get("name") == environment]
    chosen = family(environment).under(family_options(environment, options))
    # In a team that branches, each answer is a turn.
    answers = len(chosen.roles) if turn_order_of(chosen, None) == BRANCHING else 1
    turns = max((section.get("max_turns", 2) for section in played), default=_TURNS_WITHOUT_PRESET * answers)
    return {
        "num_steps": 0,
        "environment": {"name": environment, "max_turns": turns},
        "agents": {role: {"policy": "team"} for role in chosen.roles},
        "policies": {"team": {}},
        "evaluation": {"problems_per_block": _PROBLEMS_PER_BLOCK},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteToPlay:
    """A suite, and the configuration with whose environment, limits, sandbox, rewards and engine settings it is played."""

    suite: Suite
    config: RunConfig


def suite_to_play(
    named: str | Suite | None,
    own: RunConfig | None,
    overrides: Sequence[str] = (),
    *,
    num_problems: int | None = None,
    seed: int = 0,
) -> SuiteToPlay:
    """The suite of a subject; `own` is the configuration of its run, if it is one.

    `named` is a suite of `prefect.yaml`, a text as for `suite_config`, a suite itself, or None for the run's own. Answers are
    read, agents take turns and engines compute as in the subject's run. `num_problems` None: as many as the suite or the run's
    own evaluations have, else 100. Raises ConfigurationError.
    """
    check_overrides(overrides)
    named = find_declared_suite(named, num_problems=num_problems, seed=seed) if isinstance(named, str) else named
    if isinstance(named, Suite):
        values = _bare_values(named.environment.name, named.environment.options) | {
            "environment": named.environment.model_dump(mode="json")
        }
        config = _make_played_config(values, pick_played_overrides(overrides))
        config = with_environment_source(as_own(config, own, overrides))
        most = named.num_problems
        if "num_problems" not in named.model_fields_set:
            most = count_problems(config, named.split, seed=named.seed, most=most)
        changed = {"environment": config.environment, "num_problems": most}
        return SuiteToPlay(suite=named.model_copy(update=changed), config=config)
    split = "test"
    if named is not None:
        config, split = suite_config(named, pick_played_overrides(overrides))
        config = as_own(config, own, overrides)
    elif own is None:
        raise ConfigurationError(
            "--suite: name an environment, a preset or a file, as --suite plan_path; only a run has its own"
        )
    else:
        config = overridden(own, pick_played_overrides(overrides))
    config = with_environment_source(config)
    most = config.evaluation.num_problems if named is None else NUM_PROBLEMS
    values = {
        "environment": config.environment,
        "split": split,
        "num_problems": num_problems or count_problems(config, split, seed=seed, most=most),
        "seed": seed,
        "problems_per_block": config.evaluation.problems_per_block,
    }
    return SuiteToPlay(suite=Suite.model_validate(values), config=config)


def games_to_play(
    run: Run,
    named: str | Suite | None,
    overrides: Sequence[str],
    *,
    num_problems: int | None,
    num_samples: int,
    seed: int,
) -> SuiteToPlay | None:
    """The games of a run that plays its own alone, whose starts `seed` chooses; None for a run that plays any suite.

    Raises ConfigurationError for what has no effect on them.
    """
    evaluation, own = method_for(run.config).evaluation, run.config
    effective = evaluation.list_effective(own)
    if effective is None:
        return None
    if named is not None:
        raise ConfigurationError(
            f"--suite {named if isinstance(named, str) else named.title!r}: run {run.run_id} plays the held-out games of its "
            "own configuration; leave it out, or change these, as --set method.game=homebrew"
        )
    if num_samples != 1:
        raise ConfigurationError(
            f"--samples {num_samples}: run {run.run_id} plays each start once; leave it out, or ask for more starts, as "
            "--problems 200"
        )
    for each in overrides:
        if each.partition("=")[0] not in effective and _section(each) not in effective:
            raise ConfigurationError(
                f"--set {each!r}: changes no held-out game of run {run.run_id}; set one of {', '.join(effective)}, or leave it "
                "out"
            )
    asked = [*overrides, *([] if num_problems is None else [f"evaluation.num_problems={num_problems}"])]
    config = parse_config(with_overrides(evaluation.dump_effective(own), asked)) if asked else own
    return SuiteToPlay(suite=scenario_of(config).suite.model_copy(update={"seed": seed}), config=config)


def count_problems(config: RunConfig, split: str, *, seed: int, most: int) -> int:
    """As many different problems as a split has, at most `most`; a line says if it has fewer."""
    scenario = scenario_of(config)
    found = len(different_problems(split, scenario.family, scenario.options, num_problems=most, seed=seed))
    if found < most:
        _log.warning("%s/%s has only %d different problems; all are played", config.environment.name, split, found)
    return found


def find_declared_suite(name: str, *, num_problems: int | None = None, seed: int = 0) -> str | Suite:
    """The suite called `name` in `prefect.yaml`, with other problems if they are asked for; `name` if there is none. Raises
    ConfigurationError if it is no suite."""
    values = suite_values().get(name)
    if values is None:
        return name
    suite = parse_section(Suite, values, place=f"evaluate/{name}: parameters.suite")
    asked = {"num_problems": num_problems, "seed": seed}
    return suite.model_copy(update={name: value for name, value in asked.items() if value})


def overridden(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """`config` with `a.b=c` overrides, trained by nobody. Raises ConfigurationError."""
    if not overrides:
        return config
    # What a choice of theirs sets in the engine is a default, and none of these is one.
    engine = config.generation.model_dump(mode="json", exclude_defaults=True)
    return _make_played_config({**config.model_dump(mode="json"), "generation": engine}, overrides)


def team_overrides(overrides: Sequence[str]) -> list[str]:
    """Those of `overrides` that change who plays and where, and not what is played."""
    return [each for each in overrides if _section(each) in (*_TEAM, *_PLACES)]


def pick_played_overrides(overrides: Sequence[str]) -> list[str]:
    """Those of `overrides` that change what is played."""
    return [each for each in overrides if _section(each) not in (*_TEAM, *_PLACES)]


def check_overrides(overrides: Sequence[str], *, plays_here: bool = False, may_play_games: bool = False) -> None:
    """Raise ConfigurationError for an override that changes no evaluation. `plays_here`: nothing is played elsewhere;
    `may_play_games`: the subject may be a run that plays its own games, of which `games_to_play` says what changes them."""
    for each in overrides:
        if plays_here and _section(each) in _PLACES:
            raise ConfigurationError(
                f"--set {each!r}: `troupe evaluate` plays in its own process; leave it out, or name it in the overrides of "
                "`prefect deployment run evaluate/SUITE`"
            )
        if may_play_games and _section(each) == "method":
            continue
        if _section(each) not in (*_TEAM, *_PLAYED, *_PLACES):
            raise ConfigurationError(
                f"--set {each!r}: changes no evaluation; set one of {', '.join((*_PLAYED, *_TEAM))}, or leave it out"
            )


def as_own(config: RunConfig, own: RunConfig | None, overrides: Sequence[str] = ()) -> RunConfig:
    """`config` with what belongs to the run that plays it: how it reads answers, takes turns, and computes."""
    if own is None:
        return config
    environment = config.environment
    given = {each.partition("=")[0] for each in overrides}
    if "environment.answer_format" not in given:
        environment = environment.model_copy(update={"answer_format": own.environment.answer_format})
    if environment.name == own.environment.name and "environment.turn_order" not in given:
        environment = environment.model_copy(update={"turn_order": own.environment.turn_order})
    engine = overridden(own, [each for each in overrides if _section(each) == "generation"]).generation
    return config.model_copy(update={"environment": environment, "generation": engine})


def _make_played_config(values: Mapping[str, Any], overrides: Sequence[str]) -> RunConfig:
    """The configuration with its policies as they are, so that no rule of training refuses how an evaluation computes."""
    changed = with_overrides(values, overrides)
    policies = changed.get("policies")
    if isinstance(policies, dict):
        untrained = {name: {**each, "trained": False} for name, each in policies.items() if isinstance(each, dict)}
        changed = {**changed, "policies": {**policies, **untrained}}
    return parse_config(changed)


def _section(override: str) -> str:
    return override.partition("=")[0].partition(".")[0]
