"""A second host in the machine of a SystemHost: a pvrdmad and a libvirtd with files, sockets and a name of their own."""

from __future__ import annotations

import json
import uuid
from typing import Any

from fleet.system_host import SystemHost
from fleet.until import until

_OWN = ["/run/pvrdma", "/run/libvirt", "/etc/pvrdma", "/etc/libvirt", "/var/lib/libvirt", "/var/lib/pvrdma", "/var/cache/libvirt",
        "/var/log/libvirt"]
_STORE = r"""
[store]
type = "etcd"
endpoints = ["http://127.0.0.1:2379"]
"""
_SEPARATE = r"""
for folder in {folders}; do
  mkdir -p $folder {files}$folder
done
cp -a /etc/libvirt/. {files}/etc/libvirt
systemd-run --quiet --unit=second-host unshare --mount --uts sh -ec '
  hostname {name}
  for folder in {folders}; do mount --bind {files}$folder $folder; done
  exec sleep infinity'
"""


class SecondHost:
    """Becomes ready when made. The first host's daemon is restarted, because both join the cluster of an etcd."""

    name = "esx-02"
    files = "/run/second"

    def __init__(self, first: SystemHost) -> None:
        self._machine = first.machine
        first.machine.shell("systemd-run --quiet --unit=second-etcd --service-type=notify etcd --data-dir /run/etcd --log-level warn")
        first.write("/root/store", _STORE)
        first.machine.shell("cat /root/store >>/etc/pvrdma/pvrdmad.toml; systemctl restart pvrdmad")
        first.machine.shell(_SEPARATE.format(folders=" ".join(_OWN), files=self.files, name=self.name))
        until("its folders are there", lambda: self.shell("hostname").strip(), accept=lambda name: name == self.name)
        self.shell(f"""
          chown pvrdma: /run/pvrdma
          printf '[host]\\nname = "{self.name}"\\n' | cat - /root/store >/etc/pvrdma/pvrdmad.toml
          echo 'cgroup_controllers = []' >>/etc/libvirt/qemu.conf
          echo 'host_uuid = "{uuid.uuid4()}"' >/etc/libvirt/libvirtd.conf
          echo {self._process} >/etc/libvirt/machine""")
        self._serve("second-pvrdmad", "/usr/local/sbin/pvrdmad --config /etc/pvrdma/pvrdmad.toml")
        self._serve("second-libvirtd", "unshare --mount sh -ec 'mount --bind " + str(first.usr) + " /usr; "
                    "exec /usr/sbin/libvirtd --pid-file /run/libvirt/libvirtd.pid'")

    @property
    def uri(self) -> str:
        """Its libvirt, for the first host."""
        return f"qemu+unix:///system?socket={self.files}/run/libvirt/libvirt-sock"

    def ctl(self, *arguments: str) -> Any:
        """The parsed output of `pvrdmactl --json ARGUMENTS`."""
        return json.loads(self._machine.run(*self._inside, "pvrdmactl", "--json", *arguments).stdout or "null")

    def shell(self, script: str) -> str:
        """What a script prints."""
        return self._machine.run(*self._inside, "sh", "-ec", script).stdout

    @property
    def _process(self) -> str:
        return self._machine.shell("systemctl show --property MainPID --value second-host").strip()

    @property
    def _inside(self) -> list[str]:
        return ["nsenter", "--target", self._process, "--mount", "--uts"]

    def _serve(self, unit: str, command: str) -> None:
        inside = " ".join(self._inside)
        self._machine.shell(f"systemd-run --quiet --unit={unit} --service-type=notify {inside} {command}")
