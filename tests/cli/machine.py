"""A machine with systemd in namespaces of this one. It sees this machine's files, or those of another root, and what it
writes is thrown away.

Needs root, cgroup v2 and overlayfs. The machine has no network but a loopback device.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

_READY_GUARD_S = 60.0
_CALL_GUARD_S = 600.0
_SYSTEMD = "/usr/lib/systemd/systemd"

# Arguments: an empty folder, the name of a control group to make, _BOOT, the root, then folders to show.
_BEGIN = r"""
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/cgroup" && mount -t cgroup2 cgroup2 "$1/cgroup"
own=$1/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/$2
mkdir "$own"
echo $$ >"$own/cgroup.procs"
folder=$1
boot=$3
shift 3
exec unshare --cgroup sh -ec "$boot" sh "$folder" "$@"
"""
_BOOT = r"""
own=$1
root=$1/root
files=$2
shift 2
mkdir "$root"
layer() {  # FILES FOLDER NUMBER: shows the files in a folder of the machine. An overlay shows no file systems below its own.
  mkdir -p "$own/$3.upper" "$own/$3.work" "$root$2"
  mount -t overlay -o "lowerdir=$1,upperdir=$own/$3.upper,workdir=$own/$3.work" overlay "$root$2"
}
layer "$files" / 0
for folder; do layer "$folder" "$folder" "$((i += 1))"; done
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,ro,bind "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for folder in run dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$folder"; done
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm"
rm -f "$root/etc/fstab" "$root/etc/machine-id"
: >"$root/etc/machine-id"
ln -sf /dev/null "$root/etc/systemd/system/timers.target"
ip link set lo up
cd "$root"
mkdir old
pivot_root . old
umount -l /old
rmdir /old
exec env -i container=test PATH=/usr/sbin:/usr/bin {systemd} --unit=sysinit.target --show-status=no
"""
_END = r"""
mount -t cgroup2 cgroup2 "$1"
own=$1$(sed -n 's/^0:://p' /proc/self/cgroup)/$2
[ -d "$own" ] || exit 0
echo 1 >"$own/cgroup.kill"
until grep -q "populated 0" "$own/cgroup.events"; do sleep 0.1; done
find "$own" -depth -type d -exec rmdir {} +
"""


class Machine:
    """Boots when made. `folder` is empty. `shown` are folders of this machine that are outside `root` or on file systems of
    their own."""

    def __init__(self, folder: Path, *shown: Path, root: Path = Path("/")) -> None:
        self._folder = folder
        self._name = f"pvrdma-machine-{os.getpid()}"
        self._console = folder.with_suffix(".log")
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--net", "--propagation", "private",
                   "sh", "-c", _BEGIN, "sh", str(folder), self._name, _BOOT.replace("{systemd}", _SYSTEMD), str(root), *map(str, shown)]
        with self._console.open("wb") as console:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        try:
            self._wait_ready()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the machine with everything that runs in it."""
        self._process.kill()
        self._process.wait()
        subprocess.run(["unshare", "--mount", "sh", "-ec", _END, "sh", str(self._folder), self._name], check=True)

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a program in the machine. Fails the test if it does, unless `check` is false."""
        init = self._init()
        if init is None:
            assert not check, f"{' '.join(command)}: the machine does not run"
            return subprocess.CompletedProcess(command, 1, "", "")
        done = subprocess.run(["nsenter", "--target", init, "--all", "--root", "--wd", *command],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_CALL_GUARD_S, check=False,
                              env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LC_ALL": "C.UTF-8"})
        assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done

    def shell(self, script: str) -> str:
        """What a script prints."""
        return self.run("sh", "-ec", script).stdout

    def seen_from_outside(self, path: str) -> Path:
        """The path by which this machine reaches a file or a socket of the machine."""
        init = self._init()
        assert init is not None, f"{path}: the machine does not run"
        return Path(f"/proc/{init}/root{path}")

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + _READY_GUARD_S
        while self.run("systemctl", "is-system-running", check=False).stdout.strip() not in ("running", "degraded"):
            assert self._process.poll() is None and time.monotonic() < deadline, self._console.read_text()
            time.sleep(0.1)

    def _init(self) -> str | None:
        """The process id of the machine's systemd; None if it does not run. Before it runs, that process still has the root of
        this machine, so a command in it would act on this machine."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        with suppress(OSError):  # it has just ended
            if children and os.readlink(f"/proc/{children[0]}/exe") == _SYSTEMD:
                return children[0]
        return None
