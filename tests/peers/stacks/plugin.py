"""A plugin on one of the two gRPC stacks of Python, and a client of one.

    plugin.py grpcio|grpc.aio serve SOCKET CASE
    plugin.py grpcio|grpc.aio call SOCKET CASE

Messages are written by hand, so that it needs grpcio only. On its standard input, `change` breaks a
device and `stop` ends the plugin in order; at the end of the input it ends at once.
"""

import asyncio
import functools
import os
import sys
import threading
from concurrent import futures

import grpc
import grpc.aio

REGISTRATION = "/pluginregistration.Registration/"
DEVICES = "/v1beta1.DevicePlugin/"
HEALTH = "/v1alpha1.DRAResourceHealth/NodeWatchResources"

KINDS = {
    "csi": ("CSIPlugin", "csi.example.com", ["1.0.0"]),
    "dra": ("DRAPlugin", "dra.example.com", ["v1.DRAPlugin", "v1alpha1.DRAResourceHealth"]),
}
# The cases in which a device breaks after some seconds.
TIMED = ("pings", "policy")
USUAL = ("DevicePlugin", "example.com/peer", ["v1beta1"])

# What a case changes in a server.
OPTIONS = {
    "age": [("grpc.max_connection_age_ms", 1000), ("grpc.max_connection_age_grace_ms", 1)],
    "age-grace": [("grpc.max_connection_age_ms", 1000), ("grpc.max_connection_age_grace_ms", 1000)],
    "pings": [("grpc.keepalive_time_ms", 1000), ("grpc.keepalive_timeout_ms", 1000),
              ("grpc.http2.max_pings_without_data", 0)],
    "policy": [("grpc.http2.min_ping_interval_without_data_ms", 3600_000)],
    "windows-small": [("grpc.http2.lookahead_bytes", 1), ("grpc.http2.bdp_probe", 0)],
    "windows-large": [("grpc.http2.lookahead_bytes", 1 << 28), ("grpc.http2.bdp_probe", 0)],
    "no-table": [("grpc.http2.hpack_table_size.decoder", 0)],
    "one-stream": [("grpc.max_concurrent_streams", 1)],
}


def field(number, value):
    """Returns a field of a message whose value is text or a message."""
    value = value.encode() if isinstance(value, str) else value
    head, left = bytearray([number << 3 | 2]), len(value)
    while left > 127:
        head.append(left & 127 | 128)
        left >>= 7
    head.append(left)
    return bytes(head) + value


def say(*words):
    """Prints a line with one write, because several threads print."""
    os.write(1, (" ".join(words) + "\n").encode())


class Plugin(grpc.GenericRpcHandler):
    """What a server of either stack answers."""

    def __init__(self, case):
        self.case = case
        self.kind, self.name, self.versions = KINDS.get(case, USUAL)
        self.count = 10000 if case in ("many", "windows-small", "windows-large") else 2
        self.asked = 0

    def answer(self, method, request):
        """Returns the response to a unary call."""
        if method == REGISTRATION + "GetInfo":
            info = field(1, self.kind) + field(2, self.name)
            return info + b"".join(field(4, version) for version in self.versions)
        if method == REGISTRATION + "NotifyRegistrationStatus":
            say("notified", "true" if request[:2] == b"\x08\x01" else f"false {request!r}")
        if method == "/csi.v1.Identity/Probe":
            return field(1, b"\x08\x01")
        if method == "/csi.v1.Node/NodeGetInfo":
            return field(1, "node-1") + b"\x10\x08"
        if method == DEVICES + "Allocate":
            return field(1, field(1, field(1, "PEER") + field(2, "1")))
        return b""

    def devices(self, method, is_healthy):
        """Returns a message of ListAndWatch or NodeWatchResources."""
        if method == HEALTH:
            device = field(1, "pool") + field(2, "device-1")
            return field(1, field(1, device) + bytes([16, 1 if is_healthy else 2]))
        words = ["Healthy" if is_healthy or at != 1 else "Unhealthy" for at in range(self.count)]
        devices = [field(1, f"device-{at}") + field(2, word) for at, word in enumerate(words)]
        return b"".join(field(1, device) for device in devices)

    def begin(self, method):
        """Returns whether this call fails, and the metadata of its response."""
        fails = False
        if method == REGISTRATION + "GetInfo":
            self.asked += 1
            fails = self.case == "details" and self.asked == 1
        large = [("x-large", "m" * (20 << 10))] if self.case == "metadata" else []
        return fails, large


class Threads(Plugin):
    """The plugin on grpcio."""

    def __init__(self, case):
        super().__init__(case)
        self.lock = threading.Condition()
        self.changed = self.stopped = False

    def service(self, call):
        method = call.method
        if method in (DEVICES + "ListAndWatch", HEALTH):
            return grpc.unary_stream_rpc_method_handler(functools.partial(self.watch, method))

        def unary(request, context):
            fails, large = self.begin(method)
            if fails:
                context.set_trailing_metadata([("grpc-status-details-bin", b"\x08\x0e")])
                context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
            context.send_initial_metadata(large)
            return self.answer(method, request)

        return grpc.unary_unary_rpc_method_handler(unary)

    def watch(self, method, _request, context):
        say("watched")
        ended = []

        def end():
            with self.lock:
                ended.append(True)
                self.lock.notify_all()

        context.add_callback(end)
        with self.lock:
            is_healthy = not self.changed
        yield self.devices(method, is_healthy)
        with self.lock:
            self.lock.wait_for(lambda: ended or self.stopped or self.changed == is_healthy)
        if self.changed == is_healthy:
            yield self.devices(method, False)
            with self.lock:
                self.lock.wait_for(lambda: ended or self.stopped)

    def set(self, **what):
        with self.lock:
            self.__dict__.update(what)
            self.lock.notify_all()


class Tasks(Plugin):
    """The plugin on grpc.aio."""

    def __init__(self, case):
        super().__init__(case)
        self.changed, self.stopped = asyncio.Event(), asyncio.Event()

    def service(self, call):
        method = call.method
        if method in (DEVICES + "ListAndWatch", HEALTH):
            return grpc.unary_stream_rpc_method_handler(functools.partial(self.watch, method))

        async def unary(request, context):
            fails, large = self.begin(method)
            if fails:
                context.set_trailing_metadata([("grpc-status-details-bin", b"\x08\x0e")])
                await context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
            await context.send_initial_metadata(large)
            return self.answer(method, request)

        return grpc.unary_unary_rpc_method_handler(unary)

    async def watch(self, method, _request, _context):
        say("watched")
        is_healthy = not self.changed.is_set()
        yield self.devices(method, is_healthy)
        changed = asyncio.create_task(self.changed.wait())
        stopped = asyncio.create_task(self.stopped.wait())
        await asyncio.wait([changed, stopped], return_when=asyncio.FIRST_COMPLETED)
        if is_healthy and self.changed.is_set():
            yield self.devices(method, False)
        await stopped


def server_arguments(case):
    compression = grpc.Compression.Gzip if case == "compressed" else None
    return {"options": OPTIONS.get(case, []), "compression": compression}


def register(path):
    """Calls Register on the kubelet.sock beside the plugin's socket."""
    request = field(1, "v1beta1") + field(2, os.path.basename(path)) + field(3, USUAL[1])
    with grpc.insecure_channel("unix:" + os.path.join(os.path.dirname(path), "kubelet.sock")) as channel:
        channel.unary_unary("/v1beta1.Registration/Register")(request, timeout=20)
    say("notified true")


def serve_threads(path, case):
    plugin = Threads(case)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), **server_arguments(case))
    server.add_generic_rpc_handlers((plugin,))
    server.add_insecure_port("unix:" + path)
    server.start()
    if case == "announce":
        threading.Thread(target=register, args=(path,)).start()
    if case in TIMED:
        threading.Timer(3, plugin.set, kwargs={"changed": True}).start()
    for line in sys.stdin:
        if line == "change\n":
            plugin.set(changed=True)
        elif line == "stop\n":
            plugin.set(stopped=True)
            server.stop(10).wait()
            return
    os._exit(0)


async def serve_tasks(path, case):
    plugin = Tasks(case)
    server = grpc.aio.server(**server_arguments(case))
    server.add_generic_rpc_handlers((plugin,))
    server.add_insecure_port("unix:" + path)
    await server.start()
    loop = asyncio.get_running_loop()
    if case == "announce":
        loop.run_in_executor(None, register, path)
    if case in TIMED:
        loop.call_later(3, plugin.changed.set)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        if line == "change\n":
            plugin.changed.set()
        elif line == "stop\n":
            plugin.stopped.set()
            await server.stop(10)
            return
    os._exit(0)


def requests():
    """Returns the unary calls of a client, in their order."""
    return [
        (REGISTRATION + "GetInfo", b""),
        (REGISTRATION + "NotifyRegistrationStatus", b"\x08\x01"),
        (DEVICES + "Allocate", field(1, field(1, "device-0"))),
    ]


def call_threads(path, _case):
    with grpc.insecure_channel("unix:" + path) as channel:
        replies = [channel.unary_unary(method)(request, timeout=20) for method, request in requests()]
        devices = next(channel.unary_stream(DEVICES + "ListAndWatch")(b"", timeout=20))
    say("called", str(len(replies[0]) > 0 and len(devices) > 0).lower())


async def call_tasks(path, _case):
    async with grpc.aio.insecure_channel("unix:" + path) as channel:
        replies = [await channel.unary_unary(method)(request, timeout=20) for method, request in requests()]
        devices = await channel.unary_stream(DEVICES + "ListAndWatch")(b"", timeout=20).read()
    say("called", str(len(replies[0]) > 0 and len(devices) > 0).lower())


def main():
    stack, role, path, case = sys.argv[1:]
    if stack == "grpcio":
        (serve_threads if role == "serve" else call_threads)(path, case)
    else:
        asyncio.run((serve_tasks if role == "serve" else call_tasks)(path, case))


main()
