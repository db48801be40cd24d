"""The container images: the documented line runs the daemon with no right but CAP_CHOWN, and a client has RDMA; programs in
the image for CI have RDMA without any right. `make oci` makes them."""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from traffic import traffic

_REPOSITORY = Path(__file__).resolve().parents[2]
_IMAGES = sorted((_REPOSITORY / "build/oci").glob("pvrdma-[0-9]*.oci.tar"))
_CI_IMAGES = sorted((_REPOSITORY / "build/oci").glob("pvrdma-ci-*.oci.tar"))
_USER = 64333  # no user of this machine
_GUARD_S = 60
# crun wants version 2 only, and not every machine has mounted it.
_CGROUP_V2 = 'mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec podman "$@"'


class Podman:
    """podman with a storage of its own."""

    def __init__(self, folder: Path) -> None:
        self._command = ["unshare", "--mount", "sh", "-ec", _CGROUP_V2, "podman", "--storage-driver", "vfs", "--root", folder / "storage",
                         "--runroot", folder / "run", "--cgroup-manager", "cgroupfs"]

    def run(self, *arguments: str | Path) -> str:
        done = subprocess.run([*self._command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=_GUARD_S, check=False)
        assert done.returncode == 0, f"podman {' '.join(map(str, arguments))}: {done.stdout}"
        return done.stdout


def limits() -> str:
    """Low limits and no control group: not every machine lets root raise limits, as podman and crun would."""
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"--ulimit nofile={min(65536, descriptors)} --ulimit nproc=1024 --cgroups disabled"


def documented(folders: Path) -> list[str]:
    """The arguments of `podman run` in docs/install.md, with folders and a user of this test."""
    text = (_REPOSITORY / "docs/install.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^sudo podman (run (?:.*\\\n)*.*)", text, re.MULTILINE)
    line = line.replace("\\\n", " ").replace("$(id -u pvrdma):$(id -g pvrdma)", f"{_USER}:{_USER}")
    line = re.sub(r"-v ((?:/\w+)+):", lambda found: f"-v {folders}{found[1]}:", line)
    return shlex.split(line.replace("--ulimit nofile=65536", limits()))


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pvrdma-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(not _IMAGES, reason="there is no build/oci/pvrdma-*.oci.tar: make oci")
@pytest.mark.skipif(shutil.which("podman") is None or os.geteuid() != 0, reason="needs podman and root")
def test_the_documented_line_serves_adapters(folder: Path) -> None:
    for name in ("etc", "run", "var", "var/lib"):
        (folder / name).mkdir()
    for name, mode in (("run/pvrdma", 0o711), ("var/lib/pvrdma", 0o700), ("etc/pvrdma", 0o755)):
        (folder / name).mkdir(mode=mode)
        os.chown(folder / name, _USER, _USER)
    adapters = "".join(f'[[adapter]]\nname = "VM-0{n}"\nsocket = "/run/pvrdma/vm-0{n}.sock"\nmac = "52:54:00:aa:bb:0{n}"\n'
                       'hardware_version = 14\n' for n in (1, 2)) + 'owner = "games"\n'
    (folder / "etc/pvrdma/pvrdmad.toml").write_text(adapters, encoding="utf-8")
    podman = Podman(folder / "podman")
    loaded = podman.run("load", "--quiet", "--input", _IMAGES[-1]).split()[-1]
    arguments = documented(folder)
    podman.run(*arguments[:-1], loaded)
    try:
        end = time.monotonic() + _GUARD_S
        while "serves 2 adapter(s)" not in (log := podman.run("logs", "pvrdmad")):
            assert time.monotonic() < end, log
            time.sleep(0.1)
        process = Path("/proc") / podman.run("inspect", "--format", "{{.State.Pid}}", "pvrdmad").strip()
        status = (process / "status").read_text(encoding="utf-8")
        assert re.search(rf"^Uid:\t{_USER}\t", status, re.MULTILINE)
        assert {int(word, 16) for word in re.findall(r"^Cap(?:Prm|Eff|Bnd):\t(\w+)", status, re.MULTILINE)} == {1}, "CAP_CHOWN only"
        assert "NoNewPrivs:\t1\n" in status
        games = int(podman.run("exec", "pvrdmad", "id", "--user", "games"))
        assert [(folder / f"run/pvrdma/vm-0{n}.sock").stat().st_uid for n in (1, 2)] == [_USER, games]
        with traffic(folder / "run/pvrdma", folder / "rc_checker.log") as running:
            running.advance(20)
        assert "VM-02" in podman.run("exec", "pvrdmad", "pvrdmactl", "adapter", "list")
        podman.run("stop", "pvrdmad")
        assert "sandbox: refused" not in podman.run("logs", "pvrdmad")
        assert list((folder / "run/pvrdma").iterdir()) == [], "a stopped daemon leaves no sockets"
    finally:
        podman.run("rm", "--force", "--ignore", "pvrdmad")


@pytest.mark.skipif(not _CI_IMAGES, reason="there is no build/oci/pvrdma-ci-*.oci.tar: make oci")
@pytest.mark.skipif(shutil.which("podman") is None or os.geteuid() != 0, reason="needs podman and root")
def test_programs_in_a_container_for_ci(folder: Path) -> None:
    """Also those with threads, where the default profile forbids userfaultfd."""
    text = (_REPOSITORY / "docs/howto/ci.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^podman (run (?:.*\\\n)*.*)", text, re.MULTILINE)
    podman = Podman(folder / "podman")
    loaded = podman.run("load", "--quiet", "--input", _CI_IMAGES[-1]).split()[-1]
    run, *arguments = shlex.split(re.sub(r"localhost/pvrdma-ci:\S+", loaded, line.replace("\\\n", " ")))
    printed = podman.run(run, *shlex.split(limits()), "--network", "none", *arguments)
    assert printed.count("BW average") == 2, printed
