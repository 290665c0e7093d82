#!/bin/sh
# Builds the cartridge from its source: `build.sh FILE`. Needs Debian's package sdcc (4.2: another version writes other bytes).
set -eu
source=$(cd "$(dirname "$0")" && pwd)/homebrew.c
target=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cp "$source" homebrew.c
sdcc -msm83 --opt-code-size -c homebrew.c
sdcc -msm83 --code-loc 0x200 --data-loc 0xC0A0 homebrew.rel -o homebrew.ihx
makebin -Z -yC -yn HOMEBREW homebrew.ihx homebrew.gbc
# The logo that makebin inserts is somebody's trade mark; the emulator does not look at it.
dd if=/dev/zero of=homebrew.gbc bs=1 seek=260 count=48 conv=notrunc status=none
mv homebrew.gbc "$target"
