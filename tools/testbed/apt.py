"""The Debian mirror and the apt settings of this machine. The sources never name a mirror."""

from __future__ import annotations

import os
import subprocess

# Parts of the Acquire tree that describe this machine's indices and not the access to a server.
_LOCAL_ONLY = ("Acquire::IndexTargets", "Acquire::Languages", "Acquire::CompressionTypes", "Acquire::Changelogs",
               "Acquire::cdrom", "Acquire::GzipIndexes")


def mirror() -> str:
    """The URI of the Debian archive this machine uses, or PVRDMA_MIRROR."""
    override = os.environ.get("PVRDMA_MIRROR")
    if override:
        return override
    listing = _output("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages",
                      "Component: main", "Target-Of: deb")
    sites = [line.split()[0] for line in listing.splitlines() if "-security" not in line]
    if not sites:
        raise RuntimeError("apt on this machine names no Debian archive with a 'main' component; "
                           "add one to /etc/apt/sources.list or set PVRDMA_MIRROR")
    return sites[0]


def settings() -> str:
    """This machine's apt settings for access to a server (proxies, retries, date checks), as apt.conf text."""
    dump = _output("apt-config", "dump")
    lines = [line for line in dump.splitlines()
             if line.startswith("Acquire::") and not line.startswith(_LOCAL_ONLY)]
    return "\n".join([*lines, 'Acquire::Languages "none";', 'Acquire::Retries "3";', ""])


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout
