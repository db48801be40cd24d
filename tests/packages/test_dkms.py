"""The guests' driver: dkms builds it for the release's kernel from the release's kernel source, and a guest of that release
has RDMA with it.

These are the lines for guests in docs/install.md. The first one, which builds the driver, runs in a root outside of the guest: an
emulated processor would take a quarter of an hour for it.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from booted import run_booted
from harness.daemon import Adapter, Daemon
from harness.vm import FIRST_SLOT, slot
from host import PACKAGES, SUITES, field
from packages import clean, roots

_PAGE = Path(__file__).resolve().parents[2] / "docs/install.md"
_LINES = re.compile(r"^(sudo apt install linux-headers-amd64 .*)\n(sudo modprobe .*)\n", re.MULTILINE)
_MAC = "52:54:00:aa:bb:01"
_DEPENDS = "linux-headers-amd64, rdma-core, ibverbs-providers, ibverbs-utils, iproute2, sudo"
_BUILD = r"""
cd /build
echo 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/yes
{line}
kernel=$(ls /lib/modules)
echo "state: $(dkms status pvrdma -k $kernel)"
module=$(echo /lib/modules/$kernel/updates/dkms/*)
echo "file: $module"
for name in alias vermagic signer; do echo "$name: $(modinfo --field $name $module)"; done
cp $module .
apt purge pvrdma-dkms
ls -d $module /var/lib/dkms/pvrdma && exit 1
echo "the purge left nothing"
"""
_GUEST = r"""
mkdir -p /lib/modules/$(uname -r)/updates/dkms
cp /run/input/vmw_pvrdma.ko* /lib/modules/$(uname -r)/updates/dkms
depmod
{line}
udevadm settle
device=$(ls /sys/class/infiniband)
nic=$(grep -l {mac} /sys/class/net/*/address | cut -d / -f 5)
ip address add 192.168.0.1/24 dev "$nic"
ip link set lo up
ip link set "$nic" up
until grep -qs ACTIVE /sys/class/infiniband/$device/ports/1/state; do sleep 0.2; done
ibv_rc_pingpong -d "$device" -g 0 -c &
until ss --listening --tcp --numeric | grep -q ':18515 '; do sleep 0.2; done
ibv_rc_pingpong -d "$device" -g 0 -c 127.0.0.1
wait $!
echo done
"""


@dataclass
class Driver:
    """What dkms has built from the package of a release."""

    suite: str
    dependencies: str  # of the root that has the kernel which it is for
    module: Path
    said: str


@pytest.fixture(name="driver", scope="module", params=SUITES)
def _driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    suite = request.param
    (package,) = (PACKAGES / suite).glob("pvrdma-dkms_*.deb")
    dependencies = f"{field(package, 'Depends')}, {_DEPENDS}"
    # Not below /tmp, which may be in memory: the source of a kernel is unpacked here.
    with tempfile.TemporaryDirectory(prefix=".work-", dir=PACKAGES) as name:
        folder, log = Path(name) / "upper/build", Path(name).with_suffix(".log")
        folder.mkdir(parents=True)
        shutil.copy(package, folder)
        try:
            clean.run(roots.to_boot(suite, dependencies), Path(name), _BUILD.replace("{line}", _documented()[0]), log)
            said = log.read_text(encoding="utf-8")
        finally:
            log.unlink(missing_ok=True)
        (module,) = folder.glob("vmw_pvrdma.ko*")
        yield Driver(suite, dependencies, module, said)


def _documented() -> tuple[str, str]:
    found = _LINES.search(_PAGE.read_text(encoding="utf-8"))
    assert found is not None
    return found[1], found[2]


def test_dkms_builds_and_signs_the_driver_for_the_releases_kernel(driver: Driver) -> None:
    said = dict(re.findall(r"^(state|file|alias|vermagic|signer): (.*)$", driver.said, re.MULTILINE))
    assert "installed" in said["state"]
    assert "v000015ADd00000820" in said["alias"]
    assert said["vermagic"].split()[0] == said["file"].split("/")[3]
    assert said["signer"] != "", "dkms signs the module"
    assert driver.said.endswith("the purge left nothing\n")


@pytest.fixture(name="adapter")
def _adapter(tmp_path: Path) -> Iterator[Path]:
    """The socket of an adapter that a daemon serves."""
    folder = Path(tempfile.mkdtemp(prefix="pvrdma-"))
    socket = folder / "vm-01.sock"
    daemon = Daemon([Adapter("VM-01", socket, _MAC, 14)], folder, tmp_path)
    try:
        daemon.start()
        yield socket
    finally:
        daemon.stop()
        shutil.rmtree(folder)


def test_a_debian_guest_has_rdma_with_it(driver: Driver, adapter: Path, tmp_path: Path) -> None:
    script = _GUEST.replace("{line}", _documented()[1]).replace("{mac}", _MAC)
    wire = f"server=on,addr.type=unix,addr.path={tmp_path}/wire"
    printed = run_booted(driver.suite, driver.dependencies, script, (driver.module,),
                         devices=tuple(slot(FIRST_SLOT, wire, _MAC, adapter)))
    assert printed.endswith("done\n"), printed
    assert "device=rocep0s16f1\n" in printed, "as the page says"
    assert printed.count("8192000 bytes in") == 2, printed
