#!/bin/sh
# Writes a base for the images where there is no registry: a minimal Debian with Python, its venv and its headers. As root.
#
#     infra/images/debian_base.sh FILE.tar && docker import FILE.tar debian-python
set -eu
file=$1
suite=bookworm
mirror=${DEBIAN_MIRROR-http://deb.debian.org/debian}
folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
debootstrap --variant=minbase --include=ca-certificates,python3,python3-dev,python3-venv $suite "$folder" "$mirror" >"$file.log" 2>&1 || {
    tail -3 "$file.log" >&2
    exit 1
}
# Unpacking may leave /proc mounted.
umount "$folder/proc" 2>/dev/null || true
tar -C "$folder" --one-file-system --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./usr/share/doc/*' -cf "$file.part" .
mv "$file.part" "$file"
