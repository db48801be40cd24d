"""Objects that live as long as a `with` block."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

_Self = TypeVar("_Self", bound="Block")


class Block:
    """Starts everything on entry, ends everything on exit, also when the start fails.

    A derived class starts everything in `_start()`. Its `close()` ends whatever has been started.
    """

    def __enter__(self: _Self) -> _Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError

    def _start(self) -> None:
        raise NotImplementedError
