"""Installation: where the files go, what they name, and that systemd starts what was installed.

Run by ctest (label cli), or: BUILD=build/release /usr/bin/python3 -m pytest tests/cli/test_install.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from machine import Machine
from traffic import until

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", REPOSITORY / "build" / "release")).resolve()
GUARD_S = 60
PREFIXES = ["/usr", "/usr/local", "/opt/pvrdma"]

_PATH = re.compile(r"(?<![\w./:%>$*-])/(?:usr|etc|opt|tmp|home)/[\w./@%+-]*\w")
# Paths that an installed file may name and that the installation does not bring.
_OTHERS = re.compile(r"/usr/bin/env|/usr/sbin/nft|/etc/nftables\.conf|/etc/libvirt/.*|/etc/prometheus/.*|/tmp/(?:api|[12])\.sock|/tmp/pvrdma-UID")
_BINARIES = {"pvrdmad", "pvrdmactl", "pvrdma-run", "pvrdma-standin"}
# What systemd-sysusers would do to this machine is a test of its own, in a machine that is thrown away.
# 3: the service neither runs nor is enabled, whatever this machine's systemd says.
_FAKE = '#!/bin/sh\necho "$0 $*" >>"{log}"\ncase $1 in is-*) exit 3 ;; esac\n'


@pytest.fixture(autouse=True)
def _records() -> Iterator[None]:
    """Keeps the build folder's records of a real installation."""
    records = [BUILD / name for name in ("install_manifest.txt", "install_folders.txt", "install_configuration.txt")]
    before = {path: path.read_bytes() for path in records if path.exists()}
    for path in before:
        path.unlink()
    yield
    for path in records:
        path.unlink(missing_ok=True)
    for path, content in before.items():
        path.write_bytes(content)


@pytest.fixture(name="calls")
def _calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of the calls of systemd's programs, which do nothing."""
    log = tmp_path / "calls"
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    log.touch()
    for name in ("systemd-sysusers", "systemctl"):
        (fakes / name).write_text(_FAKE.format(log=log), encoding="utf-8")
        (fakes / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{fakes}:{os.environ['PATH']}")
    return log


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run([str(word) for word in command], env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def install(prefix: str | Path, *options: str, root: Path | str = "") -> str:
    return run("cmake", "--install", BUILD, "--prefix", prefix, *options, DESTDIR=str(root))


def uninstall(root: Path | str = "") -> str:
    return run("cmake", "--build", BUILD, "--target", "uninstall", DESTDIR=str(root))


def files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if not path.is_dir()}


def wrong_paths(root: Path, folder: Path, configuration: str) -> list[str]:
    """Paths in the texts below `folder` at which nothing is, seen from `root`. Below `configuration` the admin makes files."""
    wrong = []
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or path.suffix == ".so" or path.name in _BINARIES and path.parent.name.endswith("bin"):
            continue
        if path.parent.name == "kubernetes":  # they name the paths of a container's image, which has the Debian package
            continue
        for named in _PATH.findall(path.read_text(encoding="utf-8")):
            admins = named.startswith(f"{configuration}/") and (root / configuration.lstrip("/")).is_dir()
            if not (_OTHERS.fullmatch(named) or admins or (root / named.lstrip("/")).exists()):
                wrong.append(f"{path}: {named}")
    return wrong


@pytest.mark.parametrize(("prefix", "configuration"), zip(PREFIXES, ["/etc", "/etc", "/etc/opt/pvrdma"]))
def test_staged_files_name_the_paths_of_their_prefix(prefix: str, configuration: str, tmp_path: Path, calls: Path) -> None:
    root = tmp_path / "root"
    install(prefix, root=root)
    assert wrong_paths(root, root, f"{configuration}/pvrdma") == []
    unit = (root / prefix.lstrip("/") / "lib/systemd/system/pvrdmad.service").read_text(encoding="utf-8")
    assert f"ExecStart={prefix}/sbin/pvrdmad --config {configuration}/pvrdma/pvrdmad.toml\n" in unit
    assert (root / configuration.lstrip("/") / "pvrdma" / "pvrdmad.toml").read_bytes() \
        == (root / prefix.lstrip("/") / "share/doc/pvrdma/examples/pvrdmad.toml").read_bytes()
    uninstall(root)
    assert not root.exists()
    assert calls.read_text() == "", "a staged installation leaves the host alone"


def test_the_repositorys_files_are_those_of_the_prefix_usr(tmp_path: Path, calls: Path) -> None:
    del calls
    install("/usr", root=tmp_path / "root")
    for installed, source in (("lib/systemd/system/pvrdmad.service", "packaging/pvrdmad.service"),
                              ("lib/sysusers.d/pvrdma.conf", "packaging/pvrdma.sysusers"),
                              ("share/man/man8/pvrdmad.8", "docs/man/pvrdmad.8")):
        assert (tmp_path / "root/usr" / installed).read_bytes() == (REPOSITORY / source).read_bytes()


def test_the_hook_of_libvirt_runs_the_installed_pvrdmactl(tmp_path: Path, calls: Path) -> None:
    del calls
    install("/usr/local", root=tmp_path / "root")
    hook = tmp_path / "root/etc/libvirt/hooks/qemu.d/pvrdma"
    assert os.access(hook, os.X_OK)
    assert hook.read_text(encoding="utf-8").endswith("exec /usr/local/bin/pvrdmactl vm libvirt-hook\n")


def test_a_prefix_of_its_own_works_where_it_is(tmp_path: Path, calls: Path) -> None:
    prefix = tmp_path / "own"
    install(prefix, "--strip")
    assert wrong_paths(Path("/"), prefix, f"{prefix}/etc/pvrdma") == []
    unit = prefix / "lib/systemd/system/pvrdmad.service"
    assert run("systemd-analyze", "verify", "--man=no", unit) == ""
    command = re.search(r"^ExecStart=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    assert command
    assert "is valid" in run(*command[1].split(), "--check")
    assert b".debug_info" not in (prefix / "sbin/pvrdmad").read_bytes()
    expected = f"systemd-sysusers {prefix}/lib/sysusers.d/pvrdma.conf\n" if os.geteuid() == 0 else ""
    assert calls.read_text().replace(f"{tmp_path}/fakes/", "").startswith(expected)
    uninstall()
    assert not prefix.exists()


def test_a_configuration_is_never_overwritten_or_removed(tmp_path: Path, calls: Path) -> None:
    del calls
    root = tmp_path / "root"
    configuration = root / "etc/pvrdma/pvrdmad.toml"
    install("/usr/local", root=root)
    configuration.write_text("# mine\n", encoding="utf-8")
    assert f"Kept: {configuration}\n" in install("/usr/local", root=root)
    assert configuration.read_text(encoding="utf-8") == "# mine\n"
    assert f"Kept: {configuration}\n" in uninstall(root)
    assert files(root) == {str(configuration)}


def test_folders_that_were_there_stay(tmp_path: Path, calls: Path) -> None:
    del calls
    root = tmp_path / "root"
    for folder in ("usr/local/sbin", "etc"):
        (root / folder).mkdir(parents=True)
    before = set(root.rglob("*"))
    install("/usr/local", root=root)
    install("/usr/local", root=root)
    uninstall(root)
    assert set(root.rglob("*")) == before


# --- With systemd. ---

@pytest.fixture(name="machine", scope="module")
def _machine() -> Iterator[Machine]:
    """A machine in which the build folder was installed. The tests use it in their order."""
    if os.geteuid() != 0:
        pytest.skip("a machine in namespaces needs root")
    folder = Path(tempfile.mkdtemp(prefix="pvrdma-"))
    try:
        with closing(Machine(folder, REPOSITORY, BUILD)) as machine:
            machine.shell(FORGET)
            machine.shell(f"{LISTING} >/root/before")
            machine.run("cmake", "--install", str(BUILD), "--prefix", "/usr/local")
            yield machine
    finally:
        shutil.rmtree(folder)
        folder.with_suffix(".log").unlink(missing_ok=True)


# The machine sees this machine's files. This removes what an installation here has brought, except for mount points, which may
# be the folders of the sources.
FORGET = r"""find /etc /usr/local /usr/lib/systemd/system /var/lib -xdev -name 'pvrdma*' -prune \
                 ! -exec mountpoint -q {} \; -exec rm -r {} +
            systemctl daemon-reload"""
LISTING = "{ find /usr/local /etc/pvrdma /etc/firewalld 2>/dev/null || true; }"
# Makes a certificate for the API, and its key.
ISSUE = r"""openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
  -keyout /etc/pvrdma/host.key -out /etc/pvrdma/host.crt 2>/dev/null
chown pvrdma /etc/pvrdma/host.key"""
API = """[api]
listen = "127.0.0.1:8443"
certificate = "/etc/pvrdma/host.crt"
key = "/etc/pvrdma/host.key"
token_file = "/etc/pvrdma/token"
"""


def of_service(machine: Machine, name: str) -> str:
    return machine.shell(f"systemctl show --property {name} --value pvrdmad").strip()


def test_systemd_starts_what_was_installed(machine: Machine) -> None:
    assert machine.shell("systemd-analyze verify --man=no /usr/local/lib/systemd/system/pvrdmad.service 2>&1") == ""
    machine.run("systemctl", "start", "pvrdmad")
    assert machine.run("ps", "-o", "user=", "-p", of_service(machine, "MainPID")).stdout.strip() == "pvrdma"
    assert "VM-01" in machine.run("pvrdmactl", "adapter", "list").stdout, "the adapter of the installed configuration"
    machine.run("systemctl", "restart", "pvrdmad")
    assert machine.run("pvrdmactl", "version").stdout.count("\n") == 2
    assert of_service(machine, "NRestarts") == "0"


def test_a_host_of_a_cluster_needs_no_key_but_its_name(machine: Machine) -> None:
    """The user of the unit may do less than root: on many hosts it may not use the congestion control cubic."""
    machine.shell("""printf '[host]\\nname = "esx-01"\\n' >/etc/pvrdma/pvrdmad.toml""")
    checked = machine.run("runuser", "-u", "pvrdma", "--", "pvrdmad", "--config", "/etc/pvrdma/pvrdmad.toml", "--check")
    may_use_cubic = "cubic" in Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text(encoding="utf-8").split()
    assert ("instead of cubic: only root may use it" in checked.stderr) != may_use_cubic
    machine.run("systemctl", "restart", "pvrdmad")
    assert "esx-01" in machine.run("pvrdmactl", "cluster", "get").stdout
    machine.run("pvrdmactl", "dvs", "create", "DSwitch", "--uplinks", "2")
    machine.run("systemctl", "restart", "pvrdmad")
    assert "DSwitch" in machine.run("pvrdmactl", "dvs", "list").stdout
    journal = machine.run("journalctl", "--unit", "pvrdmad", "--no-pager", "--output", "cat").stdout
    assert journal.count("instead of cubic") == (0 if may_use_cubic else 2), "one warning for each start"
    assert "sandbox: refused" not in journal


def test_systemctl_reload_takes_new_certificates(machine: Machine) -> None:
    machine.shell(f"""cp /etc/pvrdma/pvrdmad.toml /root/before.toml
        {ISSUE}
        openssl rand -hex 24 >/etc/pvrdma/token
        chown pvrdma /etc/pvrdma/token
        cat >>/etc/pvrdma/pvrdmad.toml <<'END'
{API}END
        systemctl restart pvrdmad""")
    shown = "openssl s_client -connect 127.0.0.1:8443 </dev/null 2>/dev/null | openssl x509 -noout -serial"
    daemon, first = of_service(machine, "MainPID"), machine.shell(shown)
    machine.shell(f"{ISSUE}\nsystemctl reload pvrdmad")
    until("the API shows another certificate", lambda: machine.shell(shown) != first)
    assert machine.shell(shown) == machine.shell("openssl x509 -noout -serial -in /etc/pvrdma/host.crt")
    assert of_service(machine, "MainPID") == daemon
    machine.shell("""mv /root/before.toml /etc/pvrdma/pvrdmad.toml
        rm /etc/pvrdma/host.key /etc/pvrdma/host.crt /etc/pvrdma/token
        systemctl restart pvrdmad""")


def test_a_forbidden_congestion_control_is_named_by_check_and_start(machine: Machine) -> None:
    machine.shell("""printf '[host]\\nname = "esx-01"\\n[tcp]\\ncongestion_control = "nosuch"\\n' >/root/nosuch.toml
                     install -m 644 /root/nosuch.toml /etc/pvrdma/nosuch.toml""")
    for check in ([], ["--check"]):
        refused = machine.run("runuser", "-u", "pvrdma", "--", "pvrdmad", "--config", "/etc/pvrdma/nosuch.toml", *check, check=False)
        assert refused.returncode == 2
        assert refused.stderr.startswith('pvrdmad: [tcp] congestion_control = "nosuch": ')
    machine.run("rm", "/etc/pvrdma/nosuch.toml")


def test_another_installation_is_removed_while_the_daemon_runs(machine: Machine) -> None:
    machine.run("systemctl", "start", "pvrdmad")
    machine.shell(f"mkdir /root/records && mv {BUILD}/install_*.txt /root/records")
    machine.run("cmake", "--install", str(BUILD), "--prefix", "/opt/other")
    machine.run("cmake", "--build", str(BUILD), "--target", "uninstall")
    machine.shell(f"[ ! -e /opt/other ] && mv /root/records/* {BUILD}")
    assert of_service(machine, "ActiveState") == "active"


def test_what_systemd_runs_is_not_removed(machine: Machine) -> None:
    refused = machine.run("cmake", "--build", str(BUILD), "--target", "uninstall", check=False)
    assert refused.returncode != 0
    assert "systemctl disable --now pvrdmad" in " ".join((refused.stdout + refused.stderr).split())


def test_removal_leaves_nothing(machine: Machine) -> None:
    machine.run("systemctl", "stop", "pvrdmad")
    machine.run("rm", "/etc/pvrdma/pvrdmad.toml")
    machine.run("cmake", "--build", str(BUILD), "--target", "uninstall")
    machine.shell(f"{LISTING} | diff /root/before -")
    assert machine.run("systemctl", "start", "pvrdmad", check=False).returncode == 5, "there is no such unit"
