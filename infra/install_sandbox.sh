#!/bin/sh
# Installs what the sandbox needs from Debian or Ubuntu: docker.io, runc and bubblewrap, those of them that are missing.
# Starts nothing: Troupe starts a private engine when it needs one. Without root or apt it says what to install.
set -eu
missing=""
for pair in dockerd:docker.io runc:runc bwrap:bubblewrap; do
    program=${pair%%:*}
    command -v "$program" >/dev/null 2>&1 || [ -x "/usr/sbin/$program" ] || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "sandbox: not installed:$missing" >&2
    echo "as root on Debian or Ubuntu: apt-get install -y --no-install-recommends$missing" >&2
    echo "programs run in whichever of docker and bubblewrap there is; tests of the other one are skipped" >&2
    exit 0
fi
# Debian asks this program whether it may start a service that it just installed; 101 is no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086  # one word a package
apt-get install -y -qq --no-install-recommends $missing >/dev/null
echo "sandbox: installed$missing"
