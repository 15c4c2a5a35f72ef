"""A device plugin on gRPC's C core, which registers with kubelet.sock as plugins in use do.

    device_plugin.py generic DIR RESOURCE DEVICE...
    device_plugin.py nvidia DIR RESOURCE DEVICE...

generic: looks for its own socket at intervals. When that is gone, it starts afresh, with a socket of
another name (generic-device-plugin: intervals of 1 s and 5 s).

nvidia: watches its directory, and starts afresh on the same socket when kubelet.sock is created
(NVIDIA's plugin).

Both print a line when they have registered, and one for each failure. They end at SIGTERM and remove
their socket; SIGKILL leaves it behind. Messages are written by hand, so that it needs grpcio only.
"""

import base64
import ctypes
import os
import select
import signal
import sys
import threading
import time
from concurrent import futures

import grpc

# How often the generic plugin looks for its socket, and how long it then waits (s).
CHECK_INTERVAL = 0.1
RESTART_INTERVAL = 0.3
# How long a plugin waits after a registration that failed (s).
RETRY_INTERVAL = 0.3
# The longest time for a registration (s).
REGISTER_TIMEOUT = 20

# What fsnotify reports as a creation.
IN_CREATE = 0x100
IN_MOVED_TO = 0x80

# Set when the program has to end, and a pipe that can be read from then on.
ENDING = threading.Event()
ENDING_READER, ENDING_WRITER = os.pipe()


def field(number, value):
    """Returns a field of a message whose value is text or a message."""
    value = value.encode() if isinstance(value, str) else value
    assert number < 16 and len(value) < 128, "a tag and a length of one octet each"
    return bytes([number << 3 | 2, len(value)]) + value


def device(name):
    """Returns a healthy device."""
    return field(1, field(1, name) + field(2, "Healthy"))


class Plugin(grpc.GenericRpcHandler):
    """The service v1beta1.DevicePlugin on one socket."""

    def __init__(self, path, devices):
        self.path = path
        self.list = b"".join(device(name) for name in devices)
        self.server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
        self.server.add_generic_rpc_handlers((self,))
        self.server.add_insecure_port("unix:" + path)
        self.server.start()

    def service(self, call):
        """Returns the handler of a method."""
        if call.method == "/v1beta1.DevicePlugin/GetDevicePluginOptions":
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")
        if call.method == "/v1beta1.DevicePlugin/ListAndWatch":
            return grpc.unary_stream_rpc_method_handler(self.list_and_watch)
        return None

    def list_and_watch(self, _request, context):
        """Sends the devices, and ends with the call."""
        ended = threading.Event()
        if context.add_callback(ended.set):
            yield self.list
            ended.wait()

    def register(self, directory, resource):
        """Registers with kubelet.sock, and returns whether that succeeded."""
        request = field(1, "v1beta1") + field(2, os.path.basename(self.path)) + field(3, resource)
        with grpc.insecure_channel("unix:" + os.path.join(directory, "kubelet.sock")) as channel:
            register = channel.unary_unary("/v1beta1.Registration/Register")
            try:
                register(request, timeout=REGISTER_TIMEOUT)
            except grpc.RpcError as error:
                report("not registered", error.code().name, error.details())
                return False
        report("registered", os.path.basename(self.path))
        return True

    def stop(self):
        """Ends all calls, and removes the socket."""
        self.server.stop(None).wait()


def report(*words):
    """Prints a line at once."""
    print(*words, flush=True)


def run_generic(directory, resource, devices):
    """Starts afresh whenever its own socket is gone."""
    encoded = base64.b64encode(resource.encode()).decode()
    while not ENDING.is_set():
        name = f"gdp-{encoded}-{time.time_ns() // 1_000_000}.sock"
        plugin = Plugin(os.path.join(directory, name), devices)
        if plugin.register(directory, resource):
            while os.path.lexists(plugin.path) and not ENDING.wait(CHECK_INTERVAL):
                pass
        plugin.stop()
        ENDING.wait(RESTART_INTERVAL)


def run_nvidia(directory, resource, devices):
    """Starts afresh whenever kubelet.sock is created."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_CLOEXEC)
    mask = IN_CREATE | IN_MOVED_TO
    if watch < 0 or libc.inotify_add_watch(watch, os.fsencode(directory), mask) < 0:
        raise OSError(ctypes.get_errno(), "cannot watch " + directory)
    path = os.path.join(directory, "nvidia-gpu.sock")
    while not ENDING.is_set():
        # A socket that a killed predecessor left behind.
        if os.path.lexists(path):
            os.remove(path)
        plugin = Plugin(path, devices)
        if plugin.register(directory, resource):
            wait_for_kubelet(watch)
        else:
            ENDING.wait(RETRY_INTERVAL)
        plugin.stop()


def wait_for_kubelet(watch):
    """Waits until kubelet.sock is created, or the program has to end."""
    while not ENDING.is_set():
        readable, _, _ = select.select([watch, ENDING_READER], [], [])
        if watch in readable and b"kubelet.sock" in names(os.read(watch, 4096)):
            return


def names(events):
    """Yields the names of files in inotify's events."""
    while events:
        end = 16 + int.from_bytes(events[12:16], sys.byteorder)
        yield events[16:end].rstrip(b"\0")
        events = events[end:]


def end(_signal, _frame):
    """Lets the program end."""
    ENDING.set()
    os.write(ENDING_WRITER, b"\0")


def main():
    """Runs the plugin of the name in the first argument."""
    os.dup2(sys.stdout.fileno(), sys.stderr.fileno())
    signal.signal(signal.SIGTERM, end)
    kind, directory, resource, *devices = sys.argv[1:]
    {"generic": run_generic, "nvidia": run_nvidia}[kind](directory, resource, devices)


if __name__ == "__main__":
    main()
