"""The site of docs/: it builds without a warning, and its generated parts are what the classes and the records say."""

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from benchmarks import arm_runs, arm_table, credit, pretrained, pretrained_runs, pretrained_table
from benchmarks.credit_study import Study
from components import config
from components.config import RunConfig
from flows.presets import preset_values

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
MEASURED = ROOT / "benchmarks" / "measured"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", folder / "doctrees", ROOT / "docs"]
    built = subprocess.run([*command, folder / "html"], cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "html"


def text_of(page: Path) -> str:
    """The page as a reader sees it, each run of white space as one blank."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page.read_text())).split())


def code_in(page: Path) -> set[str]:
    codes = re.findall(r"<code[^>]*>(.*?)</code>", page.read_text(), re.DOTALL)
    return {html.unescape(re.sub(r"<[^>]*>", "", code)) for code in codes}


def cells_of(table: str) -> Iterator[str]:
    """The rows of a table in Markdown, as the site shows them."""
    for line in table.splitlines():
        if not line.startswith("|---"):
            yield " ".join(re.sub(r"[|*`]", " ", line).split())


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Path of each field, found in the schema that pydantic writes."""
    schema = model.model_json_schema()

    def below(node: dict[str, object], path: str) -> Iterator[str]:
        for option in [node, *node.get("anyOf", []), *node.get("allOf", [])]:  # type: ignore[misc]
            if "$ref" in option:
                yield from below(schema["$defs"][option["$ref"].rpartition("/")[2]], path)
            for name, inner in option.get("properties", {}).items():
                yield f"{path}{name}"
                yield from below(inner, f"{path}{name}.")
            values = option.get("additionalProperties")
            if isinstance(values, dict) and "$ref" in values:
                yield from below(values, f"{path}{'ROLE' if path == 'agents.' else 'POLICY'}.")

    yield from below(schema, prefix)


def test_every_field_of_a_configuration_is_in_the_reference(site: Path) -> None:
    expected = set(fields(RunConfig))
    assert {"seed", "loss.clip_high", "agents.ROLE.prompt.extend", "policies.POLICY.api.max_cost"} <= expected
    assert expected <= code_in(site / "configuration_fields.html")


def test_the_reference_shows_the_documentation_under_a_field(site: Path) -> None:
    page = text_of(site / "configuration_fields.html")
    for section in vars(config).values():
        for field in (
            section.model_fields.values() if isinstance(section, type) and issubclass(section, BaseModel) else ()
        ):
            first = (field.description or "").split("`")[0]
            assert " ".join(first.split()) in page


def test_what_stands_for_a_generated_part_in_the_repository_is_not_on_the_site(site: Path) -> None:
    marks = re.findall(
        r"^<!-- generated: .* -->\n(.+)", "\n".join(page.read_text() for page in DOCS.glob("*.md")), re.MULTILINE
    )
    assert len(marks) > 20
    whole = "".join(map(text_of, site.glob("*.html")))
    assert [line for line in marks if " ".join(re.sub(r"[`*]|\]\(.*?\)|\[", "", line).split()) in whole] == []


def test_every_preset_is_in_the_table(site: Path) -> None:
    assert preset_values().keys() <= code_in(site / "presets.html")


def test_the_results_are_those_of_the_records(site: Path) -> None:
    page = text_of(site / "results.html")
    wanted = arm_runs.orders(arm_runs.GAMES, list(arm_runs.RUNS), budget_tokens=300_000)
    arms_rows = arm_runs.rows_of(wanted, MEASURED / "arms")
    assert len(arms_rows) >= 70
    asked = pretrained.orders(list(pretrained.TRAINED), num_seeds=3, num_steps=10, num_problems=300)
    pretrained_rows = pretrained.rows_of(asked, MEASURED / "pretrained")
    assert len(pretrained_rows) > 6
    alone = pretrained.orders([pretrained_runs.SINGLE_PROGRAM], num_seeds=1, num_steps=10, num_problems=300)
    program_rows = pretrained.rows_of(alone, MEASURED / "lone_program")
    assert len(program_rows) == 4
    gains = [pretrained_table.gain_table(rows) for rows in (pretrained_rows, program_rows)]
    for table in (arm_table.success_table(arms_rows), *gains):
        for row in cells_of(table):
            assert row in page
    study = Study(
        game="sokoban", seed=0, num_steps=20, num_decisions=200, num_continuations=64, home=MEASURED / "credit"
    )
    assert [*study.estimators] == [name for name in study.estimators if name in page]
    assert "3 seeds" in page
    assert len(credit.GAMES) == len([game for game in credit.GAMES if f"{game}, 3 seeds" in page])


@pytest.mark.parametrize("commit", ["cc58d08", "e6b4f61", "eaaccb5", "315939d", "95fd452"])
def test_the_results_name_the_commits_that_measured_them(site: Path, commit: str) -> None:
    assert commit in text_of(site / "results.html")
