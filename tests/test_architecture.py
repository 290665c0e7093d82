"""The house rules that a machine can check."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from components.environments.registry import ENTRY_POINTS, FAMILIES
from components.runs.pipeline import Pipeline
from tests.imports import LAYERS, ROOT, circles, import_graph, list_imported_modules, module_name, sources, syntax_tree

LEAVES = {
    *(path.stem for path in (ROOT / "components").glob("*.py")),
    *("config", "machine", "mathematics", "reporting", "text"),
}
"""What every package may import, and what imports nothing but its like."""
PACKAGES = sorted(path.parent.name for path in (ROOT / "components").glob("*/__init__.py"))
HEAVY = (
    *("torch", "deepspeed", "vllm", "mlflow", "boto3", "docker", "pyboy", "transformers", "prefect", "peft", "ray"),
    *("openai", "anthropic", "gymnasium", "pyspiel", "pettingzoo", "mpe2"),
)
HARD_LIMIT_LINES = 500
SOURCES = sources()


def tops(path: Path) -> set[str]:
    """The packages that a file imports from."""
    return {module.split(".")[0] for module in list_imported_modules(path)}


def breaches(rule: Callable[[Path], object], paths: Iterable[Path] = SOURCES) -> dict[str, object]:
    """What a rule finds, by module; a rule returns nothing for a file that keeps it."""
    return {module_name(path): found for path in paths if (found := rule(path))}


def test_imports_go_from_troupe_to_infra_to_flows_to_tasks_to_components() -> None:
    def imports_to_the_left(path: Path) -> set[str]:
        layer = path.relative_to(ROOT).parts[0]
        return (tops(path) & {*LAYERS, "tests"}) - set(LAYERS[: LAYERS.index(layer) + 1])

    assert breaches(imports_to_the_left) == {}


def test_components_know_no_prefect_and_read_no_environment_variables() -> None:
    """Which a caller passes as an argument."""

    def knows(path: Path) -> list[str]:
        text = path.read_text()
        # The attacks hold the texts of programs, which look for the environment inside a box.
        at_border = module_name(path) in ENVIRONMENT_AT_A_PROCESS_BORDER or "sandbox/attacks" in path.as_posix()
        words = ["os.getenv", *([] if at_border else ["os.environ"])]
        return [*(tops(path) & {"prefect"}), *(word for word in words if word in text)]

    assert breaches(knows, (ROOT / "components").rglob("*.py")) == {}


ENVIRONMENT_AT_A_PROCESS_BORDER = {
    "components.machine.process_variables",  # which the others ask
    "components.cluster.rank_actor",  # a process of its own, which sets what libraries read
    "components.cluster.engine_actor",  # another one, which hands on what it was given
    "components.training.deepspeed_backend",  # part of a process of its own, which reads what its launcher set
}
SHARED = {"environments.family", "environments.play"}
"""Everybody plays an environment by its name, and by the same rules."""
MEETING_PLACES = {
    # package -> packages whose implementations it uses, beside leaves, artifacts, anybody's base.py and what is SHARED
    "evaluation": {"rollout"},
    "gateway": {"environments", "models", "rollout"},
    "generation": {"models"},
    "hybrid": {"environments"},
    "placement": {"models"},
    "training": {"algorithms", "models"},
    "exporting": {"generation", "models", "training"},
}
COMPOSITION_ROOT = "session"
"""The package that uses them all, and opens what a run needs."""
METHODS = "methods"
"""The floor above it: what teams, populations and hybrid players differ in."""
CLUSTER = "cluster"
"""Beside them: workers on other hosts, which open their own stores and copies."""


def test_circles_of_imports_are_found_however_long() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": {"f"}, "f": {"d"}, "g": {"a"}}
    assert circles({module: frozenset(others) for module, others in graph.items()}) == [("b", "c"), ("d", "e", "f")]


def test_no_modules_of_ours_import_each_other() -> None:
    assert circles(import_graph()) == [], "a late import hides a circle, it does not undo it"


MUTATING = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
KEEPERS_OF_STATE = {
    # module -> names that it changes after its import
    "components.environments.code.procedural.puzzle": {"PUZZLES"},  # filled while the puzzles are imported
    "components.machine.outages": {
        "_interrupted"
    },  # whether this process was asked to end, which is the process's own affair
    "components.sandbox.program": {"STARTED"},  # no module: the one program of a box's first process
    "flows.api.multi_model.monitoring": {"_started"},  # a training of this process reports to whichever is the newest
    "components.session.session": {
        "_of_this_worker"
    },  # Ray calls stages in processes of its own, to which nothing can be passed
}


def test_no_module_keeps_what_somebody_ought_to_own() -> None:
    def keeps(path: Path) -> list[str]:
        tree = syntax_tree(path)
        rebound = [name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names]
        changed = find_changed_globals(tree) ^ KEEPERS_OF_STATE.get(module_name(path), set())
        # Outside of components a cache by configuration would own what it opens.
        is_component = path.relative_to(ROOT).parts[0] == "components"
        return [*rebound, *changed, *(() if is_component else find_cached_by_argument(tree))]

    assert breaches(keeps) == {}


def find_changed_globals(tree: ast.Module) -> set[str]:
    """The module's own names whose values are changed by what it holds: by an index, or by a method of a container."""
    own = {
        name.id
        for node in tree.body
        for name in ast.walk(node)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(name, ast.Name)
        and isinstance(name.ctx, ast.Store)
    }
    changed: set[str] = set()
    for node in ast.walk(tree):
        target: ast.AST | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            target = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATING:
            target = node.func.value
        if isinstance(target, ast.Name) and target.id in own:
            changed.add(target.id)
    return changed


def find_cached_by_argument(tree: ast.Module) -> Iterator[str]:
    """The functions with arguments whose results a decorator keeps as long as the process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.args.args:
            decorators = {ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in node.decorator_list}
            if decorators & {"cache", "lru_cache"}:
                yield node.name


def test_kept_state_is_found() -> None:
    text = """
engines: dict[str, int] = {}
open_ones = []
TABLE = {1: 2}
def engine(key):
    engines[key] = TABLE[key]
    own = []
    own.append(key)
def close():
    open_ones.clear()
@functools.cache
def store(config): ...
@cache
def nothing(): ...
"""
    assert find_changed_globals(ast.parse(text)) == {"engines", "open_ones"}
    assert list(find_cached_by_argument(ast.parse(text))) == ["store"]


@pytest.mark.parametrize("package", sorted({*PACKAGES} - {COMPOSITION_ROOT, METHODS, CLUSTER}))
def test_packages_meet_at_each_others_base_alone(package: str) -> None:
    """An exemption that nobody needs fails, too."""
    used = {
        parts[1]
        for path in (ROOT / "components" / package).rglob("*.py")
        for parts in (module.split(".") for module in list_imported_modules(path))
        if parts[0] == "components" and len(parts) > 2 and parts[2] != "base" and ".".join(parts[1:3]) not in SHARED
    }
    assert used - {package, "artifacts", *LEAVES} == MEETING_PLACES.get(package, set())


def test_leaves_import_leaves_alone() -> None:
    def others(path: Path) -> set[str]:
        parts = [module.split(".") for module in list_imported_modules(path)]
        return {each[1] for each in parts if each[0] == "components" and len(each) > 1} - LEAVES

    paths = [path for path in (ROOT / "components").rglob("*.py") if {*module_name(path).split(".")[1:2]} & LEAVES]
    assert breaches(others, paths) == {}


def test_nobody_below_the_flows_opens_a_session() -> None:
    users = {
        module.split(".")[1]
        for module, used in import_graph().items()
        if module.startswith("components.") and any(each.startswith(f"components.{COMPOSITION_ROOT}.") for each in used)
    }
    assert users == {COMPOSITION_ROOT, METHODS, CLUSTER}


def test_the_core_knows_no_method() -> None:
    """Neither by importing one nor by its name; what a method is to others, it says of itself."""
    for top in ("components", "tasks", "flows", "troupe", "infra"):
        paths = [path for path in (ROOT / top).rglob("*.py") if not _may_know_methods(path)]
        assert breaches(_find_named_methods, paths) == {}
    inside = (ROOT / "components").rglob("*.py")
    below = [path for path in inside if path.relative_to(ROOT / "components").parts[0] != METHODS]
    assert (
        breaches(lambda path: [m for m in list_imported_modules(path) if m.startswith(f"components.{METHODS}")], below)
        == {}
    )


_CLASSES_OF_METHODS = {"TeamMethod", "PopulationMethod", "HybridMethod"}
_METHODS_OWN = ("components/methods", "components/config", "components/population", "components/hybrid", "flows/api")


def _may_know_methods(path: Path) -> bool:
    return path.relative_to(ROOT).as_posix().startswith(_METHODS_OWN)


def _find_named_methods(path: Path) -> list[str]:
    """The names of methods in code, but for imports and documentation."""
    nodes = list(ast.walk(syntax_tree(path)))
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)} & {"population", "hybrid"}
    return sorted(read | ({node.id for node in nodes if isinstance(node, ast.Name)} & _CLASSES_OF_METHODS))


STAGES = sorted({*(ROOT / "tasks").glob("*.py")} - {ROOT / "tasks" / name for name in ("__init__.py", "stage.py")})


def test_every_file_of_tasks_is_a_stage_of_its_name() -> None:
    def list_declared(path: Path) -> set[str]:
        return {
            node.name
            for node in syntax_tree(path).body
            if isinstance(node, ast.FunctionDef)
            for each in node.decorator_list
            if isinstance(each, ast.Call) and ast.unparse(each.func) in {"stage", "effect"}
        }

    assert breaches(list_declared, STAGES) == {module_name(path): {path.stem} for path in STAGES}


def test_the_ledger_and_what_reads_it_hold_no_stages_name() -> None:
    """They ask the roles that stages declare. Strings in code count, whole or in part; documentation does not, nor does a
    section of the configuration that has the name of a stage, as in "warm_start.max_steps"."""
    flows = [importlib.import_module(module_name(path)) for path in sorted((ROOT / "flows").glob("*.py"))]
    pipelines = [each for flow in flows for each in vars(flow).values() if isinstance(each, Pipeline)]
    names = {stage.name for pipeline in pipelines for stage in pipeline.stages}
    assert names >= {path.stem for path in STAGES}, "a stage is of no flow"

    def find_held(path: Path) -> set[str]:
        texts = list(code_strings(syntax_tree(path)))
        return {name for name in names if any(re.search(rf"{name}(?!\.)", text) for text in texts)}

    readers = [path for folder in LEDGER for path in (ROOT / folder).rglob("*.py")]
    assert breaches(find_held, readers) == {}
    assert [*code_strings(ast.parse('"""a"""\ndef f(b="c"):\n    "d"\n    "e"\n    return f"g{b}"'))] == ["c", "g"]


LEDGER = ("components/runs", "components/tracking", "troupe")


def code_strings(tree: ast.AST) -> Iterator[str]:
    """The strings of a module but for those that stand alone, which document it."""
    alone = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in alone:
            yield node.value


def test_only_one_folder_knows_the_inside_of_prefect() -> None:
    private = ("prefect._", "prefect.flow_engine", "prefect.task_engine", "prefect.utilities")
    others = [path for path in SOURCES if path.parent != ROOT / "flows" / "prefect_runtime"]
    assert (
        breaches(lambda path: [each for each in list_imported_modules(path) if each.startswith(private)], others) == {}
    )


def test_no_file_is_longer_than_the_hard_limit() -> None:
    assert breaches(lambda path: len(path.read_text().splitlines()) > HARD_LIMIT_LINES) == {}


def test_no_function_is_longer_than_forty_lines_without_its_docstring() -> None:
    def too_long(path: Path) -> list[str]:
        functions = (node for node in ast.walk(syntax_tree(path)) if isinstance(node, FUNCTIONS))
        return [node.name for node in functions if num_lines(node) > 40]

    assert breaches(too_long) == {}


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def num_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring, and without a table that it returns, which is data."""
    documented = ast.get_docstring(function, clean=False) is not None
    start = function.body[0].end_lineno if documented else function.lineno
    last = function.body[-1]
    is_table = isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple)
    end = last.lineno if is_table else function.end_lineno
    return (end or 0) - (start or 0)


def test_text_files_are_utf_8_under_any_locale() -> None:
    def find_unencoded(path: Path) -> list[int]:
        calls = (node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call))
        return [call.lineno for call in calls if takes_the_locale(call)]

    assert breaches(find_unencoded) == {}
    found = [takes_the_locale(call) for call in ast.walk(ast.parse(OPENING)) if isinstance(call, ast.Call)]
    assert found.count(True) == OPENING.count("# no")


OPENING = """
path.read_text()  # no
path.read_text(encoding="utf-8")
path.open()  # no
path.open("rb")
open(path, mode="w")  # no
open(path, "wb")
os.fdopen(number, "w")  # no
os.open(".", os.O_RDONLY)
run([], text=True)  # no
session.open(store)
"""


OTHERS = {"os.open", "tarfile.open", "session.toolbox.open"}


def takes_the_locale(call: ast.Call) -> bool:
    """Whether a call reads or writes text without saying in which encoding."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    name = ast.unparse(call.func).rpartition(".")[2]
    if "encoding" in given:
        return False
    if name in ("open", "fdopen"):
        is_method = isinstance(call.func, ast.Attribute) and name == "open"
        if is_method and (
            ast.unparse(call.func) in OTHERS or not all(isinstance(each, ast.Constant) for each in call.args)
        ):
            return False
        mode = given.get("mode") or next(iter(call.args[0 if is_method else 1 :]), ast.Constant("r"))
        return isinstance(mode, ast.Constant) and isinstance(mode.value, str) and "b" not in mode.value
    return name in ("read_text", "write_text") or (name in ("run", "Popen") and "text" in given)


def test_identity_comes_from_no_uuid() -> None:
    assert breaches(lambda path: tops(path) & {"uuid"}) == {}


def test_every_source_folder_says_what_lives_there() -> None:
    folders = {path.parent for path in SOURCES} | {ROOT / "tests", ROOT / "infra"}
    for folder in folders:
        readme = folder / "README.md"
        assert readme.exists(), f"{folder.relative_to(ROOT)} has no README.md"
        assert len(readme.read_text().splitlines()) <= 40, f"{readme.relative_to(ROOT)} is longer than 40 lines"


def test_importing_the_light_modules_loads_no_heavy_library() -> None:
    light = [
        module_name(path)
        for path in sorted((ROOT / "components").rglob("*.py"))
        if path.name in {"__init__.py", "base.py"} or path.parent.name == "components"
    ]
    code = f"import sys, importlib\nfor name in {light!r}: importlib.import_module(name)\n"
    code += f"print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_command_line_starts_without_heavy_libraries() -> None:
    code = f"import sys, troupe.cli\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_built_in_environments_are_registered_as_those_of_other_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][ENTRY_POINTS] == FAMILIES


def test_what_is_opened_stays_small() -> None:
    """A session holds what is opened and closed; what a method does stands in `components/methods`."""
    assert sum(len(path.read_text().splitlines()) for path in (ROOT / "components/session").glob("*.py")) <= 2000


READERS = {
    "methods": "what a facade stands for",
    "hybrid": "the hybrid method's own player, environment and learner, which a facade drives with one game",
    "population": "the population method's own graph and comparisons",
    "placement": "where a member's trainer is",
    "runs": "the ledger: what is stored of a run",
    "artifacts": "stores and references, which the ledger's readers take and return",
    "session": "opens what a configuration names: its store, its models, its environment with its tools",
}
"""What facades import beside flows, `config` and leaves, and why it stands as a reader."""
STILL_IMPORTED_BY_FACADES = {
    "hybrid": set[str](),
    "petting": {
        "environments",  # an environment as users play it: the types of problems and of play
        "evaluation",  # the names of suites, samplings and subjects
        "rollout",  # an agent that answers, and an engine that plays training problems without a run
    },
    "multi_model": {
        "environments",  # which games there are
        "rollout",  # how many episodes a step has
    },
}
"""What they import besides, which a facade should not."""


@pytest.mark.parametrize("facade", sorted(STILL_IMPORTED_BY_FACADES))
def test_facades_import_flows_methods_and_readers(facade: str) -> None:
    """An exemption that nobody needs fails, too."""
    modules = {each for path in (ROOT / "flows" / "api" / facade).rglob("*.py") for each in list_imported_modules(path)}
    parts = [each.split(".") for each in modules]
    assert {each[0] for each in parts} & {"tasks", "infra", "troupe"} == set()
    used = {each[1] for each in parts if each[0] == "components" and len(each) > 1} - {*LEAVES, *READERS}
    assert used == STILL_IMPORTED_BY_FACADES[facade]


def test_facades_are_thin() -> None:
    assert {path.parent.name for path in (ROOT / "flows/api").glob("*/__init__.py")} == {*STILL_IMPORTED_BY_FACADES}
    assert sum(len(path.read_text().splitlines()) for path in (ROOT / "flows/api").rglob("*.py")) <= 4500
