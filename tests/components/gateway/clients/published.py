"""The published agents that are run, each unchanged: how one is started, and where `make agents` puts it."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from components.environments.program import AgentProgram
from components.gateway.programs import Endpoint
from tests.components.gateway.clients.two_tools import PROBLEM, RUNS

FOLDER = Path(__file__).parents[4] / ".venv-agents"
NOTE = {"note.txt": "the colour is blue\n"}
QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MSWEA_CONFIGURED": "true",
    "MSWEA_SILENT_STARTUP": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OTEL_SDK_DISABLED": "true",
    "PYTHONWARNINGS": "ignore",
}
"""The packages' own switches of what would ask addresses elsewhere or print."""
ENDS_EARLY = {"pydantic-ai chat, stream": "its run_stream ends at the first text, though a call stands beside it"}
"""Clients that end at the first answer, by their own rule."""
NAMES = (*RUNS, "pi", "opencode", "codex")


def make_program(name: str, endpoints: Sequence[Endpoint], question: str = PROBLEM) -> AgentProgram:
    """What solves the problem once for each endpoint; a coding agent takes one."""
    if name in RUNS:
        script = Path(__file__).with_name("two_tools.py")
        command = (find_python(name), str(script), name, *(endpoint.url for endpoint in endpoints))
        return AgentProgram(command=command, files=NOTE, variables={**endpoints[0].variables, **QUIET}, seconds=400)
    (endpoint,) = endpoints
    command, files = _CODING_AGENTS[name](endpoint, question)
    tool = str(FOLDER / "node_modules" / ".bin" / name)
    return AgentProgram(
        command=(tool, *command), files={**NOTE, **files}, variables={**endpoints[0].variables, **QUIET}, seconds=300
    )


def find_python(name: str) -> str:
    """That of the environment in which a client's package is."""
    return str(FOLDER / ("crewai" if name == "crewai" else "sdks") / "bin" / "python")


def _set_up_pi(endpoint: Endpoint, question: str) -> tuple[Sequence[str], Mapping[str, str]]:
    provider = {"baseUrl": f"{endpoint.url}/v1", "api": "openai-completions", "apiKey": endpoint.key}
    models = {"providers": {"troupe": {**provider, "models": [{"id": "main"}]}}}
    return ("-p", question, "--provider", "troupe", "--model", "main"), {".pi/agent/models.json": json.dumps(models)}


def _set_up_opencode(endpoint: Endpoint, question: str) -> tuple[Sequence[str], Mapping[str, str]]:
    models = {"main": {"name": "main", "limit": {"context": 1_000_000, "output": 4000}}}
    options = {"baseURL": f"{endpoint.url}/v1", "apiKey": endpoint.key}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}
    quiet = {"autoupdate": False, "share": "disabled", "permission": "allow"}
    settings = {"provider": {"troupe": provider}, "model": "troupe/main", **quiet}
    plugins = json.dumps({"packages": {"": {"dependencies": {"@opencode-ai/plugin": "0"}}}})
    there = {".config/opencode/node_modules/.keep": "", ".config/opencode/package-lock.json": plugins}
    return ("run", question), {"opencode.json": json.dumps(settings), **there}


def _set_up_codex(endpoint: Endpoint, question: str) -> tuple[Sequence[str], Mapping[str, str]]:
    settings = f"""
model = "main"
model_provider = "troupe"
[model_providers.troupe]
name = "troupe"
base_url = "{endpoint.url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[analytics]
enabled = false
[features]
plugins = false
"""
    options = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    return ("exec", *options, question), {".codex/config.toml": settings}


_SetUp = Callable[[Endpoint, str], tuple[Sequence[str], Mapping[str, str]]]
_CODING_AGENTS: Mapping[str, _SetUp] = {"pi": _set_up_pi, "opencode": _set_up_opencode, "codex": _set_up_codex}
