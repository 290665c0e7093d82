"""The site of docs/: it builds without a warning, and its reference has every field and preset."""

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from components import config
from components.config import RunConfig
from flows.presets import preset_values

ROOT = Path(__file__).resolve().parent.parent
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


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Path of each field, found in the schema that pydantic writes."""
    schema = model.model_json_schema()

    def below(node: dict[str, object], path: str) -> Iterator[str]:
        for option in [node, *(each for kind in ("anyOf", "allOf", "oneOf") for each in node.get(kind, []))]:  # type: ignore[misc]
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


def test_every_preset_is_in_the_table(site: Path) -> None:
    assert preset_values().keys() <= code_in(site / "presets.html")
