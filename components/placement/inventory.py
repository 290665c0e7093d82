"""Which machines there are: this one as its driver describes it, or others in a few characters."""

import re
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from components.errors import ConfigurationError, ServiceMissing
from components.models.memory import GIB, host_bytes

VISIBLE = "CUDA_VISIBLE_DEVICES"
_QUERY = ("nvidia-smi", "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits")
_ANSWERS_SECONDS = 30.0
_INVENTORY = re.compile(r"(?:([1-9]\d{0,3})x)?([1-9]\d{0,2})x([1-9]\d{0,3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU: its name in CUDA_VISIBLE_DEVICES, and its memory."""

    name: str
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine. `num_bytes` is its main memory; None if nobody knows it."""

    name: str
    devices: tuple[Device, ...] = ()
    num_bytes: int | None = None


Inventory = tuple[Host, ...]


def parse_inventory(text: str) -> Inventory:
    """Hosts that are not here: `[HOSTSx]GPUSxGIB`. Raises ConfigurationError.

    **Example** "2x8x80": two hosts with 8 GPUs of 80 GiB each; "1x24": one host with one GPU of 24 GiB.
    """
    found = _INVENTORY.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            f"inventory {text!r}: write GPUSxGIB for one host, as 8x80, or HOSTSxGPUSxGIB, as 2x8x80"
        )
    num_hosts, num_gpus, gib = int(found[1] or 1), int(found[2]), int(found[3])
    devices = tuple(Device(name=str(number), num_bytes=gib * GIB) for number in range(num_gpus))
    return tuple(Host(name=f"host {number}", devices=devices) for number in range(num_hosts))


def read_this_host(environment: Mapping[str, str]) -> Host:
    """This machine, with the GPUs that `environment` makes visible, in its order; none without NVIDIA's driver.

    Raises ServiceMissing if the driver does not answer, ConfigurationError for a device that it does not have.
    """
    try:
        done = subprocess.run(
            _QUERY, capture_output=True, text=True, timeout=_ANSWERS_SECONDS, check=True, encoding="utf-8"
        )
    except FileNotFoundError:
        listed = ""
    except (subprocess.SubprocessError, OSError) as error:
        raise ServiceMissing(f"nvidia-smi does not tell which GPUs are here: {error}; look at the driver") from error
    else:
        listed = done.stdout
    return Host(
        name=socket.gethostname(), devices=choose_visible(listed, environment.get(VISIBLE)), num_bytes=host_bytes()
    )


def choose_visible(listed: str, visible: str | None) -> tuple[Device, ...]:
    """The devices of nvidia-smi's lines `index, uuid, MiB` that `visible` names by index or the beginning of a uuid; None: all.

    They are named by index, which every library reads. Raises ConfigurationError for a name that is none of them, as a part of
    a device (MIG) is.

    **Example** lines "0, GPU-ab1, 81559" and "1, GPU-cd2, 81559", visible "GPU-cd": the second one, named "1".
    """
    rows = [[part.strip() for part in line.split(",")] for line in listed.splitlines() if line.strip()]
    devices = {index: Device(name=index, num_bytes=int(mebibytes) << 20) for index, _, mebibytes in rows}
    if visible is None:
        return tuple(devices.values())
    chosen = []
    for name in filter(None, (part.strip() for part in visible.split(","))):
        if name == "-1":
            break  # as CUDA reads the list: what follows is hidden
        fitting = [index for index, uuid, _ in rows if name == index or (len(name) > 4 and uuid.startswith(name))]
        if len(fitting) != 1:
            raise ConfigurationError(
                f"{VISIBLE} {visible!r}: {name!r} is none of the GPUs ({', '.join(devices) or 'there are none'}); name whole "
                "devices by index or uuid, as nvidia-smi lists them"
            )
        chosen.append(devices[fitting[0]])
    return tuple(chosen)
