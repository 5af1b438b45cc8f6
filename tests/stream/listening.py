"""Who listens where, as the kernel tells it."""

import os
from pathlib import Path

LISTENING = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}  # as the kernel writes 127.0.0.1, alone and in IPv6


def offspring(pid):
    """The ids of all processes below this one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    below, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new} - below
        below |= new
    return below


def listeners(pids):
    """(address, port) in the kernel's hexadecimal, of every TCP socket that these processes listen on."""
    sockets = {os.readlink(fd) for pid in pids for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                addresses.add(tuple(fields[1].split(":")))
    return addresses
