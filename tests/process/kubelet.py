"""A kubelet as a device plugin sees it: real gRPC over UNIX sockets in a folder, and a container runtime that has no images."""

from __future__ import annotations

import queue
import shlex
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
from machine import PATIENCE_S

NO_MORE = object()


class Kubelet:
    """Serves Registration, and calls the plugins that have registered. `messages` has the API's messages."""

    def __init__(self, folder: Path, messages: ModuleType) -> None:
        self.folder = folder
        self.refusal = ""  # of the next registration
        self._messages = messages
        self._registered: queue.Queue[Any] = queue.Queue()
        self._channels: list[grpc.Channel] = []
        self.start()

    def start(self) -> None:
        """As the kubelet, it removes the sockets that it finds."""
        for path in self.folder.glob("*.sock"):
            path.unlink()
        handler = grpc.unary_unary_rpc_method_handler(
            self._register, self._messages.RegisterRequest.FromString, self._messages.Empty.SerializeToString)
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler}),))
        self._server.add_insecure_port(f"unix://{self.folder}/kubelet.sock")
        self._server.start()
        (self.folder / "kubelet.sock").chmod(0o777)

    def stop(self) -> None:
        for channel in self._channels:
            channel.close()
        self._channels.clear()
        self._server.stop(grace=None).wait()

    def registered(self) -> Any:
        """Waits for the next registration."""
        return self._registered.get(timeout=PATIENCE_S)

    def devices(self, endpoint: str) -> queue.Queue[Any]:
        """What ListAndWatch says, as {ID: health}; NO_MORE when it ends."""
        lists: queue.Queue[Any] = queue.Queue()
        stream = self._channel(endpoint).unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch", self._messages.Empty.SerializeToString,
            self._messages.ListAndWatchResponse.FromString)(self._messages.Empty())

        def read() -> None:
            try:
                for each in stream:
                    lists.put({device.ID: device.health for device in each.devices})
            except grpc.RpcError:
                lists.put(NO_MORE)

        threading.Thread(target=read, daemon=True).start()
        return lists

    def options(self, endpoint: str) -> Any:
        call = self._channel(endpoint).unary_unary(
            "/v1beta1.DevicePlugin/GetDevicePluginOptions", self._messages.Empty.SerializeToString,
            self._messages.DevicePluginOptions.FromString)
        return call(self._messages.Empty(), timeout=PATIENCE_S)

    def allocate(self, endpoint: str, *containers: list[str]) -> list[Any]:
        """What each container gets, which wants these devices."""
        call = self._channel(endpoint).unary_unary(
            "/v1beta1.DevicePlugin/Allocate", self._messages.AllocateRequest.SerializeToString,
            self._messages.AllocateResponse.FromString)
        wanted = [self._messages.ContainerAllocateRequest(devicesIDs=names) for names in containers]
        return list(call(self._messages.AllocateRequest(container_requests=wanted), timeout=PATIENCE_S).container_responses)

    def _channel(self, endpoint: str) -> grpc.Channel:
        self._channels.append(grpc.insecure_channel(f"unix://{self.folder}/{endpoint}"))
        return self._channels[-1]

    def _register(self, request: Any, context: grpc.ServicerContext) -> Any:
        if self.refusal:
            refusal, self.refusal = self.refusal, ""
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, refusal)
        self._registered.put(request)
        return self._messages.Empty()


def in_container(container: Any, *command: str) -> list[str]:
    """The command with the container's mounts and environment, in namespaces of its own; for an ordinary user, too."""
    steps = ["mount -t tmpfs none /run"]
    for mount in container.mounts:
        at = shlex.quote(mount.container_path)
        steps += [f"mkdir -p {at}", f"mount --bind {shlex.quote(mount.host_path)} {at}"]
        if mount.read_only:
            steps.append(f"mount -o remount,bind,ro {at}")
    environment = [f"{name}={value}" for name, value in container.envs.items()]
    steps.append(f"exec {shlex.join(['env', *environment, *command])}")
    return ["unshare", "--map-root-user", "--mount", "sh", "-ec", "\n".join(steps)]


def compile_messages(source: Path, folder: Path) -> None:
    subprocess.run(["protoc", f"--proto_path={source.parent}", f"--python_out={folder}", source.name], check=True)
