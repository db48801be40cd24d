"""Becomes a program that is restricted as a unit says: start.py UNIT USER_ID [options] -- PROGRAM ARGUMENTS...

Root runs it, already in the network namespace of the program.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.as_unit import kernel, rights, view  # noqa: E402  (the path above comes first)
from harness.as_unit.filters import Filters  # noqa: E402
from harness.as_unit.settings import Settings  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("unit", type=Path)
    parser.add_argument("user_id", type=int)
    parser.add_argument("--writable", type=Path, action="append", default=[])
    parser.add_argument("--readable", type=Path, action="append", default=[])
    parser.add_argument("--xdp", action="store_true", help="add what links of kind xdp need")
    parser.add_argument("--any-call", action="store_true", help="apply no filter of system calls")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    settings = Settings(options.unit, options.xdp)
    filters = None if options.any_call else Filters(settings)
    program = Path(options.command[0]).resolve()
    view.enter(settings.devices, options.writable, [program, *options.readable])
    rights.drop(settings, options.user_id, rights.limit(settings))
    if filters is not None:
        filters.load()
    os.execv(program, options.command)


if __name__ == "__main__":
    main()
