"""The page and its document: tags, the tree, and text that stays text."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from components.artifacts.local import LocalArtifactStore
from components.errors import ArtifactCorrupt, ConfigurationError
from components.schema import ROOT, Episode, FailedBranch
from tests.committed_runs import start_run
from tests.recorded_rollouts import candidate, commit_rollouts, episode, node, shard
from troupe.cli import app
from troupe.viewing.documents import step_document, tags_of
from troupe.viewing.page import view_page
from troupe.viewing.recorded import read_recorded
from troupe.viewing.view import view_document

GOOD, BAD = candidate("good", solves=True), candidate("bad")
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<!--<script>",
    "]]>&lt;b&gt;\u2028\u2029",
    "\x1b[31mred\x1b]0;owned\x07\x00\u202e",
    "\ud800",
    "{{ 7 * 7 }}{% include 'x' %}",
)


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "store")


def hostile_run(store: LocalArtifactStore) -> None:
    """A run in which every recorded text is hostile."""
    run = start_run(store, "r")
    made = [
        episode(
            node(candidate(text, error=text), candidate(text, unscorable=text), agent=text, choices=choices_of(text)),
            problem=f"p{index}{text if text.isascii() else ''}",
            error=text,
        )
        for index, text in enumerate(HOSTILE)
        if text != "\ud800"
    ]
    commit_rollouts(store, run, shard(0, 0, *made), rewards=[((1.0, None),)] * len(made))


def choices_of(text: str) -> tuple[tuple[int, ...], ...]:
    """The answer as a choice, and one that nobody drew."""
    return candidate(text).tokens, (1, 2)


class Elements(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.is_in_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.is_in_script = tag == "script"
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.is_in_script = False

    def handle_data(self, data: str) -> None:
        if self.is_in_script:
            self.scripts[-1] += data


@pytest.mark.parametrize(
    ("made", "tags"),
    [
        (episode(node(BAD), node(GOOD, agent="plan_agent"), success=True), ["solved", "repaired"]),
        (episode(node(GOOD), node(BAD, GOOD, agent="plan_agent")), ["unsolved", "spoiled"]),
        (episode(node(GOOD), node(BAD, GOOD, agent="plan_agent", chosen=1), success=True), ["solved"]),
        (episode(node(candidate("?", error="no move"), GOOD, chosen=1), success=True), ["solved", "malformed"]),
        (episode(node(candidate("x", unscorable="no box")), error="broke"), ["unsolved", "failed", "unscorable"]),
    ],
)
def test_tags_say_what_happened_on_the_branch_taken(made: Episode, tags: list[str]) -> None:
    assert tags_of(made, "plan_agent") == tags


def test_the_document_is_the_tree(store: LocalArtifactStore) -> None:
    nodes = (
        node(BAD, GOOD, chosen=1),
        node(GOOD, agent="plan_agent", parent=(0, 0), is_trained_on=False),
        node(GOOD, BAD, agent="plan_agent"),
    )
    made = episode(*nodes, success=True, cuts=(FailedBranch(parent=ROOT, error="cut"),))
    commit_rollouts(store, start_run(store, "r"), shard(0, 0, made), rewards=[((0.0, 1.0), (None,), (1.0, 0.0))])
    [found] = view_document(store, "r")["main"]["episodes"]
    assert [(each["agent"], each["parent"], each["chosen"]) for each in found["nodes"]] == [
        ("tool_agent", None, 1),
        ("plan_agent", [0, 0], 0),
        ("plan_agent", None, 0),
    ]
    first = found["nodes"][0]["candidates"][1]
    assert (first["text"], first["reward"], first["logprob"], first["mean_logprob"]) == ("good", 1.0, -2.0, -0.5)
    assert first["advantage"] == pytest.approx(1.0, abs=1e-3)
    assert found["nodes"][1]["candidates"][0]["reward"] is None
    assert found["cuts"] == [{"parent": [-1, 0], "error": "cut"}]
    assert found["payload"] == {"grid": ["..", ".#"]}


def test_a_page_holds_recorded_text_as_data_alone(store: LocalArtifactStore) -> None:
    hostile_run(store)
    document = view_document(store, "r")
    document["main"]["notes"] += HOSTILE[:4]
    page = view_page(document)
    found = Elements(page)
    kinds = [(tag, attrs.get("type")) for tag, attrs in found.tags if tag in ("script", "img", "b", "link", "iframe")]
    assert kinds == [("script", "application/json"), ("script", None)]
    data, script = found.scripts
    assert json.loads(data) == document
    assert not set("<>&\u2028\u2029") & set(data)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = [attrs["content"] for tag, attrs in found.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "innerHTML" not in script
    assert not re.search(r"(src|href)=", page.replace(data, ""))


def test_no_control_character_reaches_the_page_or_a_terminal(store: LocalArtifactStore) -> None:
    hostile_run(store)
    page = view_page(view_document(store, "r"))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", page)
    assert "\\\\x1b[31mred" in page


def test_a_lone_surrogate_can_be_written(store: LocalArtifactStore, tmp_path: Path) -> None:
    document = view_document_of(store, "\ud800")
    (tmp_path / "page.html").write_text(view_page(document), encoding="utf-8")
    assert "\\\\ud800" in (tmp_path / "page.html").read_text()


def view_document_of(store: LocalArtifactStore, text: str) -> dict[str, Any]:
    """A document with a text that no store can hold."""
    commit_rollouts(store, start_run(store, "r"), shard(0, 0, episode(node(BAD))))
    recorded = read_recorded(store, "r")
    [each] = recorded.episodes
    changed = replace(each, episode=episode(node(candidate(text))))
    main = step_document(replace(recorded, episodes=(changed,)), {})
    return {"run_id": "r", "main": main}


NEEDS_BROWSER = pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")


def dom_of(page: str, folder: Path) -> str:
    """The page's elements after its script has run in a browser."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    profile = ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}")
    command = ["chromium", *profile, "--virtual-time-budget=2000", "--dump-dom", file.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@NEEDS_BROWSER
def test_a_browser_shows_hostile_text_and_runs_none_of_it(store: LocalArtifactStore, tmp_path: Path) -> None:
    hostile_run(store)
    dom = dom_of(view_page(view_document(store, "r")), tmp_path)
    found = Elements(dom)
    assert "<title>r, step 0</title>" in dom
    assert "img" not in {tag for tag, _ in found.tags}
    assert len(found.scripts) == 2
    assert dom.count("<li>") == len(HOSTILE) - 1, "all episodes are listed"
    assert "&lt;/script&gt;&lt;script&gt;document.title='owned'" in dom


@NEEDS_BROWSER
def test_keys_filters_and_search_find_episodes(store: LocalArtifactStore, tmp_path: Path) -> None:
    solved = episode(node(BAD), node(GOOD, agent="plan_agent"), problem="q", success=True)
    made = (episode(node(BAD), problem="p"), solved, episode(node(candidate("needle")), problem="z"))
    commit_rollouts(store, start_run(store, "r"), shard(0, 0, *made))
    told = """
      const seen = [], look = () => seen.push(document.querySelector("h2").textContent);
      const press = (key) => { document.dispatchEvent(new KeyboardEvent("keydown", { key })); look(); };
      look(); press("j"); press("ArrowDown"); press("j"); press("k");
      press("l"); press("l"); seen.push(document.querySelector(".node.current h3").firstChild.textContent);
      const search = document.getElementById("search");
      search.value = "NEEDLE"; search.dispatchEvent(new Event("input")); look();
      search.value = ""; search.dispatchEvent(new Event("input"));
      [...document.querySelectorAll("#filters button")].find((each) => each.textContent === "repaired 1").click(); look();
      document.title = seen.join(" ");
    """
    page = re.sub("<meta http-equiv[^>]*>", "", view_page(view_document(store, "r")))
    dom = dom_of(page.replace("</body>", f"<script>{told}</script></body>"), tmp_path)
    assert "<title>p q z z q q q plan_agent z q</title>" in dom


def test_the_same_problem_at_two_steps_stands_side_by_side(store: LocalArtifactStore) -> None:
    run = start_run(store, "r")
    commit_rollouts(store, run, shard(0, 0, episode(node(BAD)), episode(node(BAD), problem="q")))
    commit_rollouts(store, run, shard(1, 0, episode(node(GOOD), success=True)))
    commit_rollouts(store, run, shard(2, 0, episode(node(GOOD), problem="z")))
    document = view_document(store, "r", step=0, problem="p", against=1)
    assert [side["episodes"][0]["success"] for side in (document["main"], document["against"])] == [False, True]
    with pytest.raises(ConfigurationError, match="--against 2: no problem of step 0 is among those of step 2"):
        view_document(store, "r", step=0, against=2)
    with pytest.raises(ConfigurationError, match="--problem 'pq': not in step 0 of run 'r'"):
        view_document(store, "r", step=0, problem="pq")


def test_a_step_that_cannot_be_read_at_all_is_an_error(store: LocalArtifactStore) -> None:
    commit_rollouts(store, start_run(store, "r"), shard(0, 0, episode(node(BAD))))
    shutil.rmtree(Path(store.uri.removeprefix("file://")) / "payloads")
    with pytest.raises(ArtifactCorrupt, match=r"shows nothing: .*`troupe verify r"):
        view_document(store, "r")


def test_the_command_writes_a_page_and_tells_where(store: LocalArtifactStore, tmp_path: Path) -> None:
    commit_rollouts(store, start_run(store, "r"), shard(0, 0, episode(node(BAD))))
    file = tmp_path / "page.html"
    ended = CliRunner().invoke(app, ["view", "r", "--store", store.uri, "--to", str(file)])
    assert ended.exit_code == 0, ended.output
    assert f"{file.as_uri()}: 1 episode; open it in a browser" in ended.output
    assert "warning: step 0: prompts of team are shown as token ids" in ended.output
    assert "Content-Security-Policy" in file.read_text()
    shown = CliRunner().invoke(app, ["view", "r", "--store", store.uri, "--json"])
    assert json.loads(shown.stdout)["main"]["prompts"] == ["2 3"]
    missing = CliRunner().invoke(app, ["view", "r", "--store", store.uri, "--to", str(tmp_path / "no" / "page.html")])
    assert isinstance(missing.exception, ConfigurationError)
