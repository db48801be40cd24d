"""The daemon's AppArmor profile allows each file that a daemon uses, as strace sees it. No kernel enforces it here.

As the library's calls differ between releases, each release is tried.
"""

from __future__ import annotations

import pytest

from apparmor import Profile, used
from host import PACKAGES, SUITES, host_of

_ADAPTERS = """
[[adapter]]
name = "VM-01"
socket = "/run/pvrdma/vm-01.sock"
mac = "52:54:00:aa:bb:01"
hardware_version = 14
owner = "games"
"""
_CLUSTER = """
[host]
name = "esx-01"
[api]
listen = "127.0.0.1:8443"
certificate = "/etc/pvrdma/host.crt"
key = "/etc/pvrdma/host.key"
token_file = "/etc/pvrdma/token"
"""
_SET_UP = r"""
mkdir -p /run/pvrdma /var/lib/pvrdma
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /etc/pvrdma/host.key -out /etc/pvrdma/host.crt -days 30 \
  -subj /CN=localhost 2>/dev/null
(umask 077; openssl rand -hex 32 >/etc/pvrdma/token)
"""
_TRACE = r"""
rm -f /run/pvrdma/api.sock
strace -f -qq -o /root/trace pvrdmad --config /root/pvrdmad.toml >/root/log 2>&1 &
until pvrdmactl version >/dev/null 2>&1; do sleep 0.1; kill -0 $! || {{ cat /root/log >&2; exit 1; }}; done
{commands}
pkill -TERM -x pvrdmad
wait $!
cat /root/trace
"""
_VM = """
pvrdmactl dvs create DSwitch --uplinks 2
pvrdmactl dvs portgroup add DSwitch pg1
pvrdmactl dvs add-host DSwitch self
pvrdmactl vm create VM-02 --hw 14 --memory 256 --reserve all --portgroup pg1 --owner games
until [ -S /run/pvrdma/VM-02.sock ]; do sleep 0.1; done
pkill -HUP -x pvrdmad
"""
# Of each part of a trace.
_EXPECTED = {("/run/pvrdma/vm-01.sock", "w"), ("/run/pvrdma/VM-02.vmm/", "w"), ("/var/lib/pvrdma/store.db", "rw"),
             ("/etc/pvrdma/token", "r"), ("/etc/passwd", "r")}


@pytest.mark.parametrize("suite", SUITES)
def test_the_profile_allows_what_a_daemon_uses(suite: str) -> None:
    with host_of(suite, "pvrdma") as host:
        shell = host.machine.shell
        host.install(host.package(PACKAGES, "pvrdma"))
        profile = Profile(shell("apparmor_parser --preprocess /etc/apparmor.d/usr.sbin.pvrdmad"))
        shell(_SET_UP)
        files = set()
        for configuration, commands in ((_ADAPTERS, ":"), (_CLUSTER, _VM)):
            shell(f"cat >/root/pvrdmad.toml <<'END'\n{configuration}\nEND")
            files |= used(shell(_TRACE.format(commands=commands))) - {("/root/pvrdmad.toml", "r")}
    assert _EXPECTED - files == set(), "what each daemon uses"
    assert sorted(file for file in files if not profile.allows(*file)) == []
    for forbidden in (("/etc/shadow", "r"), ("/etc/pvrdma/pvrdmad.toml", "w"), ("/root/.bashrc", "r"), ("/var/lib/other", "w")):
        assert not profile.allows(*forbidden), forbidden
