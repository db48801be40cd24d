"""The style of error messages in src/: a message is a clause after "pvrdmactl: ", so it begins with a small letter, a name or a
capital word such as VM, and ends without a full stop. It names the command that helps, and not "the list of" something.

Looked at are string literals at the start of a message: of fail(), refuse() and mistake(), with or without fmt::format(). Tests are
not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.tree import Finding, Tree, line_of

_LITERAL = r'"(?:[^"\\\n]|\\.)*"'
_MESSAGE = re.compile(rf"\b(?:fail|refuse|mistake)\((?:\s*(?:ErrorKind::\w+|E[A-Z]+|errno|\d+),)*\s*(?:fmt::format\(\s*)?({_LITERAL}(?:\s*{_LITERAL})*)")
_CAPITAL = re.compile(r"[A-Z][a-z]")
_NAMES = ("OpenSSL",)


def check(tree: Tree) -> Iterator[Finding]:
    """Findings in the C++ sources."""
    for path in tree.having(".cc", ".h"):
        if not path.startswith("src/") or path.endswith(("_test.cc", "_fixture.h", "_fuzz.cc")):
            continue
        text = tree.text(path)
        for message in _MESSAGE.finditer(text):
            said = "".join(literal[1:-1] for literal in re.findall(_LITERAL, message[1]))
            line = line_of(text, message.start(1))
            if _CAPITAL.match(said) and not said.startswith(_NAMES):
                yield Finding(path, line, f"the message \"{said[:40]}\" begins with a capital letter", "write a small one")
            if said.endswith((".", "!")) and not said.endswith("..."):
                yield Finding(path, line, f"the message \"{said[-40:]}\" ends with a full stop", "leave it out")
            if "see the list of" in said:
                yield Finding(path, line, "the message does not say how to list them", "name the command of pvrdmactl")
