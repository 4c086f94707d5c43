"""Hosts of a network on this machine: namespaces of Linux with own names, addresses, processes and mounts.

Nothing of a host outlives this process: the first process of a host ends with its standard input, the kernel ends all
others of the host with it, and links and mounts vanish with their namespaces. Only root can make hosts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_NETWORK = "10.231.7"
_PRIVATE = ("/dev/shm", "/tmp/ray")
"""Folders that every host has of its own, in memory."""
_UNSHARE = ("unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc")
_FIRST_PROCESS = """
hostname "$0" && ip link set lo up || exit 1
for each; do mount -t tmpfs soak "$each" || exit 1; done
echo up
cat
"""


def why_not() -> str:
    """The reason why no host can be made here; "" where they can."""
    if not sys.platform.startswith("linux"):
        return "hosts are namespaces of Linux, and this is another system"
    if os.geteuid() != 0:
        return "hosts are namespaces, which only root can make"
    missing = [name for name in ("ip", "unshare", "nsenter", "hostname", "mount") if shutil.which(name) is None]
    if missing:
        return f"hosts need the program '{missing[0]}', which is not installed"
    allowed = subprocess.run([*_UNSHARE, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    return "" if allowed else "hosts are namespaces, which the kernel forbids here"


class Host:
    """A host with a name, an address, and mounts and processes of its own.

    Args:
        name: what `socket.gethostname` says there.
        number: the last part of its address, 1 to 254; the host with 1 is the switch of the network.
        mounts: files or folders that lie at other paths there: path by the path where it is seen.
    """

    def __init__(self, name: str, number: int, mounts: Mapping[Path, Path] | None = None) -> None:
        self.name, self.address = name, f"{_NETWORK}.{number}"
        for folder in _PRIVATE:
            Path(folder).mkdir(exist_ok=True)
        self._unshare = subprocess.Popen(
            [*_UNSHARE, "sh", "-c", _FIRST_PROCESS, name, *_PRIVATE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is this process's, which then ends its hosts in order
        )
        assert self._unshare.stdout is not None
        if self._unshare.stdout.readline() != b"up\n":
            self.close()
            raise SystemExit(f"the host '{name}' cannot be made.")
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children").read_text()
        self.first_process = int(children.split()[0])
        for seen, there in (mounts or {}).items():
            self.run(["mount", "--bind", str(there), str(seen)])
        if number == 1:
            self._network("link", "add", "eth0", "type", "bridge")
            self._set_address()

    def connect(self, switch: Host) -> None:
        """Joins the network of another host."""
        end = f"to{self.address.rpartition('.')[2]}"
        switch._network(*("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", str(self.first_process)))
        switch._network("link", "set", end, "master", "eth0", "up")
        self._set_address()

    def _set_address(self) -> None:
        self._network("address", "add", f"{self.address}/24", "dev", "eth0")
        self._network("link", "set", "eth0", "up")
        # Leads nowhere; programs ask which of their addresses they would use for the world.
        self._network("route", "add", "default", "dev", "eth0")

    def _network(self, *arguments: str) -> None:
        subprocess.run(["nsenter", "-t", str(self.first_process), "--net", "ip", *arguments], check=True)

    def command(self, command: Sequence[str]) -> list[str]:
        """A command as it runs on the host."""
        return ["nsenter", "-t", str(self.first_process), "--net", "--uts", "--mount", "--pid", "--", *command]

    def run(self, command: Sequence[str]) -> None:
        """Run a command on the host and wait for it."""
        subprocess.run(self.command(command), check=True)

    def close(self) -> None:
        """End every process of the host."""
        for stream in (self._unshare.stdin, self._unshare.stdout):
            assert stream is not None
            stream.close()
        self._unshare.wait()
