"""The guests' driver: dkms builds it for the release's kernel from the release's kernel source."""

from __future__ import annotations

from pathlib import Path

import pytest

from host import PACKAGES, SUITES, host_of


@pytest.mark.parametrize("suite", SUITES)
def test_dkms_builds_the_driver_for_the_releases_kernel(suite: str) -> None:
    with host_of(suite, "pvrdma-dkms", "linux-headers-amd64") as host:
        machine = host.machine
        (kernel,) = machine.shell("ls /lib/modules").split()
        host.install(host.package(PACKAGES, "pvrdma-dkms"))
        module = f"pvrdma/{host.version('pvrdma-dkms')}"
        machine.shell(f"dkms install {module} -k {kernel}")
        assert "installed" in machine.shell(f"dkms status {module} -k {kernel}")
        (built,) = map(Path, machine.shell(f"ls /lib/modules/{kernel}/updates/dkms/*").split())
        assert built.name.split(".")[0] == "vmw_pvrdma"
        assert "pci:v000015ADd00000820" in machine.shell(f"modinfo --field alias {built}")
        assert machine.shell(f"modinfo --field vermagic {built}").split()[0] == kernel
        assert machine.shell(f"modinfo --field signer {built}") != "", "dkms signs the module"
        machine.shell("apt-get purge --yes pvrdma-dkms")
        machine.shell(f"test ! -e {built} -a ! -e /var/lib/dkms/pvrdma")
