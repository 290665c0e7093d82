#!/bin/sh
# Makes an environment of locked packages, each checked against its hash, with compiled bytecode. The locks lie beside this file.
#
#     install.sh FOLDER LOCK cpu|pypi|none
#
# LOCK holds all but PyTorch, of which the last word chooses a build: pypi needs `torch-pypi.txt`, cpu `torch-cpu.txt`; none: it is in LOCK.
# PIP_INDEX_URL and PIP_FIND_LINKS name other places of packages; /run/secrets/ca holds other certificates, if there is one.
set -eu
folder=$1 lock=$2 torch=$3 locks=$(dirname "$0")
[ "$torch" = none ] || [ -f "$locks/torch-$torch.txt" ] || {
    echo "TORCH=$torch: write cpu or pypi" >&2
    exit 64
}
if [ -f /run/secrets/ca ]; then
    export PIP_CERT=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca
fi
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes -r "$locks/uv.txt"
[ -z "${PIP_INDEX_URL-}" ] || export UV_DEFAULT_INDEX="$PIP_INDEX_URL"
[ -z "${PIP_FIND_LINKS-}" ] || export UV_FIND_LINKS="$(echo $PIP_FIND_LINKS | tr ' ' ',')"
install() {
    "$folder/bin/uv" pip install --quiet --link-mode copy --python "$folder" --no-deps --require-hashes --compile-bytecode "$@"
}
install -r "$locks/$lock"
[ "$torch" != none ] || exit 0
if [ "$torch" = pypi ]; then
    install -r "$locks/torch-pypi.txt"
elif ! install --no-index -r "$locks/torch-cpu.txt" 2>/dev/null; then
    install --default-index https://download.pytorch.org/whl/cpu -r "$locks/torch-cpu.txt"
fi
