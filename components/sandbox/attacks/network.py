"""Attacks through the network, and through sockets that need no network."""

from components.sandbox.attacks.base import Attack
from components.sandbox.attacks.decoys import Bait
from components.sandbox.attacks.kinds import at_once, probe

DOCKER_SOCKETS = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/dbus/system_bus_socket",
)
FAMILIES = {"alg": 38, "bluetooth": 31, "can": 29, "xdp": 44, "qipcrtr": 42, "nfc": 39, "tipc": 30}

CONNECT = """
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(0.3)
        client.connect(address)
        return address
for host in HOSTS:
    attempt(f"{host}:{PORT}", lambda: connect(socket.AF_INET, (host, PORT)))
attempt("1.1.1.1:53", lambda: connect(socket.AF_INET, ("1.1.1.1", 53)))
attempt("169.254.169.254:80", lambda: connect(socket.AF_INET, ("169.254.169.254", 80)))
attempt("[2606:4700:4700::1111]:53", lambda: connect(socket.AF_INET6, ("2606:4700:4700::1111", 53)))
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        return client.sendto(b"x", ("1.1.1.1", 53))
attempt("udp", datagram)
"""

INTERFACES = """
with open("/proc/net/dev") as file:
    names = [line.split(":")[0].strip() for line in file if ":" in line]
notice("interface beside lo", [name for name in names if name != "lo"], "only lo")
with open("/proc/net/unix") as file:
    notice("sockets of the host", MARK if MARK in file.read() else "")
with open("/proc/net/tcp") as file:
    ports = {int(line.split()[1].rsplit(":", 1)[1], 16) for line in file.readlines()[1:]}
notice("listening ports of the host", PORT if PORT in ports else "")
"""

UNIX_SOCKETS = """
def connect(address):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(0.3)
        client.connect(address)
        return address
attempt("abstract socket of the host", lambda: connect("\\0" + ABSTRACT))
for path in PATHS:
    attempt(path, lambda: connect(path))
"""

VSOCK = """
def connect(cid):
    with socket.socket(getattr(socket, "AF_VSOCK", 40), socket.SOCK_STREAM) as client:
        client.settimeout(0.3)
        client.connect((cid, PORT))
        return cid
attempt("socket to virtual machines", lambda: socket.socket(getattr(socket, "AF_VSOCK", 40), socket.SOCK_STREAM).family)
attempt("connect to this machine", lambda: connect(1))
attempt("connect to its hypervisor", lambda: connect(2))
"""


def attacks(bait: Bait) -> tuple[Attack, ...]:
    """All attacks of this theme; `bait` has sockets of this machine."""
    addresses = [f"{host}:{bait.port}" for host in bait.addresses]
    sockets = [str(bait.unix_socket), *DOCKER_SOCKETS]
    return (
        probe(
            "network-connect",
            "connect to a listening port of the host, to the internet and to a cloud's metadata service",
            CONNECT,
            *addresses,
            HOSTS=list(bait.addresses),
            PORT=bait.port,
        ),
        probe(
            "network-names",
            "resolve names, which would carry data out through DNS",
            """
socket.setdefaulttimeout(0.5)
attempt("resolve a name", lambda: socket.getaddrinfo("pypi.org", 443))
attempt("resolve the host", lambda: socket.getaddrinfo(HOSTNAME, 80))
""",
            HOSTNAME=bait.hostname + ".local",
        ),
        probe(
            "network-interfaces",
            "see the host's interfaces, ports and sockets",
            INTERFACES,
            "sockets of the host",
            MARK=bait.abstract_socket,
            PORT=bait.port,
        ),
        probe(
            "unix-sockets",
            "connect to sockets of the host by path and in the abstract namespace, the Docker daemon's too",
            UNIX_SOCKETS,
            *sockets,
            ABSTRACT=bait.abstract_socket,
            PATHS=sockets,
        ),
        probe(
            "vsock",
            "reach this machine or its hypervisor by virtual machine sockets, which ignore network namespaces",
            VSOCK,
            PORT=bait.vsock_port or bait.port,
        ),
        *_ATTACKS,
    )


_ATTACKS = (
    probe(
        "network-packets",
        "open raw and packet sockets, bring up an interface, give it an address",
        """
attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
def bring_up():
    import fcntl, struct
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        return fcntl.ioctl(handle, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))
attempt("change an interface", bring_up)
def add_address():
    import struct
    body = struct.pack("BBBBI", socket.AF_INET, 8, 0, 0, 1) + struct.pack("HH4s", 8, 2, bytes([10, 9, 8, 7]))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.settimeout(0.3)
        link.send(struct.pack("IHHII", 16 + len(body), 20, 0x405, 1, 0) + body)
        answer = link.recv(4096)
    code = struct.unpack("i", answer[16:20])[0]
    if code < 0:
        raise OSError(-code, "")
    return answer
attempt("netlink: add an address", add_address)
""",
    ),
    probe(
        "rare-socket-families",
        "open sockets of rarely used families, where most network faults of the kernel lie",
        """
for name, family in FAMILIES.items():
    attempt(name, lambda: socket.socket(family, socket.SOCK_RAW if name in ("can", "xdp") else socket.SOCK_SEQPACKET))
""",
        *FAMILIES,
        FAMILIES=FAMILIES,
    ),
    at_once(
        "boxes-talk",
        "listen in one program and call it from another that runs at the same time",
        """
with socket.socket(socket.AF_UNIX) as server:
    server.bind("\\0TRP-MEETING")
    server.listen()
    server.settimeout(0.8)
    attempt("be called", server.accept)
""",
        """
def call():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\\0TRP-MEETING")
        return "answered"
for _ in range(20):
    time.sleep(0.03)
    attempt("call the other box", call)
    if found["call the other box"][0]:
        break
""",
        "call the other box",
    ),
)
