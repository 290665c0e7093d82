#!/bin/sh
# Makes an environment of the locked packages, each checked against its hash, with compiled bytecode.
#
#     install.sh FOLDER cpu|pypi      the locks lie beside this file
#
# PIP_INDEX_URL and PIP_FIND_LINKS name other places of packages; /run/secrets/ca holds other certificates, if there is one.
set -eu
folder=$1 torch=$2 locks=$(dirname "$0")
[ -f "$locks/torch-$torch.txt" ] || {
    echo "TORCH=$torch: write cpu or pypi" >&2
    exit 1
}
if [ -f /run/secrets/ca ]; then
    export PIP_CERT=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca
fi
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes -r "$locks/uv.txt"
[ -z "${PIP_INDEX_URL-}" ] || export UV_DEFAULT_INDEX="$PIP_INDEX_URL"
[ -z "${PIP_FIND_LINKS-}" ] || export UV_FIND_LINKS="$PIP_FIND_LINKS"
install() {
    "$folder/bin/uv" pip install --quiet --link-mode copy --python "$folder" --no-deps --require-hashes --compile-bytecode "$@"
}
install -r "$locks/images.txt"
if [ "$torch" = pypi ]; then
    install -r "$locks/torch-pypi.txt"
elif ! install --no-index -r "$locks/torch-cpu.txt" 2>/dev/null; then
    install --default-index https://download.pytorch.org/whl/cpu -r "$locks/torch-cpu.txt"
fi
