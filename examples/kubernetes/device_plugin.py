#!/usr/bin/python3
"""A Kubernetes device plugin: a container that asks for the resource gets one of the node's adapters, without any privilege.

It runs a stand-in (pvrdma-standin) for each adapter of the node's pvrdmad, and tells the kubelet which adapters there are and
whether they work. A container that gets one sees the stand-in's folder and the library that programs are loaded with.

It needs python3-grpcio, and the messages of device_plugin.proto: protoc --python_out=. device_plugin.proto
docs/howto/kubernetes.md says how to use it.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import device_plugin_pb2 as messages
import grpc
from adapters import Adapter, Mistake, Settings, adapters_of

_VERSION = "v1beta1"
_KUBELET_LOOK_S = 1
_ANSWER_PATIENCE_S = 10

# In the container.
_STANDIN = "/run/pvrdma/standin"
_LIBRARIES = "/run/pvrdma/lib"


class DevicePlugin:
    """The service that the kubelet calls."""

    def __init__(self, adapters: dict[str, Adapter], changed: asyncio.Condition, resource: str, library: Path) -> None:
        self._adapters = adapters
        self._changed = changed
        self._resource = resource
        self._library = library

    def handler(self) -> grpc.GenericRpcHandler:
        """The service as gRPC wants it."""
        def unary(method, request, response):  # type: ignore[no-untyped-def]
            return grpc.unary_unary_rpc_method_handler(method, request.FromString, response.SerializeToString)

        return grpc.method_handlers_generic_handler(f"{_VERSION}.DevicePlugin", {
            "GetDevicePluginOptions": unary(self._options, messages.Empty, messages.DevicePluginOptions),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._list_and_watch, messages.Empty.FromString, messages.ListAndWatchResponse.SerializeToString),
            "Allocate": unary(self._allocate, messages.AllocateRequest, messages.AllocateResponse),
        })

    async def _options(self, _request: messages.Empty, _context: grpc.aio.ServicerContext) -> messages.DevicePluginOptions:
        return messages.DevicePluginOptions()

    async def _list_and_watch(
            self, _request: messages.Empty, _context: grpc.aio.ServicerContext) -> AsyncIterator[messages.ListAndWatchResponse]:
        told: dict[str, bool] = {}
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._health() != told)
                told = self._health()
            yield messages.ListAndWatchResponse(devices=[
                messages.Device(ID=name, health="Healthy" if healthy else "Unhealthy") for name, healthy in told.items()])

    def _health(self) -> dict[str, bool]:
        return {name: adapter.is_healthy for name, adapter in self._adapters.items()}

    async def _allocate(self, request: messages.AllocateRequest, context: grpc.aio.ServicerContext) -> messages.AllocateResponse:
        wanted = [list(each.devicesIDs) for each in request.container_requests]
        for names in wanted:
            await self._check(names, context)
        return messages.AllocateResponse(container_responses=[self._for_container(self._adapters[names[0]]) for names in wanted])

    async def _check(self, names: list[str], context: grpc.aio.ServicerContext) -> None:
        if len(names) != 1:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT,
                                f"a container can use one {self._resource}, not {len(names)}: change its limit to 1")
        if names[0] not in self._adapters:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"this node has no adapter {names[0]}")
        if not self._adapters[names[0]].is_healthy:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"adapter {names[0]} does not work now: see the plugin's log")

    def _for_container(self, adapter: Adapter) -> messages.ContainerAllocateResponse:
        return messages.ContainerAllocateResponse(
            # What pvrdma-run sets, and the address for programs that use rdma_cm.
            envs={"LD_PRELOAD": f"{_LIBRARIES}/{self._library.name}", "PVRDMA_STANDIN": _STANDIN, "PVRDMA_ADDRESS": adapter.address},
            mounts=[messages.Mount(container_path=_STANDIN, host_path=str(adapter.folder), read_only=True),
                    messages.Mount(container_path=_LIBRARIES, host_path=str(self._library.parent), read_only=True)],
            annotations={self._resource: adapter.name})


class Service:
    """The plugin at its socket, known to the kubelet. A kubelet that starts again forgets it and removes its socket."""

    def __init__(self, plugin: DevicePlugin, kubelet: Path, resource: str) -> None:
        self._plugin = plugin
        self._kubelet = kubelet / "kubelet.sock"
        self._endpoint = kubelet / (resource.replace("/", "_") + ".sock")
        self._resource = resource

    async def keep(self) -> None:
        """Serves each kubelet that comes, until it is cancelled."""
        while True:
            while (kubelet := _identity(self._kubelet)) is None:
                await asyncio.sleep(_KUBELET_LOOK_S)
            server = grpc.aio.server()
            server.add_generic_rpc_handlers((self._plugin.handler(),))
            server.add_insecure_port(f"unix://{self._endpoint}")
            await server.start()
            own = _identity(self._endpoint)
            try:
                await self._register()
                while (_identity(self._kubelet), _identity(self._endpoint)) == (kubelet, own):
                    await asyncio.sleep(_KUBELET_LOOK_S)
                print("the kubelet has started again", flush=True)
            except grpc.aio.AioRpcError as error:
                print(f"the kubelet refuses {self._resource}: {error.details()}", flush=True)
                await asyncio.sleep(_KUBELET_LOOK_S)
            finally:
                await server.stop(grace=None)

    async def _register(self) -> None:
        async with grpc.aio.insecure_channel(f"unix://{self._kubelet}") as channel:
            register = channel.unary_unary(
                f"/{_VERSION}.Registration/Register", messages.RegisterRequest.SerializeToString, messages.Empty.FromString)
            await register(
                messages.RegisterRequest(version=_VERSION, endpoint=self._endpoint.name, resource_name=self._resource),
                timeout=_ANSWER_PATIENCE_S)
        print(f"the kubelet knows {self._resource}", flush=True)


def _identity(path: Path) -> tuple[int, int] | None:
    """Tells a socket from an earlier one of the same name."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_ctime_ns


def _copy_library(source: Path, folder: Path) -> Path:
    """Containers see a copy, in a folder that has nothing else. Programs that run keep the one that they have."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    fresh = folder / ".new"
    shutil.copyfile(source, fresh)
    fresh.chmod(0o644)
    os.replace(fresh, folder / source.name)
    return folder / source.name


async def _run(options: argparse.Namespace) -> int:
    changed = asyncio.Condition()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    stopped = asyncio.create_task(stop.wait())
    serving = asyncio.create_task(_serve(options, changed))
    await asyncio.wait({stopped, serving}, return_when=asyncio.FIRST_COMPLETED)
    for task in (stopped, serving):
        task.cancel()
    error = (await asyncio.gather(serving, return_exceptions=True))[0]
    if error is None or isinstance(error, asyncio.CancelledError):
        return 0
    if isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, (Mistake, OSError, RuntimeError)):  # gRPC cannot bind: RuntimeError
        raise error
    print(f"device_plugin.py: {error}", file=sys.stderr)
    return 1


async def _serve(options: argparse.Namespace, changed: asyncio.Condition) -> None:
    if shutil.which(options.standin) is None:
        raise Mistake(f"--standin {options.standin}: there is no such program: install the package pvrdma")
    library = _copy_library(options.library, options.folder / "lib")
    adapters = await adapters_of(
        Settings(options.api, options.folder / "adapters", options.standin, options.network, options.group), changed)
    service = Service(DevicePlugin(adapters, changed, options.resource, library), options.kubelet, options.resource)
    async with asyncio.TaskGroup() as tasks:
        for each in (service, *adapters.values()):
            tasks.create_task(each.keep())


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", type=Path, required=True, metavar="SOCKET", help="the API socket of pvrdmad, whose adapters containers get")
    parser.add_argument("--folder", type=Path, required=True, metavar="DIRECTORY",
                        help="what containers see; it must have this path on the host, too")
    parser.add_argument("--resource", default="pvrdma.example/adapter", metavar="DOMAIN/NAME", help="what containers ask for (%(default)s)")
    parser.add_argument("--network", type=ipaddress.ip_network, default="10.99.0.0/24", metavar="ADDRESS/BITS",
                        help="of the adapters' addresses, which are on no interface (%(default)s)")
    parser.add_argument("--group", default="", metavar="GROUP", help="whose containers may use an adapter, besides those of root (none)")
    parser.add_argument("--kubelet", type=Path, default="/var/lib/kubelet/device-plugins", metavar="DIRECTORY",
                        help="the folder of kubelet.sock (%(default)s)")
    parser.add_argument("--standin", default="pvrdma-standin", metavar="PROGRAM", help="(%(default)s)")
    parser.add_argument("--library", type=Path, default="/usr/lib/x86_64-linux-gnu/pvrdma/libpvrdma-preload.so", metavar="FILE",
                        help="(%(default)s)")
    options = parser.parse_args()
    if not options.folder.is_absolute():
        parser.error(f"--folder {options.folder}: name it by an absolute path")
    return asyncio.run(_run(options))


if __name__ == "__main__":
    sys.exit(main())
