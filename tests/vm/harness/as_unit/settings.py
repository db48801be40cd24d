"""What a unit's [Service] section says. Each setting is known here, so that a test cannot pass because one was skipped."""

from __future__ import annotations

import resource
from pathlib import Path

# They describe the manager's work: systemd itself does it in tests/cluster/fleet/service.py and tests/cli/test_install.py.
_MANAGERS = {
    "Type", "NotifyAccess", "ExecStart", "ExecReload", "Restart", "RestartSec", "RestartPreventExitStatus", "FileDescriptorStoreMax",
    "Environment", "TimeoutStartSec", "RuntimeDirectory", "RuntimeDirectoryPreserve", "StateDirectory", "StateDirectoryMode", "RemoveIPC",
}
# Settings with only one value that can be applied.
_ONLY = {
    "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "ProtectProc": "invisible", "ProcSubset": "pid",
    "ProtectClock": "yes", "ProtectControlGroups": "yes", "ProtectHostname": "yes", "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes", "ProtectKernelTunables": "yes", "PrivateTmp": "yes", "PrivateMounts": "yes",
    "DevicePolicy": "closed", "RestrictNamespaces": "yes", "RestrictRealtime": "yes", "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes", "MemoryDenyWriteExecute": "yes", "SystemCallArchitectures": "native", "SystemCallErrorNumber": "EPERM",
}
_VALUES = {"User", "Group", "UMask", "LimitNOFILE", "LimitMEMLOCK", "RuntimeDirectoryMode", "CapabilityBoundingSet",
           "AmbientCapabilities", "DeviceAllow", "RestrictAddressFamilies", "SystemCallFilter"}


_XDP = "#   "  # before lines of the unit's comment that links of kind xdp need


class Settings:
    """The unit in a file. ValueError if a setting or a value is not known here. With `xdp` the lines are added that the unit's
    comment names for links of kind xdp."""

    def __init__(self, unit: Path, xdp: bool = False) -> None:
        self.xdp = xdp
        self._unit = unit
        self._lines: dict[str, list[str]] = {}
        lines = unit.read_text(encoding="utf-8").partition("[Service]\n")[2].partition("\n[")[0].splitlines()
        added = [line.removeprefix(_XDP) for line in lines if line.startswith(_XDP)]
        for line in [line for line in lines if line and line[0] not in "#;"] + (added if xdp else []):
            key, _, value = line.partition("=")
            self._add(key, value)
        missing = sorted({"User", "NoNewPrivileges", "SystemCallFilter", "CapabilityBoundingSet", "ProtectSystem"} - self._lines.keys())
        if missing:
            raise ValueError(f"{unit}: the daemon is not restricted: {', '.join(missing)} is missing")

    @property
    def umask(self) -> int:
        return int(self._one("UMask"), 8)

    @property
    def folder_mode(self) -> int:
        """The mode of the folder of the sockets."""
        return int(self._one("RuntimeDirectoryMode"), 8)

    @property
    def open_files(self) -> int:
        return int(self._one("LimitNOFILE"))

    @property
    def locked_bytes(self) -> int:
        value = self._one("LimitMEMLOCK")
        return resource.RLIM_INFINITY if value == "infinity" else int(value)

    @property
    def bounding(self) -> list[str]:
        return self._words("CapabilityBoundingSet")

    @property
    def ambient(self) -> list[str]:
        return self._words("AmbientCapabilities")

    @property
    def devices(self) -> list[str]:
        """Devices of DeviceAllow, beside those that each program may use."""
        allowed = [line.split() for line in self._lines.get("DeviceAllow", [])]
        for device, access in allowed:
            if access != "rw":
                raise self._unknown("DeviceAllow", f"{device} {access}")
        return [device for device, _ in allowed]

    @property
    def families(self) -> list[str]:
        """The address families of permitted sockets."""
        return self._words("RestrictAddressFamilies")

    @property
    def calls(self) -> list[str]:
        """The lines of SystemCallFilter: the first is a list of permitted calls, "~" begins those that are no longer permitted."""
        return self._lines["SystemCallFilter"]

    def _add(self, key: str, value: str) -> None:
        only = _ONLY.get(key)
        known = key in _MANAGERS or key in _VALUES or only == value
        if not known or not value or value.endswith("\\"):
            raise self._unknown(key, value)
        self._lines.setdefault(key, []).append(value)

    def _one(self, key: str) -> str:
        return self._lines[key][-1]

    def _words(self, key: str) -> list[str]:
        words = " ".join(self._lines[key]).split()
        if words[0].startswith("~"):
            raise self._unknown(key, words[0])
        return words

    def _unknown(self, key: str, value: str) -> ValueError:
        return ValueError(f"{self._unit}: {key}={value}: the tests do not know how to apply this to their daemons: add it to "
                          f"{Path(__file__).parent}")
