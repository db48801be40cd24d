"""The device plugin of examples/kubernetes with a kubelet that speaks the real protocol, and containers made of namespaces."""

from __future__ import annotations

import importlib
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import grpc
import pytest
import yaml
from kubelet import NO_MORE, Kubelet, compile_messages, in_container
from machine import BUILD, PATIENCE_S, REPOSITORY, Machine, is_alive, listens, until

EXAMPLES = REPOSITORY / "examples/kubernetes"
RESOURCE = "pvrdma.example/adapter"
ENDPOINT = "pvrdma.example_adapter.sock"
BOTH = {"node0": "Healthy", "node1": "Healthy"}

Plugin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module", name="generated")
def _generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("messages")
    for each in (folder, *folder.parents[:2]):
        each.chmod(each.stat().st_mode | 0o755)
    compile_messages(EXAMPLES / "device_plugin.proto", folder)
    return folder


@pytest.fixture(scope="module", name="messages")
def _messages(generated: Path) -> ModuleType:
    sys.path.insert(0, str(generated))
    return importlib.import_module("device_plugin_pb2")


@pytest.fixture(name="kubelet")
def _kubelet(machine: Machine, messages: ModuleType) -> Iterator[Kubelet]:
    kubelet = Kubelet(machine.own_folder("kubelet"), messages)
    yield kubelet
    kubelet.stop()


@pytest.fixture(name="plugin")
def _plugin(machine: Machine, kubelet: Kubelet, generated: Path) -> Plugin:
    """Starts the daemon's folder's plugin."""
    machine.own_folder(machine.runtime.name)

    def start(*options: str) -> subprocess.Popen[str]:
        return machine.start(
            "/usr/bin/python3", str(EXAMPLES / "device_plugin.py"), "--api", str(machine.api),
            "--folder", str(machine.folder / "pods"), "--kubelet", str(kubelet.folder),
            "--standin", str(BUILD / "src/pvrdma_standin/pvrdma-standin"),
            "--library", str(BUILD / "src/preload/libpvrdma-preload.so"), *options,
            PYTHONPATH=str(generated), PYTHONDONTWRITEBYTECODE="1")

    return start


def _until_healthy(kubelet: Kubelet, endpoint: str = ENDPOINT) -> None:
    lists = kubelet.devices(endpoint)
    while (last := lists.get(timeout=PATIENCE_S)) != BOTH:
        assert last is not NO_MORE and set(last) == set(BOTH), last


def _standins(plugin: subprocess.Popen[str]) -> dict[str, int]:
    """The stand-ins' process ids by their adapters."""
    found = {}
    for pid in Path(f"/proc/{plugin.pid}/task/{plugin.pid}/children").read_text().split():
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        found[Path(command[command.index("--folder") + 1]).name] = int(pid)
    return found


def _ended(plugin: subprocess.Popen[str]) -> str:
    output, _ = plugin.communicate(timeout=PATIENCE_S)
    return output


def test_containers_exchange_messages(machine: Machine, kubelet: Kubelet, plugin: Plugin, port: str) -> None:
    machine.start_daemon()
    plugin()
    request = kubelet.registered()
    assert (request.version, request.endpoint, request.resource_name) == ("v1beta1", ENDPOINT, RESOURCE)
    assert not kubelet.options(ENDPOINT).pre_start_required
    _until_healthy(kubelet)
    server, client = kubelet.allocate(ENDPOINT, ["node1"], ["node0"])
    assert (dict(server.annotations), dict(client.annotations)) == ({RESOURCE: "node1"}, {RESOURCE: "node0"})
    assert (server.envs["PVRDMA_ADDRESS"], client.envs["PVRDMA_ADDRESS"]) == ("10.99.0.2", "10.99.0.1")
    assert all(mount.read_only for mount in server.mounts)

    details = machine.run_plainly(*in_container(server, "ibv_devinfo", "-v"))
    assert details.returncode == 0 and "::ffff:10.99.0.2, RoCE v2" in details.stdout, details.stdout
    listening = machine.start(*in_container(server, "ib_write_bw", "-F", "-p", port, "-n", "100"))
    until(lambda: listens(int(port)) or listening.poll() is not None, "the server listens")
    done = machine.run_plainly(*in_container(client, "ib_write_bw", "-F", "-p", port, "-n", "100", "127.0.0.1"))
    assert done.returncode == 0 and re.search(r"^ *65536 +100 ", done.stdout, re.MULTILINE), done.stdout
    assert "BW average" in listening.communicate(timeout=PATIENCE_S)[0]


def test_requests_that_are_refused(machine: Machine, kubelet: Kubelet, plugin: Plugin) -> None:
    machine.start_daemon()
    plugin()
    kubelet.registered()
    _until_healthy(kubelet)
    for containers, status, why in [
        ([["node7"]], grpc.StatusCode.NOT_FOUND, "this node has no adapter node7"),
        ([["node0"], ["../node1"]], grpc.StatusCode.NOT_FOUND, "this node has no adapter ../node1"),
        ([["node0", "node1"]], grpc.StatusCode.INVALID_ARGUMENT, f"a container can use one {RESOURCE}, not 2: change its limit to 1"),
        ([[]], grpc.StatusCode.INVALID_ARGUMENT, f"a container can use one {RESOURCE}, not 0: change its limit to 1"),
    ]:
        with pytest.raises(grpc.RpcError) as refused:
            kubelet.allocate(ENDPOINT, *containers)
        assert (refused.value.code(), refused.value.details()) == (status, why)
    assert len(kubelet.allocate(ENDPOINT, ["node0"])) == 1


def test_kubelet_that_starts_again(machine: Machine, kubelet: Kubelet, plugin: Plugin) -> None:
    """It has removed the plugin's socket and knows nothing of it."""
    machine.start_daemon()
    running = plugin("--resource", "rdma.test/device", "--group", str(machine.user.get("group", os.getgid())))
    kubelet.registered()
    lists = kubelet.devices("rdma.test_device.sock")
    lists.get(timeout=PATIENCE_S)
    kubelet.stop()
    kubelet.refusal = "not yet"
    kubelet.start()
    assert kubelet.registered().resource_name == "rdma.test/device"
    _until_healthy(kubelet, "rdma.test_device.sock")
    [container] = kubelet.allocate("rdma.test_device.sock", ["node0"])
    folder = Path(container.mounts[0].host_path)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder, folder / "standin.sock")] == [0o750, 0o660]
    running.terminate()
    assert "the kubelet refuses rdma.test/device: not yet" in _ended(running)


def test_daemon_that_ends_and_comes_back(machine: Machine, kubelet: Kubelet, plugin: Plugin) -> None:
    running = plugin()
    daemon = machine.start_daemon()  # after the plugin, which waits for it
    kubelet.registered()
    lists = kubelet.devices(ENDPOINT)
    until(lambda: lists.get(timeout=PATIENCE_S) == BOTH, "both adapters are healthy")
    daemon.kill()
    daemon.wait()
    until(lambda: set(lists.get(timeout=PATIENCE_S).values()) == {"Unhealthy"}, "neither is")
    with pytest.raises(grpc.RpcError) as refused:
        kubelet.allocate(ENDPOINT, ["node1"])
    assert (refused.value.code(), refused.value.details()) == (
        grpc.StatusCode.UNAVAILABLE, "adapter node1 does not work now: see the plugin's log")
    machine.start_daemon()
    until(lambda: lists.get(timeout=PATIENCE_S) == BOTH, "both are again")
    assert kubelet.allocate(ENDPOINT, ["node1"])
    os.kill(_standins(running)["node0"], signal.SIGKILL)
    assert lists.get(timeout=PATIENCE_S) == {"node0": "Unhealthy", "node1": "Healthy"}
    assert lists.get(timeout=PATIENCE_S) == BOTH


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_plugin(machine: Machine, kubelet: Kubelet, plugin: Plugin, number: int) -> None:
    machine.start_daemon()
    running = plugin()
    kubelet.registered()
    _until_healthy(kubelet)
    standins = _standins(running)
    assert set(standins) == {"node0", "node1"}
    running.send_signal(number)
    running.wait(timeout=PATIENCE_S)
    until(lambda: not any(map(is_alive, standins.values())), "the stand-ins have ended")
    if number == signal.SIGTERM:
        assert running.returncode == 0, _ended(running)
        assert not (kubelet.folder / ENDPOINT).exists()
    # The next one takes over what is left.
    plugin()
    kubelet.registered()
    _until_healthy(kubelet)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--standin", "/nowhere"], "--standin /nowhere: there is no such program: install the package pvrdma"),
        (["--network", "192.0.2.0/31"], "--network 192.0.2.0/31 has no address for each of 2 adapters: name a larger one"),
        (["--library", "/nowhere/l.so"], "No such file or directory: '/nowhere/l.so'"),
        (["--folder", "pods"], "--folder pods: name it by an absolute path"),
    ])
def test_mistakes(machine: Machine, kubelet: Kubelet, plugin: Plugin, options: list[str], why: str) -> None:
    machine.start_daemon()
    running = plugin(*options)
    assert why in _ended(running)
    assert running.returncode in (1, 2)


def test_manifests_name_what_there_is() -> None:
    """No cluster runs here, so this checks what can go wrong by a renamed option or folder."""
    daemon_set, pod = yaml.safe_load_all((EXAMPLES / "manifest.yaml").read_text(encoding="utf-8"))
    spec = daemon_set["spec"]["template"]["spec"]
    daemon, plugin = spec["containers"]
    options = [each for each in plugin["command"] if each.startswith("--")]
    known = (EXAMPLES / "device_plugin.py").read_text(encoding="utf-8")
    assert options and all(f'"{option}"' in known for option in options)
    folders = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    for container in (daemon, plugin):
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        # The kubelet mounts the host's folders into containers by the plugin's names of them.
        assert all(folders[name] == path for name, path in mounts.items() if name in folders)
        assert mounts["daemon"] == "/run/pvrdma"
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert all(each["resources"]["limits"] == {RESOURCE: 1} for each in pod["spec"]["containers"])
