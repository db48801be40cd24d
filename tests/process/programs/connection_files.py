"""Files of /dev/infiniband/rdma_cm that one thread closes while another one waits for an event of them.

dup     the file of two numbers goes on when one of them is closed, also for the thread that waits on that one
again   a thread that waits on a file that was closed gets no event of the next file of that number
"""

import errno
import os
import struct
import sys
import threading
import time
from ctypes import addressof, create_string_buffer

PATH = "/dev/infiniband/rdma_cm"
CREATE_ID, RESOLVE_IP, GET_EVENT = 0, 3, 12
TCP = 0x106
RC = 2
ROOM = 512  # more than an event has
ADDRESS = bytes((10, 99, 0, 1))


def command(file: int, number: int, body: bytes, room: int = 0) -> None:
    os.write(file, struct.pack("=IHH", number, len(body), room) + body)


def cause_event(file: int) -> None:
    """An id whose address is resolved: one event."""
    answer = create_string_buffer(4)
    command(file, CREATE_ID, struct.pack("=QQHB5x", 1, addressof(answer), TCP, RC), 4)
    (made,) = struct.unpack("=I", answer.raw)
    address = struct.pack("=H", 2) + struct.pack(">H", 7174) + ADDRESS
    command(file, RESOLVE_IP, bytes(28) + address.ljust(28, b"\0") + struct.pack("=II", made, 1000))


def take_event(file: int) -> None:
    answer = create_string_buffer(ROOM)
    command(file, GET_EVENT, struct.pack("=Q", addressof(answer)), ROOM)


def wait_for_event(file: int) -> threading.Thread:
    """A thread that waits; it has begun to when this returns."""
    thread = threading.Thread(target=take_event, args=(file,), daemon=True)
    thread.start()
    while not _sleeps(thread.native_id):
        time.sleep(0.005)
    return thread


def _sleeps(thread: int | None) -> bool:
    """Whether the thread waits in recvfrom(), where a file without events keeps it."""
    with open(f"/proc/self/task/{thread}/syscall", encoding="ascii") as file:
        return file.read().split()[0] == RECVFROM


RECVFROM = {"x86_64": "45", "aarch64": "207"}[os.uname().machine]


def dup() -> None:
    first = os.open(PATH, os.O_RDWR)
    waiting = wait_for_event(first)
    second = os.dup(first)
    os.close(first)
    cause_event(second)
    waiting.join(timeout=30)
    print("the waiting thread", "waits on" if waiting.is_alive() else "has the event")


def again() -> None:
    for _ in range(200):
        first = os.open(PATH, os.O_RDWR)
        wait_for_event(first)
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


{"dup": dup, "again": again}[sys.argv[1]]()
sys.stdout.flush()
os._exit(0)  # threads may wait for ever
