"""A guest and a native endpoint, or two native endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.cluster import Cluster, Setup


@dataclass(frozen=True)
class Pairing:
    """The partner of a native endpoint: a guest of `setup`, or, with `guest_count` 0, another native endpoint."""

    setup: Setup = Setup()
    guest_count: int = 1
    mtu: int | None = None

    @property
    def id(self) -> str:
        """For test ids and log folders."""
        return f"{self.setup.id if self.guest_count else f'natives-{self.setup.suite}'}{f'-mtu{self.mtu}' if self.mtu else ''}"

    def cluster(self, logs: Path, **arguments: object) -> Cluster:
        """The two VMs, not started yet. The native endpoint is the last."""
        return Cluster(self.setup, logs / f"native-{self.id}", vm_count=self.guest_count, native_count=2 - self.guest_count,
                       with_adapters=self.guest_count > 0, mtu=self.mtu, **arguments)  # type: ignore[arg-type]
