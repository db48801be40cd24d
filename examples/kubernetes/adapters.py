"""The node's adapters for containers: each has a stand-in, which is started again whenever it ends."""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import json
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

_LOOK_EVERY_S = 1
_PAUSE_S = 2  # before a stand-in is started again


class Mistake(Exception):
    """What the user must change, in one sentence."""


@dataclass(frozen=True)
class Settings:
    """What all adapters have in common."""

    api: Path             # the daemon's API socket
    folder: Path          # each adapter's folder is in it
    standin: str          # the program
    network: ipaddress.IPv4Network | ipaddress.IPv6Network  # of the adapters' addresses
    group: str            # whose containers may use the adapters, besides root's; may be empty


class Adapter:
    """An adapter of the daemon and its stand-in. `changed` is notified whenever `is_healthy` changes."""

    def __init__(self, name: str, device: str, address: str, settings: Settings, changed: asyncio.Condition) -> None:
        self.name = name
        self.address = address
        self.folder = settings.folder / name
        self.is_healthy = False
        self._changed = changed
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o750 if settings.group else 0o700)
        # A plugin that is killed takes its stand-ins with it: they would keep the adapters from the next one.
        self._command = ["setpriv", "--pdeathsig", "TERM", settings.standin,
                         "--socket", device, "--folder", str(self.folder), "--address", address]
        if settings.group:
            shutil.chown(self.folder, group=int(settings.group) if settings.group.isdigit() else settings.group)
            self._command += ["--group", settings.group]

    async def keep(self) -> None:
        """Keeps a stand-in running until it is cancelled."""
        while True:
            process = await asyncio.create_subprocess_exec(*self._command)
            end = asyncio.create_task(process.wait())
            try:
                while not end.done():
                    await self._set_healthy(self._answers())
                    await asyncio.wait({end}, timeout=_LOOK_EVERY_S)
            finally:
                if process.returncode is None:
                    process.terminate()
                await end
            await self._set_healthy(False)
            await asyncio.sleep(_PAUSE_S)

    def _answers(self) -> bool:
        """Whether programs can connect. A stand-in that has lost its adapter lets no more in, and lives until the last one ends."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.setblocking(False)
            return client.connect_ex(os.fspath(self.folder / "standin.sock")) == 0

    async def _set_healthy(self, healthy: bool) -> None:
        if healthy == self.is_healthy:
            return
        print(f"adapter {self.name}: {'healthy' if healthy else 'unhealthy'}", flush=True)
        async with self._changed:
            self.is_healthy = healthy
            self._changed.notify_all()


async def adapters_of(settings: Settings, changed: asyncio.Condition) -> dict[str, Adapter]:
    """The daemon's adapters by name, as soon as the daemon answers. The first one has the network's first address, and so on."""
    while (found := _ask(settings.api)) is None:
        print(f"waiting for the daemon at {settings.api}", flush=True)
        await asyncio.sleep(_PAUSE_S)
    devices = {each["name"]: each["socket"] for each in found}
    if len(devices) > settings.network.num_addresses - 2:
        raise Mistake(f"--network {settings.network} has no address for each of {len(devices)} adapters: name a larger one")
    names = sorted(devices, key=lambda name: (len(name), name))  # node2 before node10
    return {name: Adapter(name, devices[name], str(settings.network[i]), settings, changed) for i, name in enumerate(names, 1)}


def _ask(api: Path) -> list[dict[str, str]] | None:
    connection = http.client.HTTPConnection("localhost")
    with socket.socket(socket.AF_UNIX) as connection.sock:
        connection.sock.settimeout(5)
        try:
            connection.sock.connect(os.fspath(api))
            connection.request("GET", "/v1/adapters")
            answer = connection.getresponse()
            return json.load(answer) if answer.status == http.HTTPStatus.OK else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
