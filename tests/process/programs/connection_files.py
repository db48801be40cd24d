"""Files of /dev/infiniband/rdma_cm in a program of several threads.

dup     the file of two numbers goes on when one of them is closed, also for the thread that waits on that one
again   a thread that waits on a file that was closed gets no event of the next file of that number
move    ids move to another file as the kernel's MIGRATE_ID moves them, or are refused with its errno
fault   a thread that passes an address where nothing is stays in its signal handler, and the others go on
"""

import errno
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from ctypes import CDLL, addressof, c_int, c_void_p, cast, create_string_buffer

PATH = "/dev/infiniband/rdma_cm"
CREATE_ID, RESOLVE_IP, GET_EVENT, SET_OPTION, MIGRATE_ID = 0, 3, 12, 14, 18
TCP = 0x106
RC = 2
ROOM = 512  # more than an event has
ADDRESS = bytes((10, 99, 0, 1))


def command(file: int, number: int, body: bytes, room: int = 0) -> None:
    os.write(file, struct.pack("=IHH", number, len(body), room) + body)


def create_id(file: int) -> int:
    answer = create_string_buffer(4)
    command(file, CREATE_ID, struct.pack("=QQHB5x", 1, addressof(answer), TCP, RC), 4)
    return int.from_bytes(answer.raw, sys.byteorder)


def cause_event(file: int) -> int:
    """Makes an id whose address is resolved: one event."""
    made = create_id(file)
    address = struct.pack("=H", 2) + struct.pack(">H", 7174) + ADDRESS
    command(file, RESOLVE_IP, bytes(28) + address.ljust(28, b"\0") + struct.pack("=II", made, 1000))
    return made


def take_event(file: int) -> None:
    answer = create_string_buffer(ROOM)
    command(file, GET_EVENT, struct.pack("=Q", addressof(answer)), ROOM)


def migrate(made: int, source: int, target: int) -> int | str:
    """Returns the events that the program was told of, or the error's name."""
    answer = create_string_buffer(4)
    try:
        command(target, MIGRATE_ID, struct.pack("=QII", addressof(answer), made, source & 0xFFFFFFFF), 4)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return int.from_bytes(answer.raw, sys.byteorder)


def start(function: Callable[..., None], *arguments: int, until: str) -> threading.Thread:
    """A thread that waits in a system call of that number when this returns."""
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    while True:
        with open(f"/proc/self/task/{thread.native_id}/syscall", encoding="ascii") as file:
            if file.read().split()[0] == until:
                return thread
        time.sleep(0.005)


# recvfrom(), where a file without events keeps a thread, and pause()
RECVFROM, PAUSE = {"x86_64": ("45", "34"), "aarch64": ("207", "73")}[os.uname().machine]


def dup() -> None:
    first = os.open(PATH, os.O_RDWR)
    waiting = start(take_event, first, until=RECVFROM)
    second = os.dup(first)
    os.close(first)
    cause_event(second)
    waiting.join(timeout=30)
    print("the waiting thread", "waits on" if waiting.is_alive() else "has the event")


def again() -> None:
    for _ in range(200):
        first = os.open(PATH, os.O_RDWR)
        start(take_event, first, until=RECVFROM)
        os.close(first)
        second = os.open(PATH, os.O_RDWR | os.O_NONBLOCK)
        assert second == first, "the number is free"
        cause_event(second)
        try:
            take_event(second)
        except OSError as error:
            print("no event:", errno.errorcode.get(error.errno or 0))
            return
        os.close(second)
    print("each file has its event")


def fault() -> None:
    libc = CDLL(None)
    libc.signal.argtypes = [c_int, c_void_p]
    libc.signal(signal.SIGSEGV, cast(libc.pause, c_void_p))
    file = os.open(PATH, os.O_RDWR)
    start(lambda made: command(file, SET_OPTION, struct.pack("=QIIII", 8, made, 0, 0, 4)), create_id(file), until=PAUSE)
    cause_event(file)
    take_event(file)
    print("the other thread goes on")


def move() -> None:
    one, other = os.open(PATH, os.O_RDWR), os.open(PATH, os.O_RDWR | os.O_NONBLOCK)
    made, unknown = cause_event(one), 0x7FFFFFFF
    foreign, _ = os.pipe()
    for source, number, error in (
            (1000, made, "ENOENT"), (-1, made, "ENOENT"), (foreign, made, "EINVAL"), (foreign, unknown, "EINVAL"),
            (one, unknown, "ENOENT"), (other, made, "EINVAL")):
        found = migrate(number, source, other)
        assert found == error, f"{number} from {source}: {found} instead of {error}"
    take_event(one)  # no refusal moved it
    assert migrate(made, one, other) == 1 and migrate(made, one, other) == "EINVAL" and migrate(made, other, other) == 1
    second = cause_event(one)
    assert migrate(second, one, other) == 0, "the event is not read yet"
    take_event(other)
    assert migrate(second, other, one) == 1
    os.close(other)
    assert migrate(second, one, one) == 1, "it does not end with the file that it left"
    print("ids move as in a kernel")


{"dup": dup, "again": again, "move": move, "fault": fault}[sys.argv[1]]()
sys.stdout.flush()
os._exit(0)  # threads may wait for ever
