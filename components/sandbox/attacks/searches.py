"""Programs that look for what another one left."""

MEMORY_SEARCH = """
import re
def seen_in_memory(pattern):
    hits, size = set(), 0
    with open("/proc/self/maps") as file:
        regions = [line.split() for line in file]
    for region in regions:
        if "r" not in region[1] or region[-1] in ("[vvar]", "[vvar_vclock]", "[vsyscall]"):
            continue
        start, end = (int(number, 16) for number in region[0].split("-"))
        for place in range(start, end, 1 << 20):
            length = min((1 << 20) + 64, end - place)
            size += length
            hits |= {number.decode() for number in re.findall(pattern, ctypes.string_at(place, length))}
    return hits, f"not in {size >> 20} MiB"
"""
"""Defines `seen_in_memory(pattern)`: matches of its one group in all readable memory, and the size of that memory, in words."""

LOOK_FOR_PROCESSES = """
time.sleep(0.2)
others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]
notice("processes of another program", others)
notice("files of another program", os.listdir("/tmp"))
"""
