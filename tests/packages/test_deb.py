"""The life of the Debian packages on a host of each release: installation, start, upgrade under traffic, removal, purge.

`make deb-test` builds the packages of the last commit and those of the version before, and runs this. The tests use a host in
their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from host import OLDER, PACKAGES, SUITES, Host, host_of
from traffic import traffic

# What is on the host, but for files of dpkg and apt, and what a purge leaves: the user, caches of programs that looked. The purge
# of each package with an AppArmor profile removes the folder for disabled ones if it is empty.
LISTING = r"""find /etc /usr /opt /var/lib /run ! -path '/run/*/*' ! -path '*/dpkg/*' ! -path '*/apt/*' | sort |
    sed -E '\#^/etc/(passwd|group|shadow|gshadow)-?$#d; \#^/etc/\.pwd\.lock$#d; \#/ldconfig/#d; \#^/etc/apparmor\.d/disable$#d; \#\.pyc$|__pycache__#d'"""


@pytest.fixture(name="host", scope="module", params=SUITES)
def _host(request: pytest.FixtureRequest) -> Iterator[Host]:
    with host_of(request.param, "pvrdma") as host:
        yield host


def test_an_installation_starts_nothing(host: Host) -> None:
    host.machine.shell(f"{LISTING} >/root/before")
    host.install(host.package(OLDER, "pvrdma"))
    assert (host.of_service("ActiveState"), host.of_service("UnitFileState")) == ("inactive", "disabled")
    assert host.machine.run("systemctl", "is-enabled", "pvrdma-roce@.service", check=False).stdout.strip() == "disabled"
    assert host.machine.shell("systemd-analyze verify --man=no pvrdmad.service 2>&1") == ""
    assert "pvrdma" in host.machine.shell("id pvrdma")
    conffiles = host.machine.shell("dpkg-query --showformat '${Conffiles}' --show pvrdma").split()
    assert sorted(name for name in conffiles if name.startswith("/")) == \
        ["/etc/apparmor.d/abstractions/libvirt-qemu.d/pvrdma", "/etc/apparmor.d/usr.sbin.pvrdmad", "/etc/libvirt/hooks/qemu.d/pvrdma",
         "/etc/pvrdma/pvrdmad.toml"]


def test_apparmor_accepts_what_is_installed(host: Host) -> None:
    """Parsed only: nothing loads it into this machine's kernel."""
    rules = "/etc/apparmor.d/abstractions/libvirt-qemu.d/pvrdma"
    host.machine.shell(f"""
        apparmor_parser --skip-kernel-load --skip-cache /etc/apparmor.d/usr.sbin.pvrdmad
        printf 'include <tunables/global>\nprofile qemu {{\n  include "{rules}"\n}}\n' |
            apparmor_parser --skip-kernel-load --skip-cache
        ! echo 'profile qemu {{ /run/pvrdma/ wrong, }}' | apparmor_parser --skip-kernel-load --skip-cache 2>/dev/null""")
    assert "flags=(attach_disconnected,complain)" in host.machine.shell("cat /etc/apparmor.d/usr.sbin.pvrdmad")
    assert host.machine.shell("cat /etc/apparmor.d/local/usr.sbin.pvrdmad") == "", "the administrator's rules"


def test_a_few_lines_and_a_start_make_an_adapter(host: Host) -> None:
    host.machine.shell(r"""
        sed -i 's/52:54:00:12:34:51/52:54:00:aa:bb:01/' /etc/pvrdma/pvrdmad.toml
        printf '[[adapter]]\nname = "VM-02"\nsocket = "/run/pvrdma/vm-02.sock"\nmac = "52:54:00:aa:bb:02"\nhardware_version = 14\n' \
          >>/etc/pvrdma/pvrdmad.toml
        runuser -u pvrdma -- pvrdmad --config /etc/pvrdma/pvrdmad.toml --check
        systemctl enable --now pvrdmad""")
    assert host.machine.run("ps", "-o", "user=", "-p", host.of_service("MainPID")).stdout.strip() == "pvrdma"
    adapters = host.machine.run("pvrdmactl", "adapter", "list").stdout
    assert "52:54:00:aa:bb:01" in adapters and "52:54:00:aa:bb:02" in adapters


def test_an_upgrade_keeps_the_adapters_of_running_vms(host: Host, tmp_path: Path) -> None:
    """The client's connections and queue pairs go on; each work request is executed exactly once."""
    older = host.of_service("MainPID")
    with traffic(host.machine.seen_from_outside("/run/pvrdma"), tmp_path / "rc_checker.log") as running:
        host.install(host.package(PACKAGES, "pvrdma"), host.package(PACKAGES, "pvrdma-doc"))
        assert host.of_service("MainPID") not in ("0", older)
        running.advance(20)
    version = host.version("pvrdma")
    assert host.machine.run("pvrdmactl", "version").stdout == f"pvrdmactl {version}\npvrdmad {version}\n"
    assert "52:54:00:aa:bb:02" in host.machine.shell("cat /etc/pvrdma/pvrdmad.toml"), "the changed configuration stays"
    journal = host.machine.run("journalctl", "--unit", "pvrdmad", "--no-pager", "--output", "cat").stdout
    assert "sandbox: refused" not in journal


def test_the_documents_are_where_their_links_point(host: Host) -> None:
    host.machine.shell("test -f /usr/share/doc/pvrdma/docs/README.md -a -f /usr/share/doc/pvrdma/docs/cluster/restart.md")
    host.machine.shell("test -f /usr/share/doc/pvrdma/README.md -a -f /usr/share/doc/pvrdma/examples/pvrdmad.toml")


def test_a_stopped_daemon_that_is_not_enabled_stays_stopped(host: Host) -> None:
    host.machine.shell("systemctl disable --now pvrdmad")
    host.install(host.package(PACKAGES, "pvrdma"))
    host.machine.shell("apt-get install --yes --reinstall " + str(host.package(PACKAGES, "pvrdma")))
    assert host.of_service("ActiveState") == "inactive"
    host.machine.shell("systemctl enable --now pvrdmad")


def test_a_removal_stops_the_daemon_and_keeps_the_configuration(host: Host) -> None:
    host.machine.shell("apt-get remove --yes pvrdma pvrdma-doc")
    assert host.of_service("ActiveState") == "inactive"
    host.machine.shell("test ! -e /usr/sbin/pvrdmad -a ! -e /run/pvrdma -a -e /etc/pvrdma/pvrdmad.toml -a -e /var/lib/pvrdma")


def test_a_purge_leaves_nothing(host: Host) -> None:
    host.machine.shell("apt-get purge --yes pvrdma pvrdma-doc")
    host.machine.shell(f"{LISTING} | diff /root/before - >&2")
    assert "pvrdma" in host.machine.shell("id pvrdma"), "files elsewhere may belong to the user"
