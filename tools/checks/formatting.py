"""The formatting of the C++ sources: clang-format by .clang-format, on all processors at once."""

from __future__ import annotations

import concurrent.futures
import os
import re
import shutil
import subprocess

from checks.tree import Finding, Tree

# Debian 12's version. Other versions break some lines elsewhere, so they are not used.
_VERSION = 14
_FILES_AT_ONCE = 16
_COMPLAINT = re.compile(r"^(.+?):(\d+):\d+: (?:error|warning): code should be clang-formatted", re.MULTILINE)


def check(tree: Tree) -> list[Finding]:
    """A finding for each file that is not formatted, at its first such line."""
    program = _program()
    if program is None:
        print(f"check: formatting is not checked: there is no clang-format {_VERSION}, which Debian 12 has")
        return []
    first: dict[str, int] = {}
    for complaints in _run(tree, program, "--dry-run", "-Werror"):
        for complaint in _COMPLAINT.finditer(complaints):
            first.setdefault(complaint[1], int(complaint[2]))
    return [Finding(path, line, "is not formatted", "run make format") for path, line in first.items()]


def apply(tree: Tree) -> int:
    """Formats in place. Returns the number of files."""
    program = _program()
    if program is None:
        raise SystemExit(f"check: there is no clang-format {_VERSION}, which Debian 12 has: format there")
    _run(tree, program, "-i")
    return len(_sources(tree))


def _sources(tree: Tree) -> list[str]:
    return tree.having(".cc", ".h")


def _program() -> str | None:
    """clang-format of this version. None if there is only another version."""
    found = [path for path in map(shutil.which, (f"clang-format-{_VERSION}", "clang-format")) if path]
    if not found:
        raise SystemExit("check: there is no clang-format: run tools/setup")
    said = subprocess.run([found[0], "--version"], capture_output=True, text=True, check=True).stdout
    return found[0] if f"version {_VERSION}." in said else None


def _run(tree: Tree, program: str, *options: str) -> list[str]:
    """Runs it on all sources. Returns its complaints, in parts."""
    sources = _sources(tree)
    batches = [sources[i:i + _FILES_AT_ONCE] for i in range(0, len(sources), _FILES_AT_ONCE)]

    def run(batch: list[str]) -> str:
        done = subprocess.run([program, *options, *batch], cwd=tree.root, capture_output=True, text=True, check=False)
        if done.returncode != 0 and not _COMPLAINT.search(done.stderr):
            raise SystemExit(f"check: {program} failed: {done.stderr.strip()}")
        return done.stderr

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(run, batches))
