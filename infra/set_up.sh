#!/bin/sh
# Makes .venv with the locked dependencies: `set_up.sh troupe` what training needs, `set_up.sh dev` what tests and lint need too.
# Each package is checked against the hashes in requirements/. What is there already stays.
set -eu
cd "$(dirname "$0")/.."
lock=${1:-troupe}
python=${PYTHON:-python3}
step() { printf '\033[1m[%s]\033[0m %s\n' "$1" "$2"; }
fail() {
    echo "setup: $1" >&2
    exit 1
}

"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null ||
    fail "$python is $("$python" -V 2>&1); Troupe runs on Python 3.11 to 3.13: make setup PYTHON=python3.12"

step 1/4 "environment .venv ($("$python" -V))"
if ! [ -x .venv/bin/python ]; then
    "$python" -m venv .venv || fail "$python cannot make environments; on Debian or Ubuntu: apt-get install python3-venv"
fi

step 2/4 "uv"
[ -x .venv/bin/uv ] || .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
# uv reads no pip settings: an index or a folder of wheels that pip is told of is told to uv.
export UV_FIND_LINKS="${UV_FIND_LINKS-${PIP_FIND_LINKS-}}"
[ -n "$UV_FIND_LINKS" ] || unset UV_FIND_LINKS
[ -z "${PIP_INDEX_URL-}" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX-$PIP_INDEX_URL}"
export UV_LINK_MODE="${UV_LINK_MODE-hardlink}" VIRTUAL_ENV="$PWD/.venv"
# A lock is complete, so nothing is resolved here.
install() { .venv/bin/uv pip install --no-deps --require-hashes "$@"; }

step 3/4 "packages of requirements/$lock.txt"
install -r "requirements/$lock.txt"

step 4/4 "PyTorch"
if .venv/bin/python -c 'import torch' 2>/dev/null; then
    :
elif [ "$(uname -s)" != Linux ] || command -v nvidia-smi >/dev/null 2>&1; then
    install -r requirements/torch-pypi.txt
elif install --quiet --no-index -r requirements/torch-cpu.txt 2>/dev/null; then
    :
elif ! UV_HTTP_RETRIES=0 install --default-index https://download.pytorch.org/whl/cpu -r requirements/torch-cpu.txt; then
    echo "setup: PyTorch's CPU build could not be had; the package index has the one with CUDA, 3.4 GB more" >&2
    install -r requirements/torch-pypi.txt
fi
.venv/bin/uv pip install --quiet --no-deps --no-build-isolation --editable .
