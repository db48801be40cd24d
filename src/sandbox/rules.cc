#include "sandbox/rules.h"

#include <asm/termbits.h>
#include <cerrno>
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pvrdma::sandbox {
namespace {

// Allowed with any arguments. The kernel keeps these calls in a bitmap and runs no filter program for them.
// So the calls between doorbell and completion (recvmsg, sendmsg, epoll_pwait2, io_submit) must stay in this
// list.
constexpr int kAlways[] = {
    // The shard: sockets, interrupts, waiting.
    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_pwait2), SCMP_SYS(recvmsg), SCMP_SYS(sendmsg), SCMP_SYS(recvfrom), SCMP_SYS(sendto),
    SCMP_SYS(recvmmsg), SCMP_SYS(sendmmsg), SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(connect),
    SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(shutdown), SCMP_SYS(getsockname), SCMP_SYS(getpeername),
    SCMP_SYS(getsockopt), SCMP_SYS(setsockopt), SCMP_SYS(socketpair), SCMP_SYS(eventfd2), SCMP_SYS(pipe2),
    SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime), SCMP_SYS(io_setup), SCMP_SYS(io_submit),
    SCMP_SYS(io_getevents), SCMP_SYS(io_pgetevents), SCMP_SYS(io_cancel), SCMP_SYS(io_destroy),
    SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6),
    // Reading and writing open descriptors.
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64), SCMP_SYS(pwrite64),
    SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3),
    SCMP_SYS(fcntl), SCMP_SYS(fstat), SCMP_SYS(fstatfs), SCMP_SYS(memfd_create), SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate), SCMP_SYS(fadvise64),
    // Information about files.
    SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(statfs),
    SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat),
    SCMP_SYS(getdents64), SCMP_SYS(getcwd),
    // Removing socket files when the daemon stops.
    SCMP_SYS(unlink), SCMP_SYS(unlinkat),
    // Memory. allow_memory() has the calls that can make memory executable.
    SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(mincore), SCMP_SYS(msync), SCMP_SYS(brk),
    // Threads, which start and end with API clients and name look-ups.
    SCMP_SYS(futex), SCMP_SYS(futex_waitv), SCMP_SYS(set_robust_list), SCMP_SYS(get_robust_list),
    SCMP_SYS(rseq), SCMP_SYS(membarrier), SCMP_SYS(set_tid_address), SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler), SCMP_SYS(getcpu),
    SCMP_SYS(exit), SCMP_SYS(exit_group),
    // The process's own signals.
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(rt_sigpending), SCMP_SYS(rt_sigsuspend), SCMP_SYS(sigaltstack), SCMP_SYS(pause),
    SCMP_SYS(restart_syscall),
    // Time, the process and the machine.
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(getrandom), SCMP_SYS(getpid), SCMP_SYS(getppid),
    SCMP_SYS(gettid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
    SCMP_SYS(getgroups), SCMP_SYS(getrusage), SCMP_SYS(times), SCMP_SYS(uname), SCMP_SYS(sysinfo)};

constexpr std::uint64_t kThreadFlags = CLONE_THREAD | CLONE_VM | CLONE_SIGHAND;
constexpr std::uint64_t kNamespaceFlags =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// No new executable memory: programs and libraries were mapped before.
void allow_memory(Rules& rules) {
  rules.allow_if(SCMP_SYS(mmap), {is_masked(2, PROT_EXEC, 0)});
  rules.allow_if(SCMP_SYS(mprotect), {is_masked(2, PROT_EXEC, 0)});
}

void allow_threads(Rules& rules) {
  rules.allow_if(SCMP_SYS(clone), {is_masked(0, kThreadFlags | kNamespaceFlags, kThreadFlags)});
  // The flags of clone3 are in memory, where a filter cannot see them. With ENOSYS, libraries fall back to
  // clone.
  rules.add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), {});
  rules.allow_if(SCMP_SYS(tgkill), {is(0, static_cast<std::uint64_t>(::getpid()))});  // abort()
  for (const auto option :
       std::initializer_list<std::uint64_t>{PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_SET_TIMERSLACK}) {
    rules.allow_if(SCMP_SYS(prctl), {is(0, option)});
  }
  rules.allow_if(SCMP_SYS(prlimit64), {is(2, 0)});  // reads limits, sets none
  rules.allow(std::initializer_list<int>{SCMP_SYS(getrlimit)});
}

// glibc reads files, too: to count processors for its allocator, or to translate messages.
void allow_reading_files(Rules& rules) {
  constexpr std::uint64_t kChangesFiles = O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY) | O_ACCMODE;
  rules.allow_if(SCMP_SYS(open), {is_masked(1, kChangesFiles, 0)});
  rules.allow_if(SCMP_SYS(openat), {is_masked(2, kChangesFiles, 0)});
}

void allow_terminal_questions(Rules& rules) {
  for (const auto request : std::initializer_list<std::uint64_t>{FIONREAD, FIONBIO, TCGETS})
    rules.allow_if(SCMP_SYS(ioctl), {is(1, request)});
}

}  // namespace

void Rules::add(std::uint32_t action, int call, std::initializer_list<scmp_arg_cmp> conditions) {
  const int code = seccomp_rule_add_array(filter_, action, call, static_cast<unsigned>(conditions.size()),
                                          conditions.begin());
  if (code != 0 && code_ == 0) code_ = code;
}

Result<void> Rules::outcome() const {
  if (code_ == 0) return {};
  return fail_errno(-code_, "the sandbox's list of system calls cannot be made");
}

void allow_serving(Rules& rules) {
  rules.allow(kAlways);
  rules.allow_if(SCMP_SYS(socket), {is(0, AF_UNIX)});
  allow_memory(rules);
  allow_threads(rules);
  allow_reading_files(rules);
  allow_terminal_questions(rules);
}

}  // namespace pvrdma::sandbox
