#!/bin/sh
# Makes an environment with locked dependencies, each package checked against its hash; what is there already stays.
#
#     infra/set_up.sh troupe      .venv, what training needs
#     infra/set_up.sh dev         .venv, what tests and lint need too
#     infra/set_up.sh vllm        .venv-vllm, whose pins never bind ours
#     infra/set_up.sh charts      .venv-charts, what checks chart, images and compose file
#     infra/set_up.sh evals       .venv-evals, lm-eval and inspect, which evaluate a served team
#     infra/set_up.sh agents/sdks .venv-agents/sdks, published agents for tests of the gateway; agents/crewai beside it
set -eu
cd "$(dirname "$0")/.."
wanted=${1:-troupe}
python=${PYTHON:-python3}
environment=.venv
lock=requirements/$wanted.txt
pypi_torch=requirements/torch-pypi.txt
step() { echo "[$1] $2"; }
fail() {
    echo "setup: $1" >&2
    exit 1
}
# CUDA builds come from PyPI; machines that have no NVIDIA driver take PyTorch's CPU build.
has_cpu_torch() { [ "$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null 2>&1; }
if [ "$wanted" = vllm ]; then
    environment=.venv-vllm
    if has_cpu_torch; then lock=infra/vllm/requirements-cpu.txt; else lock=infra/vllm/requirements-gpu.txt; fi
    pypi_torch=""
fi
case $wanted in charts | evals | agents/*) environment=.venv-$wanted ;; esac

"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null ||
    fail "$python is $("$python" -V 2>&1); Troupe runs on Python 3.11 to 3.13: make setup PYTHON=python3.12"

step 1/4 "environment $environment ($("$python" -V))"
[ -x $environment/bin/python ] || "$python" -m venv $environment ||
    fail "$python cannot make environments; on Debian or Ubuntu: apt-get install python3-venv"

step 2/4 "uv"
[ -x $environment/bin/uv ] ||
    $environment/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
# uv reads no pip settings: an index, folders of wheels and certificates that pip is told of are told to uv.
pip_setting() { $environment/bin/python -m pip config get "global.$1" 2>/dev/null | tr '\n' ' '; }
tell_uv() { [ -z "$2" ] || export "$1=$2"; }
# Without quotes, `echo` puts one space between words and none around them.
links=$(echo ${PIP_FIND_LINKS-$(pip_setting find-links)} | tr ' ' ',')
tell_uv UV_FIND_LINKS "${UV_FIND_LINKS-$links}"
tell_uv UV_DEFAULT_INDEX "${UV_DEFAULT_INDEX-$(echo ${PIP_INDEX_URL-$(pip_setting index-url)})}"
tell_uv SSL_CERT_FILE "${SSL_CERT_FILE-$(echo ${PIP_CERT-$(pip_setting cert)})}"
# A company's certificates are in the system's store, where pip looks too; a bare container may have none.
if [ "$(uname -s)" != Linux ] || [ -s /etc/ssl/certs/ca-certificates.crt ] || [ -s /etc/pki/tls/certs/ca-bundle.crt ]; then
    export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS-1}"
fi
export VIRTUAL_ENV="$PWD/$environment"
# A lock is complete, so nothing is resolved here. Bars and names are for people; a log gets the steps.
quiet=--quiet
[ ! -t 2 ] || quiet=""
install() { $environment/bin/uv pip install $quiet --no-deps --require-hashes "$@"; }

step 3/4 "$(grep -c == "$lock") packages of $lock"
install -r "$lock"

case $wanted in charts | evals | agents/*) exit 0 ;; esac
step 4/4 "PyTorch"
if $environment/bin/python -c 'import torch' 2>/dev/null; then
    :
elif ! has_cpu_torch; then
    install -r "$pypi_torch"
elif install --no-index -r requirements/torch-cpu.txt 2>/dev/null; then
    :
elif ! install --default-index https://download.pytorch.org/whl/cpu -r requirements/torch-cpu.txt; then
    [ -n "$pypi_torch" ] || fail "vLLM on a CPU needs PyTorch's CPU build; put its wheel into a folder and name it by UV_FIND_LINKS"
    echo "setup: PyTorch's CPU build could not be had; the package index has the one with CUDA, 3.4 GB more" >&2
    install -r "$pypi_torch"
fi
[ $environment = .venv ] || exit 0
.venv/bin/uv pip install --quiet --no-deps --no-build-isolation --editable .
echo "done: \`source .venv/bin/activate\` makes \`troupe\` a command in this shell; \`.venv/bin/troupe\` works without it"
