"""Registered memory behaves as before: fork, mapping again at the same place, private again afterwards."""

import ctypes
import errno
import fcntl
import mmap
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable

import pyverbs.device as device
import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.pd import PD

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
libc.memfrob.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
BYTES = 4 * mmap.PAGESIZE
MADV_DONTNEED = 4
EXIT = {"x86_64": 60, "aarch64": 93}[os.uname().machine]  # the system call that ends one thread
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE


def map_memory(at: int = 0) -> int:
    fixed = 0x10 if at else 0
    return libc.mmap(at, BYTES, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | fixed, -1, 0)


def is_shared(address: int) -> bool:
    with open("/proc/thread-self/maps") as maps:
        for line in maps:
            start, end = (int(each, 16) for each in line.split()[0].split("-"))
            if start <= address < end:
                return line.split()[1][3] == "s"
    raise AssertionError(f"{address:#x} is not mapped")


def main_stack() -> tuple[int, int]:
    """Where it begins and ends."""
    with open("/proc/thread-self/maps") as maps:
        stack = next(line for line in maps if "[stack]" in line)
    start, end = (int(each, 16) for each in stack.split()[0].split("-"))
    return start, end


def text(address: int) -> bytes:
    return ctypes.string_at(address, 5)


def fork(pd: PD) -> None:
    """Parent and child see their own stores only."""
    address = map_memory()
    ctypes.memmove(address, b"first", 5)
    with MR(pd, BYTES, ACCESS, address=address):
        assert is_shared(address) and text(address) == b"first"
        child = os.fork()
        if child == 0:
            ok = text(address) == b"first" and not is_shared(address)
            ctypes.memmove(address, b"child", 5)
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert text(address) == b"first"


def fork_with_memory_that_nothing_may_read(pd: PD) -> None:
    """Registered memory without PROT_READ is copied for the child, too, and so is what lies above it."""
    lower, upper = sorted((map_memory(), map_memory()))
    for address in (lower, upper):
        ctypes.memmove(address, b"first", 5)
    with MR(pd, BYTES, ACCESS, address=lower), MR(pd, BYTES, ACCESS, address=upper):
        assert libc.mprotect(lower, BYTES, 0) == 0
        child = os.fork()
        if child == 0:
            ctypes.memmove(upper, b"child", 5)
            libc.mprotect(lower, BYTES, mmap.PROT_READ | mmap.PROT_WRITE)
            ok = text(lower) == b"first"
            ctypes.memmove(lower, b"child", 5)
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert text(upper) == b"first"
        assert libc.mprotect(lower, BYTES, mmap.PROT_READ | mmap.PROT_WRITE) == 0
        assert text(lower) == b"first"


def fork_that_goes_on(pd: PD) -> None:
    """A child that executes no program keeps the memory of the moment of its fork, whatever the parent does then."""
    size = 64 << 20
    address = libc.mmap(0, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    places = range(0, size, mmap.PAGESIZE)
    ctypes.memset(address, ord("1"), size)
    with MR(pd, size, ACCESS, address=address):
        start, go = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(start, 1)
            os._exit(0 if all(ctypes.string_at(address + at, 1) == b"1" for at in places) else 1)
        ctypes.memset(address, ord("2"), size)
    libc.munmap(address, size)
    MR(pd, size, ACCESS, address=libc.mmap(0, size, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)).close()
    os.write(go, b"1")
    assert os.waitpid(child, 0)[1] == 0


def map_again(pd: PD) -> None:
    """Memory that was unmapped while it was registered is not what is registered at its address later."""
    address = map_memory()
    for content in (b"older", b"newer"):
        ctypes.memmove(address, content, 5)
        mr = MR(pd, BYTES, ACCESS, address=address)
        assert is_shared(address) and text(address) == content
        assert libc.munmap(address, BYTES) == 0
        assert map_memory(address) == address and text(address) == bytes(5) and not is_shared(address)
        mr.close()


def private_again(pd: PD) -> None:
    """After its last deregistration memory is the program's alone, and can be thrown away."""
    address = map_memory()
    ctypes.memmove(address, b"hello", 5)
    first = MR(pd, BYTES, ACCESS, address=address)
    second = MR(pd, mmap.PAGESIZE, ACCESS, address=address)
    first.close()
    assert is_shared(address) and not is_shared(address + mmap.PAGESIZE)
    second.close()
    assert not is_shared(address) and text(address) == b"hello"
    assert libc.madvise(address, BYTES, MADV_DONTNEED) == 0
    assert text(address) == bytes(5)


def closed_with_a_region(pd: PD) -> None:
    """Memory is the program's alone again when its device's file is closed, even if it was not deregistered."""
    address = map_memory()
    region = MR(pd, BYTES, ACCESS, address=address)
    assert region.lkey != 0 and is_shared(address)
    ctypes.memmove(address, b"hello", 5)
    (file,) = (int(number) for number in os.listdir("/proc/thread-self/fd") if link_of(number).startswith("/memfd:uverbs0"))
    os.close(file)
    assert not is_shared(address) and text(address) == b"hello"
    print("passed", flush=True)
    os._exit(0)  # pyverbs would close what it still has


def descriptors_closed(pd: PD) -> None:
    """A program that closes descriptors of the library gets errors, also if their numbers mean other files then."""
    address = map_memory()
    MR(pd, BYTES, ACCESS, address=address).close()
    for name in ("/memfd:pvrdma-uar", "/memfd:pvrdma ", "socket:"):
        numbers = [int(number) for number in os.listdir("/proc/thread-self/fd") if link_of(number).startswith(name)]
        other = os.open("/dev/zero", os.O_RDWR)
        for number in numbers:
            os.dup2(other, number)
        try:
            CQ(context, 16)
        except Exception as error:
            assert error.error_code in (errno.EBADF, errno.EIO), error
        else:
            raise AssertionError(f"the queue was made without {name}")
    assert text(address) == bytes(5)
    print("passed", flush=True)
    os._exit(0)  # pyverbs would close what it still has


def link_of(number: str) -> str:
    path = f"/proc/thread-self/fd/{number}"
    return os.readlink(path) if os.path.islink(path) else ""


def own_stack(pd: PD) -> None:
    """A variable of the calling thread, on a stack that goes on growing."""
    _, end = main_stack()
    with MR(pd, mmap.PAGESIZE, ACCESS, address=end - 2 * mmap.PAGESIZE):
        assert is_shared(end - 2 * mmap.PAGESIZE)


def own_stack_beside_a_thread(pd: PD) -> None:
    """All of the stack, with the library's own variables, while another thread could write to it."""
    start, end = main_stack()
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    MR(pd, end - start, ACCESS, address=start).close()
    done.set()
    thread.join()


def fork_often(before: Callable[[], None] = lambda: None) -> None:
    for number in range(20):
        before()
        child = os.fork()
        if child == 0:
            os._exit(number)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == number


def fork_on_a_registered_stack(pd: PD) -> None:
    """Parent and child do not run on each other's stack."""
    start, end = main_stack()
    with MR(pd, end - start, ACCESS, address=start):
        fork_often()


DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)


@ctypes.CFUNCTYPE(None)
def make_room() -> None:
    """A handler of forks, which libc keeps for ever."""
    resource.setrlimit(resource.RLIMIT_NOFILE, DESCRIPTORS)


def fork_when_the_mappings_cannot_be_read(pd: PD) -> None:
    """Then the stack counts as registered. The first handler of the fork makes room for descriptors again."""
    start, end = main_stack()
    libc.__register_atfork(make_room, None, None, None)
    with MR(pd, end - start, ACCESS, address=start):
        fork_often(before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (0, DESCRIPTORS[1])))


def small_stack(pd: PD) -> None:
    """The stack of a thread that has little of it."""
    attributes = (ctypes.c_char * 64)()
    start, size = ctypes.c_void_p(), ctypes.c_size_t()

    def register() -> None:
        libc.pthread_getattr_np(ctypes.c_void_p(threading.get_ident()), attributes)
        libc.pthread_attr_getstack(attributes, ctypes.byref(start), ctypes.byref(size))
        with MR(pd, mmap.PAGESIZE, ACCESS, address=start.value):
            assert is_shared(start.value)

    threading.stack_size(192 << 10)
    thread = threading.Thread(target=register)
    thread.start()
    thread.join()
    assert size.value == 192 << 10


def child_by_vfork(pd: PD) -> None:
    """It closes all descriptors before it executes a program, and shares memory with its parent until then."""
    with MR(pd, BYTES, ACCESS, address=map_memory()):
        subprocess.run(["true"], check=True)
        address = map_memory()
        with MR(pd, BYTES, ACCESS, address=address):
            assert is_shared(address), "the device still has this process"


def refused_by_the_device(pd: PD) -> None:
    """The memory is as before."""
    address = map_memory()
    ctypes.memmove(address, b"first", 5)
    try:
        MR(pd, BYTES, e.IBV_ACCESS_REMOTE_WRITE, address=address)
    except Exception:
        assert not is_shared(address) and text(address) == b"first"
    else:
        raise AssertionError("remote write without local write was registered")


def file_bytes() -> int:
    """Of the process's memory file, the largest of the library's files."""
    numbers = [number for number in os.listdir("/proc/thread-self/fd") if link_of(number).startswith("/memfd:")]
    return max(os.stat(f"/proc/thread-self/fd/{number}").st_size for number in numbers)


def many(pd: PD) -> None:
    """More registrations than the first window has room for, one after the other: pages come back."""
    for _ in range(40):
        address = libc.mmap(0, 16 << 20, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        MR(pd, 16 << 20, ACCESS, address=address).close()
        libc.munmap(address, 16 << 20)
    assert file_bytes() == 256 << 20, "the first window was enough"


def refused(pd: PD) -> None:
    """Memory that cannot be shared: nothing mapped, and memory that a child of a fork has. Prints where each is."""
    hole = map_memory() + mmap.PAGESIZE
    libc.munmap(hole, mmap.PAGESIZE)
    shared = map_shared()
    end, go = os.pipe()
    if os.fork() == 0:
        os.close(go)
        os.read(end, 1)
        os._exit(0)
    for start, missing in ((hole, hole), (hole - mmap.PAGESIZE, hole), (shared, shared)):
        print(f"{missing:#x}", flush=True)
        expect_refusal(pd, start, errno.EFAULT)


def map_shared(size: int = BYTES) -> int:
    """Anonymous memory, for the program and its children."""
    return libc.mmap(0, size, 3, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, -1, 0)


def anonymous_stays_shared(pd: PD) -> None:
    """Anonymous memory that the program shares is the same for its later children, before and after its deregistration. Memory
    that was there at an earlier fork is refused: that child would keep what the kernel has for it."""
    for size in (mmap.PAGESIZE, BYTES, 1 << 20):
        inherited = map_shared(size)
        assert os.waitpid(child_that(lambda: None), 0)[1] == 0
        expect_refusal(pd, inherited, errno.EFAULT)
        address = map_shared(size)
        ctypes.memmove(address, b"before", 6)
        region = MR(pd, size, ACCESS, address=address)
        for word in (b"first", b"again"):
            assert text(address) == (b"befor" if word == b"first" else b"first")
            child = child_that(lambda word=word: ctypes.memmove(address, word, 5))
            assert os.waitpid(child, 0)[1] == 0
            assert text(address) == word
            region.close()


def anonymous_in_parts(pd: PD) -> None:
    """Memory of which a part is protected is refused: the parts would no longer be one."""
    address = map_shared()
    assert libc.mprotect(address + mmap.PAGESIZE, mmap.PAGESIZE, mmap.PROT_READ) == 0
    expect_refusal(pd, address, errno.EFAULT)


def many_anonymous(pd: PD) -> None:
    """Small pieces share a file, so there may be more of them than files, each with its own bytes."""
    pieces = [map_shared(mmap.PAGESIZE) for _ in range(100)]
    regions = []
    for number, piece in enumerate(pieces):
        ctypes.memmove(piece, f"{number:5}".encode(), 5)
        regions.append(MR(pd, mmap.PAGESIZE, ACCESS, address=piece))
    assert all(text(piece) == f"{number:5}".encode() for number, piece in enumerate(pieces))
    for region in regions:
        region.close()


def child_that(action: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        action()
        os._exit(0)
    return child


def file_stays_shared(pd: PD) -> None:
    """Memory that the program shares by a file is the same for its children, before and after its deregistration."""
    file = os.memfd_create("program")
    os.ftruncate(file, BYTES)
    address = libc.mmap(0, BYTES, 3, mmap.MAP_SHARED, file, 0)
    region = MR(pd, BYTES, ACCESS, address=address)
    for text_of_child in (b"first", b"again"):
        child = os.fork()
        if child == 0:
            ctypes.memmove(address, text_of_child, 5)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert text(address) == os.pread(file, 5, 0) == text_of_child
        region.close()


def file_keeps_its_locks(pd: PD) -> None:
    """A process loses its POSIX locks of a file when it closes any descriptor of it. Registering does not do that."""
    path = f"/dev/shm/pvrdma-test-{os.getpid()}"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, BYTES)
    fcntl.lockf(file, fcntl.LOCK_EX)
    MR(pd, BYTES, ACCESS, address=libc.mmap(0, BYTES, 3, mmap.MAP_SHARED, file, 0)).close()
    child = os.fork()
    if child == 0:
        os.unlink(path)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "the child has locked its parent's file"


def files_refused(pd: PD) -> None:
    """A memory file that cannot be written to, a page behind the end of one, and one file too many."""
    path = f"/dev/shm/pvrdma-test-{os.getpid()}"
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        file = os.open(path, flags)
        if flags == os.O_RDONLY:
            os.unlink(path)
            address = libc.mmap(0, BYTES, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
            expect_refusal(pd, address, errno.EFAULT)
        else:
            os.ftruncate(file, BYTES)
        os.close(file)
    expect_refusal(pd, map_file(BYTES - mmap.PAGESIZE), errno.EFAULT)
    regions = []
    for _ in range(32):
        regions.append(MR(pd, BYTES, ACCESS, address=map_file()))
    expect_refusal(pd, map_file(), errno.ENOMEM)
    for region in regions:
        region.close()


def map_file(size: int = BYTES) -> int:
    """Leaves the descriptor open."""
    file = os.memfd_create("program")
    os.ftruncate(file, size)
    return libc.mmap(0, BYTES, 3, mmap.MAP_SHARED, file, 0)


def expect_refusal(pd: PD, address: int, code: int) -> None:
    try:
        MR(pd, BYTES, e.IBV_ACCESS_REMOTE_READ, address=address)
    except Exception as error:
        assert error.error_code == code, error
    else:
        raise AssertionError(f"{address:#x} was registered")


def other_threads(pd: PD) -> None:
    """Stores of another thread are not lost while memory is registered and deregistered. The thread changes all bytes in one
    long call, because verbs calls of pyverbs let no other thread of Python run. It comes to the registered half late.

    Registrations come at any moment of a round, but not back to back: the thread is stopped during each, and then hardly came on."""
    size = 64 << 20
    half = size // 2
    address = libc.mmap(0, size, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    contents = [bytes(half), bytes([42]) * half]  # memfrob(3) inverts some bits of each byte
    stop = threading.Event()
    rounds, registered, lost = 0, 0, 0
    round_s = 0.0  # what the last round took

    def store() -> None:
        nonlocal rounds, lost, round_s
        while not stop.is_set():
            rounds += 1
            began = time.monotonic()
            libc.memfrob(address, size)
            if libc.memcmp(address + half, contents[rounds % 2], half) != 0:
                lost += 1
                ctypes.memmove(address + half, contents[rounds % 2], half)
            round_s = time.monotonic() - began

    writer = threading.Thread(target=store)
    writer.start()
    while rounds < 12 or registered < 12:
        MR(pd, half, ACCESS, address=address + half).close()
        registered += 1
        time.sleep(random.uniform(0, min(round_s, 1)))
    stop.set()
    writer.join()
    assert lost == 0, f"{lost} of {rounds} rounds, {registered} registrations"


def forbid_userfaultfd() -> None:
    """As the default profiles of containers do."""
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    seccomp.seccomp_init.argtypes = [ctypes.c_uint32]
    seccomp.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
    seccomp.seccomp_load.argtypes = [ctypes.c_void_p]
    allow, refuse = 0x7FFF0000, 0x00050000 | 1
    rules = seccomp.seccomp_init(allow)
    assert seccomp.seccomp_rule_add(rules, refuse, seccomp.seccomp_syscall_resolve_name(b"userfaultfd"), 0) == 0
    assert seccomp.seccomp_load(rules) == 0


def other_threads_in_a_container(pd: PD) -> None:
    """The same where userfaultfd is forbidden; signals that the program itself handles stay its own."""
    forbid_userfaultfd()
    seen = []
    signal.signal(signal.SIGRTMAX, lambda number, frame: seen.append(number))
    other_threads(pd)
    assert not seen


def first_thread_ended(pd: PD) -> None:
    """The program's first thread has ended before the others. The kernel shows it as the process, without memory and files."""
    first = threading.main_thread().native_id

    def go_on() -> None:
        try:
            while open(f"/proc/self/task/{first}/stat").read().rsplit(")", 1)[1].split()[0] != "Z":
                time.sleep(0.001)
            private_again(pd)
            file_stays_shared(pd)
            other_threads(pd)
            small_stack(pd)
            fork(pd)
        except BaseException:  # also an assertion: nobody else ends the process
            traceback.print_exc()
            os._exit(1)
        print("passed", flush=True)
        os._exit(0)

    threading.Thread(target=go_on).start()
    libc.syscall(EXIT, 0)


def first_thread_ended_in_a_container(pd: PD) -> None:
    """The same where userfaultfd is forbidden: nobody waits for that thread."""
    forbid_userfaultfd()
    first_thread_ended(pd)


def a_thread_that_cannot_be_stopped(pd: PD) -> None:
    """It blocks all signals where userfaultfd is forbidden: its stores could be lost, so the memory is not registered."""
    forbid_userfaultfd()
    stop = threading.Event()
    blocked = threading.Event()

    def wait() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        blocked.set()
        stop.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    blocked.wait()
    try:
        MR(pd, BYTES, ACCESS, address=map_memory())
    except Exception as error:
        assert error.error_code == errno.ENOMEM, error
    else:
        raise AssertionError("the memory was registered")
    finally:
        stop.set()
        thread.join()
    MR(pd, BYTES, ACCESS, address=map_memory()).close()


with device.Context(name="vmw_pvrdma0") as context, PD(context) as domain:
    globals()[sys.argv[1]](domain)
print("passed")
