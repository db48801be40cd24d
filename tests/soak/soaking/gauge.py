"""A daemon's memory, descriptors, threads and objects, and whether they are as before."""

from __future__ import annotations

import os
import re
import statistics
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fleet.host import Host
from fleet.network import PORT, STORE_PORT

MIB = 1 << 20
_TCP_ESTABLISHED, _TCP_LISTENS = "01", "0A"  # states as in /proc/net/tcp
# The number of sessions with the store depends on how many edits ran at once: a watch, four idle sessions of a pool,
# one in use. Each has a connection and libcurl's unnamed socket pair.
_STORE_SESSIONS_MAX = 6
_BOUNDED = {f"tcp, connected to {STORE_PORT}": _STORE_SESSIONS_MAX, "unix": 2 * _STORE_SESSIONS_MAX}
_QUARTERS_NEED = 8  # how many quiet moments are needed to judge a trend


@dataclass(frozen=True)
class Slack:
    """How much more memory than after the warm-up is accepted."""

    percent: float = 10.0
    mib: float = 8.0

    def limit(self, warm_bytes: int, share: float = 1.0) -> float:
        """The most memory allowed for `warm_bytes` at the start; `share` is the part of the slack."""
        return warm_bytes + share * max(warm_bytes * self.percent / 100, self.mib * MIB)


@dataclass(frozen=True)
class Usage:
    """A process's values in /proc."""

    rss_bytes: int
    own_bytes: int  # the part that is private and not of a file
    threads: int
    descriptors: dict[str, int]  # by kind
    cpu_s: float

    @property
    def descriptor_count(self) -> int:
        """The number of all descriptors."""
        return sum(self.descriptors.values())


@dataclass
class Quiet:
    """One host while it has no guests."""

    at_s: float
    usage: Usage
    objects: dict[str, int] = field(default_factory=dict)  # of all adapters

    def plain(self) -> dict[str, Any]:
        """The values for the report."""
        return asdict(self)


def usage_of(pid: int) -> Usage:
    """Reads the values now."""
    process = Path("/proc") / str(pid)
    status = dict(line.split(":", 1) for line in (process / "status").read_text(encoding="ascii").splitlines())
    sockets = _sockets(process / "net")
    kinds: Counter[str] = Counter()
    for entry in (process / "fd").iterdir():
        try:
            target = os.readlink(entry)
        except FileNotFoundError:
            continue  # was closed meanwhile
        kinds[sockets.get(target) or re.sub(r"\d+", "N", target)] += 1
    ticks = (process / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    rss, own = (int(status[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon"))
    return Usage(rss, own, int(status["Threads"]), dict(sorted(kinds.items())),
                 sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"))


def _sockets(net: Path) -> dict[str, str]:
    """The kind of each socket of a network namespace, by its descriptor's link."""
    found = {}
    for line in (net / "tcp").read_text(encoding="ascii").splitlines()[1:]:
        words = line.split()
        local, remote = (int(address.rpartition(":")[2], 16) for address in words[1:3])
        if words[3] == _TCP_LISTENS:
            what = f"tcp, listens on {local}"
        elif local == PORT:
            what = f"tcp, accepted on {local}"
        else:
            what = f"tcp, connected to {remote}"
        found[f"socket:[{words[9]}]"] = what + ("" if words[3] in (_TCP_LISTENS, _TCP_ESTABLISHED) else f", state {words[3]}")
    for line in (net / "unix").read_text(encoding="utf-8").splitlines()[1:]:
        words = line.split()
        found[f"socket:[{words[6]}]"] = f"unix {Path(words[7]).name}" if len(words) > 7 else "unix"
    return found


def objects_of(host: Host) -> dict[str, int]:
    """The number of verbs objects of each kind, and of GIDs, of all adapters of a host; and of QPs in the QP
    list."""
    total: Counter[str] = Counter()
    for adapter in host.ctl("adapter", "list"):
        shown = host.ctl("adapter", "get", adapter["name"])
        total.update({kind: count for kind, count in shown["objects"].items() if isinstance(count, int)})
        total["gids"] += len(shown["gids"])
    total["listed_qps"] = len(host.ctl("qp", "list"))
    return {kind: count for kind, count in total.items() if count}


def difference(host: str, start: Quiet, end: Quiet) -> str | None:
    """A sentence that names a difference from the start; None if there is none."""
    if end.objects:
        return f"{host} still has objects though no guest is there: {end.objects}"
    if end.usage.threads != start.usage.threads:
        return f"{host} has {end.usage.threads} threads, at the start {start.usage.threads}"
    more = Counter(end.usage.descriptors)
    more.subtract(start.usage.descriptors)
    for kind, most in _BOUNDED.items():
        if end.usage.descriptors.get(kind, 0) <= most:
            more[kind] = 0
    if any(more.values()):
        return (f"{host} has {end.usage.descriptor_count} descriptors, at the start {start.usage.descriptor_count}: "
                f"{ {kind: count for kind, count in more.items() if count} }")
    return None


def growth(host: str, moments: list[Quiet], slack: Slack) -> str | None:
    """Whether memory has grown: compares the last moment with the first, and the last quarter with the second."""
    sizes = [moment.usage.rss_bytes for moment in moments]
    if sizes[-1] > slack.limit(sizes[0]):
        return (f"{host} uses {sizes[-1] / MIB:.1f} MiB, after the warm-up it was {sizes[0] / MIB:.1f} MiB; "
                f"at most {slack.limit(sizes[0]) / MIB:.1f} MiB are no growth")
    if len(sizes) < _QUARTERS_NEED:
        return None
    quarter = len(sizes) // 4
    second, last = statistics.median(sizes[quarter:2 * quarter]), statistics.median(sizes[-quarter:])
    if last > slack.limit(int(second), 0.5):
        return (f"{host} keeps growing: {second / MIB:.1f} MiB in the second quarter of the time, "
                f"{last / MIB:.1f} MiB in the last")
    return None
