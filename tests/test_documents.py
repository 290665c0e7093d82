"""README.md and the pages of docs/ speak of what exists: commands, options, presets, paths, fields, links and examples."""

import ast
import importlib
import importlib.util
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main

from components.config import HybridMethod, RunConfig
from components.errors import ConfigurationError
from flows.presets import preset_config, preset_values
from troupe.cli import app
from troupe.testing import check_environment

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
DOCUMENTS = [README, *PAGES]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in DOCUMENTS}
EVERYTHING = "\n".join(TEXTS.values())
PARTS = re.findall(r"^<!-- generated: ([a-z ]+) -->\n\n(.*?)\n\n<!-- end -->$", EVERYTHING, re.DOTALL | re.MULTILINE)
OF_RUNS = ("arms", "credit", "pretrained", "populations", "program")
"""First words of the parts whose rows are whole runs: some seconds each."""
COMMANDS = typer.main.get_command(app)
PYTHON_BLOCKS = [
    pytest.param(block, id=f"{name}-{number}")
    for name, text in TEXTS.items()
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
]


def blocks(text: str) -> Iterator[str]:
    """The blocks of commands: those without a language."""
    yield from re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def code_lines() -> list[str]:
    """Each line of a block of commands, and each quoted command, without its comment."""
    outside = re.sub(r"^```.*?^```", "", EVERYTHING, flags=re.DOTALL | re.MULTILINE)
    quoted = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", outside)]
    listed = [line for text in TEXTS.values() for block in blocks(text) for line in block.splitlines()]
    return [line.split("  #")[0].split(" # ")[0].strip() for line in [*listed, *quoted]]


def troupe_commands() -> list[str]:
    """Commands as they are typed; those with placeholders in brackets or alternatives are synopses."""
    found = [line for line in code_lines() if line.startswith("troupe ") and not line.startswith("troupe  ")]
    return sorted({line for line in found if not set(line) & set("[|…") and not line.startswith("troupe: ")})


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_readme_is_one_page() -> None:
    assert len(README.read_bytes()) <= 7000


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_leads_to_a_file_and_a_heading(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXTS[name]):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (ROOT / name).parent / path if path else ROOT / name
        assert linked.exists(), f"{name}: {target}"
        assert not anchor or anchor in anchors(linked.read_text()), f"{name}: {target}"


def test_every_image_is_shown_and_small() -> None:
    shown = set(re.findall(r"!\[[^\]]+\]\(images/([\w-]+\.(?:png|svg))\)", EVERYTHING))
    images = list((ROOT / "docs" / "images").iterdir())
    assert {image.name for image in images} == shown, "every image has a text and a place, and every place an image"
    assert not [image.name for image in images if image.stat().st_size > 150_000]


def test_every_page_is_in_the_table_of_contents_and_linked_from_the_readme() -> None:
    names = {path.stem for path in PAGES} - {"index"}
    [listed] = re.findall(r"```\{toctree\}\n(.*?)```", TEXTS["docs/index.md"], re.DOTALL)
    assert set(listed.split()) - {":maxdepth:", "1"} == names
    linked = set(re.findall(r"\(docs/(\w+)\.md", TEXTS["README.md"]))
    assert linked == names


def test_every_command_is_documented_and_the_other_way_round() -> None:
    known = set(COMMANDS.commands)  # type: ignore[attr-defined]
    assert set(re.findall(r"`troupe ([a-z]+)", TEXTS["docs/running.md"])) == known
    assert set(re.findall(r"`troupe ([a-z]+)", EVERYTHING)) == known


@pytest.mark.parametrize("line", sorted(set(re.findall(r"`(troupe [a-z]+ [^`]*)`", EVERYTHING))))
def test_every_option_that_is_named_belongs_to_its_command(line: str) -> None:
    _, command, rest = line.split(maxsplit=2)
    named = COMMANDS.commands[command]  # type: ignore[attr-defined]
    for word in rest.split():
        named = getattr(named, "commands", {}).get(word, named)
    options = {name for parameter in named.params for name in parameter.opts}
    assert set(re.findall(r"--[a-z-]+", rest)) <= options


def test_commands_are_found() -> None:
    assert {"troupe train plan-path", "troupe sandbox run program.py --backend docker"} <= set(troupe_commands())
    assert (
        "troupe resume plan-path --from-stage compute_rewards --step 7 --set rewards.team_weight=0.5"
        in troupe_commands()
    )


@pytest.mark.parametrize("line", troupe_commands())
def test_every_command_that_is_shown_parses(line: str) -> None:
    command: Any = COMMANDS
    words = ["1" if word == "N" else word for word in shlex.split(line)[1:]]
    path = "troupe"
    while words and (inner := getattr(command, "commands", {}).get(words[0])) is not None:
        command, path, words = inner, f"{path} {words[0]}", words[1:]
    assert path != "troupe" or words[0].startswith("--"), f"no such command: {line}"
    if not words and any(parameter.required for parameter in command.params):
        return  # the name of a command in a sentence
    if words[:1] in (["--version"], ["--install-completion"]):
        assert words[0] in {name for parameter in command.params for name in parameter.opts}
        return
    command.make_context(path, words)


def test_a_command_with_an_unknown_option_does_not_parse() -> None:
    with pytest.raises(Exception, match="No such option: --sett"):
        COMMANDS.commands["train"].make_context("train", ["tiny", "--sett", "a=b"])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "target", sorted({word for line in code_lines() if re.match(r"make [a-z -]+$", line) for word in line.split()[1:]})
)
def test_every_make_target_exists(target: str) -> None:
    asked = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr


def test_every_benchmark_exists() -> None:
    named = set(re.findall(r"python -m\s+(benchmarks\.\w+)", EVERYTHING))
    assert named
    for module in named:
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module


def test_every_option_of_a_benchmark_exists() -> None:
    found = [re.match(r"python -m benchmarks\.(\w+)(.*)", line) for line in code_lines()]
    shown = [(match[1], re.findall(r"--[a-z-]+", match[2])) for match in found if match]
    assert ("credit", ["--seeds", "--home", "--list"]) in shown
    for name, options in shown:
        place = (ROOT / "benchmarks" / name).with_suffix(".py")
        text = (place if place.exists() else ROOT / "benchmarks" / name / "__main__.py").read_text()
        assert [option for option in options if f'"{option}"' not in text] == [], name


def test_every_preset_that_is_named_exists() -> None:
    named = {word for line in troupe_commands() for word in re.findall(r"^troupe train ([a-z][\w-]*)$", line)}
    named |= set(re.findall(r"prefect deployment run 'train/([\w-]+)'", EVERYTHING))
    named |= set(re.findall(r"presets? `([a-z0-9-]+)`", EVERYTHING))
    named |= set(re.findall(r"`([a-z]+-(?:tiny|smollm|qwen|ray|l2|l3|6x6))`", EVERYTHING))
    assert {"plan-path", "math-smollm", "plan-path-ray"} <= named
    assert named - {"mine", "-qwen"} <= preset_values().keys()  # mine is the project of `troupe init mine`


@pytest.mark.parametrize("override", sorted(set(re.findall(r"--set ([a-z_]{2,}\.[\w.]+=[^ `\n]+)", EVERYTHING))))
def test_every_override_is_a_field(override: str) -> None:
    section, _, field = override.partition("=")[0].partition(".")
    of_method = "hybrid-tiny" if field.partition(".")[0] in HybridMethod.model_fields else "population-tiny"
    preset_config(of_method if section == "method" else "plan-path", [override])


def test_an_override_of_no_field_is_found() -> None:
    with pytest.raises(ConfigurationError):
        preset_config("plan-path", ["training.learning_rat=1"])


def test_every_field_that_is_named_exists() -> None:
    sections = "|".join(RunConfig.model_fields)
    for path in set(re.findall(rf"`((?:{sections})(?:\.[a-z_]+)+)", EVERYTHING)):
        kind: object = RunConfig
        for name in path.split("."):
            fields = getattr(kind, "model_fields", None)
            if fields is None:  # a mapping, whose keys are the user's
                break
            assert name in fields, path
            kind = fields[name].annotation


def test_every_path_that_is_named_exists() -> None:
    folders = "components|tasks|flows|infra|tests|benchmarks|examples|docs|requirements"
    named = set(re.findall(rf"`((?:{folders})/[\w./-]*)`", EVERYTHING))
    assert named
    assert [path for path in named - {"docs/_build"} if not (ROOT / path).exists()] == []


def test_every_function_on_the_way_of_a_prompt_is_in_its_file() -> None:
    rows = re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \| `([\w/]+\.py)` \|", TEXTS["docs/concepts.md"], re.MULTILINE)
    named = [(name, path) for names, path in rows for name in re.findall(r"[\w.]+", names)]
    assert ("Router.encode", "components/rollout/router.py") in named
    for name, path in named:
        text = (ROOT / path).read_text()
        owner, _, function = name.rpartition(".")
        assert re.search(rf"^ *def {function}\(", text, re.MULTILINE), name
        assert not owner or re.search(rf"^class {owner}\b", text, re.MULTILINE), name


@pytest.mark.parametrize("block", PYTHON_BLOCKS)
def test_every_python_block_compiles(block: str) -> None:
    compile(block, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)  # as notebooks allow


def test_no_placeholder_is_left() -> None:
    assert "@@" not in EVERYTHING


@pytest.mark.parametrize("name", ["README.md", "docs/environments.md"])
def test_the_environment_that_is_shown_is_the_example(name: str) -> None:
    shown = re.findall(r"^```python\n(.*?)^```", TEXTS[name], re.DOTALL | re.MULTILINE)[0]
    example = (ROOT / "examples" / "guess" / "guess.py").read_text()
    assert example.endswith(f"\n\n{shown}")
    assert len([line for line in shown.splitlines() if line]) <= 20


def module_of(code: str, path: Path) -> ModuleType:
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_environment_that_is_shown_keeps_the_contract(tmp_path: Path) -> None:
    [shown] = re.findall(r"^```python\n(.*?)^```", TEXTS["README.md"], re.DOTALL | re.MULTILINE)
    check_environment(module_of(shown, tmp_path / "shown.py").Guess)


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What writes the generated pages and parts."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("generated")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name.split()[0] in OF_RUNS else ()) for name in dict(PARTS)]
)
def test_a_generated_part_is_that_of_the_code_and_the_rows(name: str, generated: ModuleType) -> None:
    assert dict(PARTS)[name] == generated.PARTS[name](), "run `make pages`"


def test_every_generated_part_stands_in_one_page(generated: ModuleType) -> None:
    assert sorted(name for name, _ in PARTS) == sorted(generated.PARTS)
    assert EVERYTHING.count("<!-- generated") == EVERYTHING.count("<!-- end -->") == len(PARTS)


def test_only_what_stands_between_the_marks_is_written(generated: ModuleType) -> None:
    page = "before\n<!-- generated: petting keys -->\nstale\n<!-- end -->\nafter\n"
    written = generated.fill_parts(page)
    assert written.startswith("before\n<!-- generated: petting keys -->\n\n| key |")
    assert written.endswith(" |\n\n<!-- end -->\nafter\n")
    assert generated.fill_parts(written) == written
    with pytest.raises(KeyError, match="nothing"):
        generated.fill_parts(page.replace("petting keys", "nothing"))


def test_a_figure_is_spelled_without_a_leading_zero_alone(generated: ModuleType) -> None:
    spell = importlib.import_module("figure_tables").spell
    assert [spell(0.667, ".3f"), spell(-0.03, "+.3f"), spell(10.5, ".1f"), spell(100, ",d"), spell(None, "d")] == [
        *(".667", "-.030", "10.5", "100", "never")
    ]


@pytest.mark.parametrize("name", ["presets.md", "configuration_fields.md"])
def test_the_generated_pages_are_those_of_the_code(name: str, generated: ModuleType) -> None:
    assert TEXTS[f"docs/{name}"] == generated.reference_pages.page(name), "run `make pages`"


def test_every_extra_that_a_remedy_names_exists() -> None:
    asked = subprocess.run(
        ["git", "grep", "-hoE", r"troupe\[[a-z]+\]", "--", "*.py", "*.md", "*.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    named = {line[len("troupe[") : -1] for line in asked.stdout.split()}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert named
    assert named <= extras.keys()
