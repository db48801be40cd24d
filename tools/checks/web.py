"""The web page's sources: each class and each variable of a style sheet exists, and nothing makes HTML of text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.tree import Finding, Tree, line_of

_OWN = "ui/own.css"
_CLARITY = "third_party/web/clarity.css"
_LIST = "third_party/web/classes.txt"
# class="a b ${...}"; inside an expression, the words between quotes are classes.
_CLASSES = re.compile(r"""\bclass=(?:"([^"]*)"|(\$\{[^}]*\}))""")
_EXPRESSION = re.compile(r"\$\{[^}]*\}")
_QUOTED = re.compile(r"'([\w -]*)'")
_WORD = re.compile(r"[A-Za-z][\w-]*")
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)")
_UNSAFE = re.compile(r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|unsafeHTML|unsafeSVG|document\.write)\b|\sstyle=[\"$]")


def check(tree: Tree) -> Iterator[Finding]:
    """Findings in ui/."""
    if _OWN not in tree:
        return
    own = tree.text(_OWN)
    clarity = tree.text(_CLARITY)
    known = set(re.findall(r"\.([A-Za-z][\w-]*)", own)) | set(_WORD.findall(re.sub(r"#.*", "", tree.text(_LIST))))
    for path in tree.having(".js", ".html"):
        if not path.startswith("ui/"):
            continue
        text = tree.text(path)
        for found in _CLASSES.finditer(text):
            for name in _names(found[1] or found[2]):
                if name not in known:
                    yield Finding(path, line_of(text, found.start()), f"no style sheet has the class {name}",
                                  f"add it to {_OWN}, or to {_LIST} and run make web-vendor")
        for found in _UNSAFE.finditer(text):
            yield Finding(path, line_of(text, found.start()), f"{found[0].strip()} makes HTML or style of text",
                          "use a template, whose values are text, and a class")
    for found in _VARIABLE.finditer(own):
        if f"{found[1]}:" not in clarity:
            yield Finding(_OWN, line_of(own, found.start()), f"{_CLARITY} has no {found[1]}", "run make web-vendor, or use another variable")


def _names(text: str) -> set[str]:
    """The classes that an attribute can name."""
    names = set(_WORD.findall(_EXPRESSION.sub(" ", text)))
    names = {name for name in names if not name.endswith("-")}  # "alert-${kind}": the kinds are not written here
    for expression in _EXPRESSION.findall(text):
        for quoted in _QUOTED.findall(re.sub(r"===? '[^']*'", "", expression)):
            names |= set(_WORD.findall(quoted))
    return names
