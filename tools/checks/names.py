"""Names of source files and folders in the documents and in comments: each named file must exist.

A document names a source in backticks: `verbs/engine.cc`, `verbs/{engine,requester}.cc`, `tls_*.h`, `control/model/`. A name
stands for every file whose path ends with it. Comments of C++ sources name files without backticks. A path that begins with a
folder of the repository (`tools/setup`, `packaging/pvrdmad.toml`) is a name anywhere in a document.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import posixpath
import re
from collections.abc import Iterator

from checks.tree import FOLDERS, Finding, Tree, line_of

_ENDING = r"\.(?:cc|h|py|c|sh)\b"
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(rf"(?<![\w./~$<-])(?:\.\./)*(?:[\w/*-]|\{{[\w,/*-]+\}})+{_ENDING}(?![\w/(.])")
_FOLDER = re.compile(r"(?:[\w-]+/)+")
_PATH = re.compile(r"(?<!\]\()(?<![\w./~$<-])(?:\.\./)*"
                   rf"((?:{'|'.join(FOLDERS)})/(?:[\w./*@-]|\{{[\w,/*-]+\}})*[\w*}}/])")
_COMMENT = re.compile(r"//[^\n]*")
_BUILT = ("build/", "out/")


def check(tree: Tree) -> Iterator[Finding]:
    """Findings in documents and in comments of C++ sources."""
    for path in tree.having(".md"):
        text = _FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), tree.text(path))
        yield from dict.fromkeys((*_in_spans(tree, path, text), *_paths(tree, path, text)))
    for path in tree.having(".cc", ".h"):
        text = tree.text(path)
        for comment in _COMMENT.finditer(text):
            yield from _missing(tree, path, line_of(text, comment.start()), comment[0])


def _in_spans(tree: Tree, path: str, text: str) -> Iterator[Finding]:
    for span in _SPAN.finditer(text):
        line = line_of(text, span.start())
        yield from _missing(tree, path, line, span[1])
        if _FOLDER.fullmatch(span[1]) and not span[1].startswith(_BUILT) and not _is_folder(tree, span[1]):
            yield Finding(path, line, f"there is no folder {span[1]}", "name one that is there")


def _paths(tree: Tree, path: str, text: str) -> Iterator[Finding]:
    """Names of documents are left to citations.py."""
    for named in _PATH.finditer(text):
        for name in _alternatives(named[1]):
            if not name.endswith(".md") and not _is_file(tree, name) and not _is_folder(tree, name):
                kind = "folder" if name.endswith("/") else "file"
                yield Finding(path, line_of(text, named.start()), f"there is no {kind} {name}", "name one that is there")


def _missing(tree: Tree, path: str, line: int, text: str) -> Iterator[Finding]:
    for named in _FILE.finditer(text):
        for name in _alternatives(named[0]):
            if not name.startswith(_BUILT) and not _is_file(tree, name):
                yield Finding(path, line, f"there is no file {name}", "name one that is there")


def _alternatives(name: str) -> list[str]:
    """a/{b,c}.cc stands for a/b.cc and a/c.cc."""
    parts = re.split(r"\{([\w,/*-]+)\}", name)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


@functools.cache
def _is_file(tree: Tree, name: str) -> bool:
    name = name.removeprefix("../")
    return any(fnmatch.fnmatchcase(path, name) or fnmatch.fnmatchcase(path, f"*/{name}") for path in tree.files)


@functools.cache
def _is_folder(tree: Tree, name: str) -> bool:
    return (tree.root / name).is_dir() or any(f"/{name}" in f"/{posixpath.dirname(path)}/" for path in tree.files)
