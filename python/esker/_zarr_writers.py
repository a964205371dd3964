"""Writers of a zarr store, and removal of objects that dead writers have left.

Before a value gets an object of its own, the writer adds the number of the object to the Key-Value
`zarr.writers`. The transaction that lets the index refer to the object removes that entry. So if the writer
of an entry is dead, the index will never refer to its object.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pathlib
import socket
from typing import TYPE_CHECKING, Any

from .errors import NotSupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from ._esker import Snapshot, Transaction
    from ._zarr_index import Index

# Names of the snapshots that sessions read begin with it.
BASE = "zarr-session-"


def _boot() -> str:
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _machine() -> str | None:
    """A number of this machine that stays when it restarts; None if the system has none."""
    try:
        number = pathlib.Path("/etc/machine-id").read_text().strip()
    except OSError:
        return None
    # The number itself should not be shown to others (machine-id(5)).
    return hashlib.sha256(f"esker {number}".encode()).hexdigest() if number else None


def _stat(pid: int) -> tuple[str, int] | None:
    """The state of a process, and its start time in ticks since the start of the machine.

    None if `/proc` does not show it.
    """
    try:
        state, *fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The state is field 3 of proc_pid_stat(5), the start time field 22.
    return state, int(fields[18])


def _began(pid: int) -> int | None:
    """The start time of a process in ticks since the machine started; None if `/proc` does not show it."""
    found = _stat(pid)
    return found[1] if found else None


def _has_ended(pid: int, began: int | None) -> bool:
    """Whether the process that began at that time is known to have ended.

    With `hidepid`, `/proc` hides the processes of other users.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    found = _stat(pid)
    # Z is a zombie, X a dead process. Another start time is that of a new process with the same ID.
    return found is not None and (found[0] in "ZX" or found[1] != began)


def this_process() -> dict[str, Any]:
    """The identity of this process for other processes."""
    space = os.stat("/proc/self/ns/pid").st_ino
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "machine": _machine(),
        "boot": _boot(),
        "space": space,
        "pid": pid,
        "began": _began(pid),
    }


def is_dead(process: Mapping[str, Any]) -> bool:
    """True if a process is known to be dead. Nothing is known about other hosts and PID namespaces."""
    here = this_process()
    if process["host"] != here["host"]:
        return False
    if process["boot"] != here["boot"]:
        # Two machines may have one host name, such as "localhost".
        return here["machine"] is not None and process.get("machine") == here["machine"]
    return bool(process["space"] == here["space"] and _has_ended(process["pid"], process["began"]))


def _key(number: int) -> bytes:
    return f"{number}".encode()


def _end(index: Index, number: int, ended: Set[int]) -> bool:
    return Writers(index).end(number, ended)


class Writers:
    """The entries of `zarr.writers`, in an index."""

    def __init__(self, index: Index) -> None:
        """Take an index."""
        self.index = index
        self._entries = index.kv("zarr.writers")

    def enter(self, session: int | None = None, **more: Any) -> int:
        """Reserve a number for an object of this process, or of a session."""
        number = self.index.container.allocate_oids()
        writer = {"process": this_process()} if session is None else {"session": session}
        self._entries[_key(number)] = json.dumps(writer | more).encode()
        return number

    def get(self, number: int) -> dict[str, Any] | None:
        """The entry of a number; None if it does not exist."""
        text = self._entries.get(_key(number))
        return json.loads(text) if text else None

    def has(self, number: int, tx: Transaction | None = None) -> bool:
        """Whether a number has an entry, read in the transaction `tx` if that is given."""
        entries = self._entries if tx is None else self._entries.at(tx)
        return entries.size(_key(number)) is not None

    def remove(self, number: int) -> None:
        """Remove an entry."""
        self._entries.discard(_key(number))

    def all(self) -> dict[int, dict[str, Any]]:
        """All entries by number."""
        return {int(number): json.loads(text) for number, text in self._entries.items()}

    def collect(self, abandoned: Iterable[int] = ()) -> int:
        """Remove objects of dead writers, and the sessions in `abandoned`. Returns the number of objects."""
        known = self.all()
        dead = {
            number for number, writer in known.items() if "process" in writer and is_dead(writer["process"])
        }
        dead |= set(abandoned)
        # Objects of a session are removed first: if this process is killed, its entry still refers to them.
        alive = known.keys() - dead
        arrays = [
            number
            for number, writer in known.items()
            if "session" in writer and writer["session"] not in alive
        ]
        objects = arrays + sorted(dead)
        removed = sum(
            self.index.change(functools.partial(_end, number=number, ended=dead)) for number in objects
        )
        self.destroy_bases()
        return removed

    def end(self, number: int, ended: Set[int]) -> bool:
        """Remove the object of a number, unless the index refers to it by now. `ended` lists ended sessions.

        Returns whether it was removed.
        """
        writer = self.get(number)
        if writer is None or self._is_running(writer.get("session"), ended):
            return False
        self.index.session(number).clear()
        self.index.destroy_array(number)
        self.remove(number)
        return True

    def _is_running(self, session: int | None, ended: Set[int]) -> bool:
        # A listing misses a session that begins while it is made, but may show an Array of that session.
        return session is not None and session not in ended and self.has(session)

    def destroy_bases(self) -> None:
        """Destroy the snapshots of sessions that have ended."""
        for snapshot in self._snapshots():
            number = snapshot.name.removeprefix(BASE)
            if snapshot.name.startswith(BASE) and self.get(int(number)) is None:
                self.index.destroy_snapshot(snapshot)

    def _snapshots(self) -> list[Snapshot]:
        try:
            return self.index.container.snapshots()
        except NotSupported:
            return []
