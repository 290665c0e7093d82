#!/bin/sh
# Hosts on one machine: each has network, mount, pid, hostname and IPC namespaces, its own /tmp, /dev/shm and address.
# They share the read-only source tree with its Python, as an image would give it to them, and a bridge.
#
#     nodes.sh up NAME N        host NAME at 10.77.0.N
#     nodes.sh in NAME CMD...   run CMD there
#     nodes.sh pid NAME         the process whose death is the host's death
#     nodes.sh kill NAME        power cut
#     nodes.sh down             end all hosts, by pid
set -eu
state=${NODES_STATE:-/run/troupe-nodes}
tree=$(cd "$(dirname "$0")/../.." && pwd)
bridge=trbr0
mkdir -p "$state"

bridge_up() {
    ip link show "$bridge" >/dev/null 2>&1 && return
    ip link add "$bridge" type bridge
    ip addr add 10.77.0.1/24 dev "$bridge"
    ip link set "$bridge" up
}

inside() { # in the new namespaces, as their first process
    name=$1 address=$2
    hostname "$name"
    mkdir -p /run/keep && mount -t tmpfs none /run/keep && mkdir /run/keep/tree
    mount --bind "$tree" /run/keep/tree
    mount -t tmpfs -o size=4g none /tmp && chmod 1777 /tmp
    mount -t tmpfs -o size=1g none /dev/shm
    mkdir -p "$tree" /tmp/home
    mount --bind /run/keep/tree "$tree" && mount -o remount,bind,ro "$tree"
    printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" >/tmp/hosts
    mount --bind /tmp/hosts /etc/hosts
    exec sleep infinity
}

case $1 in
up)
    name=$2 address=10.77.0.$3
    bridge_up
    ip netns add "tr-$name"
    ip link add "tr$name" type veth peer name eth0 netns "tr-$name"
    ip link set "tr$name" master "$bridge" up
    ip -n "tr-$name" addr add "$address/24" dev eth0
    ip -n "tr-$name" link set eth0 up
    ip -n "tr-$name" link set lo up
    ip netns exec "tr-$name" unshare --mount --pid --uts --ipc --fork --mount-proc --propagation private \
        "$0" inside "$name" "$address" </dev/null >/dev/null 2>&1 &
    outer=$!
    until first=$(pgrep -P "$outer") && [ -n "$first" ] && nsenter -t "$first" -m test -d /tmp/home 2>/dev/null; do sleep 0.1; done
    until nsenter -t "$first" -m grep -q "$name" /etc/hosts; do sleep 0.1; done
    echo "$first" >"$state/$name"
    ;;
inside) inside "$2" "$3" ;;
pid) cat "$state/$2" ;;
in)
    name=$2
    shift 2
    # A session of its own: Linux shares the processors out by session, as machines have their own.
    exec setsid nsenter -t "$(cat "$state/$name")" --mount --pid --uts --ipc --net \
        env HOME=/tmp/home PATH="$tree/.venv/bin:/usr/sbin:/usr/bin:/sbin:/bin" sh -c 'cd /tmp && exec "$@"' sh "$@"
    ;;
kill)
    kill -9 "$(cat "$state/$2")" 2>/dev/null || true
    rm "$state/$2"
    ip link del "tr$2" 2>/dev/null || true # a namespace goes when its last process has gone
    ip netns del "tr-$2"
    ;;
down)
    for file in "$state"/*; do [ -e "$file" ] && "$0" kill "$(basename "$file")"; done
    for left in $(ip netns list | grep -o '^tr-[^ ]*'); do ip netns del "$left"; done
    for left in $(ip -o link show master "$bridge" 2>/dev/null | grep -o 'tr[a-z0-9]*@' | tr -d @); do ip link del "$left"; done
    ip link del "$bridge" 2>/dev/null || true
    ;;
esac
