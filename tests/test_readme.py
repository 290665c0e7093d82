"""The README speaks of what exists: commands, flags, presets, paths and fields."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer.main

from flows.presets import preset_config, preset_values
from troupe.cli import app

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = typer.main.get_command(app)


def test_every_command_is_in_the_readme_and_the_other_way_round() -> None:
    known = set(COMMANDS.commands)  # type: ignore[attr-defined]
    told = set(re.findall(r"`troupe ([a-z]+)", README))
    assert told == known


def test_every_flag_of_the_readme_belongs_to_its_command() -> None:
    for line in re.findall(r"`(troupe [a-z]+ [^`]*)`", README):
        _, command, rest = line.split(" ", 2)
        named = COMMANDS.commands[command]  # type: ignore[attr-defined]
        for word in rest.split():
            named = getattr(named, "commands", {}).get(word, named)
        options = {name for parameter in named.params for name in parameter.opts}
        flags = set(re.findall(r"--[a-z-]+", rest))
        assert flags <= options, f"{line}: {flags - options}"


def test_every_preset_is_in_the_table() -> None:
    for name in preset_values():
        assert f"| `{name}` |" in README


@pytest.mark.parametrize("override", re.findall(r"--set ([a-z_]{2,}\.[a-z_.]+=[^ `]+)", README))
def test_every_override_of_the_readme_is_a_field(override: str) -> None:
    preset_config("plan-path", [override])


def test_every_path_of_the_readme_exists() -> None:
    for path in re.findall(r"`((?:components|tasks|flows|infra|tests)/[\w./-]*)`", README):
        assert (ROOT / path).exists(), path


def test_every_benchmark_of_the_readme_exists() -> None:
    for module in re.findall(r"python -m (benchmarks\.\w+)", README):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module


@pytest.mark.parametrize("target", sorted(set(re.findall(r"make ([a-z]+)", README))))
def test_every_make_target_of_the_readme_exists(target: str) -> None:
    asked = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr


def test_no_placeholder_is_left() -> None:
    assert "@@" not in README


def test_the_environment_that_is_shown_is_the_example() -> None:
    shown, _ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    example = (ROOT / "examples" / "guess" / "guess.py").read_text()
    assert example.endswith(f"\n\n{shown}")
    assert len([line for line in shown.splitlines() if line]) <= 20


def test_every_extra_that_a_remedy_names_exists() -> None:
    asked = subprocess.run(
        ["git", "grep", "-hoE", r"troupe\[[a-z]+\]", "--", "*.py", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    named = {line[len("troupe[") : -1] for line in asked.stdout.split()}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert named
    assert named <= extras.keys()
