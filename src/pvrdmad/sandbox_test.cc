#include "pvrdmad/sandbox.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/fd.h"
#include "pvrdmad/sandbox_fixture.h"

namespace pvrdma::daemon {
namespace {

TEST(Sandbox, RefusesToStartAProgramWithALineAndEperm) {
  const Outcome outcome = confined({}, [] {
    char* const arguments[] = {const_cast<char*>("true"), nullptr};
    return is_refused(::execv("/bin/true", arguments)) && sandbox::refused_calls() == 1 ? 0 : 1;
  });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.log;
  EXPECT_NE(outcome.log.find("pvrdmad: sandbox: refused system call " + std::to_string(SYS_execve) +
                             " (execve) of thread "),
            std::string::npos)
      << outcome.log;
  EXPECT_NE(outcome.log.find(": it got EPERM; 1 refused so far\n"), std::string::npos) << outcome.log;
  EXPECT_EQ(lines_in(outcome.log), 1U);
}

TEST(Sandbox, RefusesWhatOnlyAnIntruderWants) {
  struct Case {
    const char* what;
    long (*call)();
  };
  static const Case kCases[] = {
      {"mount", [] { return long{::mount("none", "/mnt", "tmpfs", 0, nullptr)}; }},
      {"unshare", [] { return ::syscall(SYS_unshare, CLONE_NEWUSER); }},
      {"setns", [] { return ::syscall(SYS_setns, 0, 0); }},
      {"fork", [] { return ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }},
      {"a thread in a new name space",
       [] {
         return ::syscall(SYS_clone, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND | CLONE_NEWNET, 0, 0, 0, 0);
       }},
      {"process_vm_readv", [] { return ::syscall(SYS_process_vm_readv, ::getppid(), 0, 0, 0, 0, 0); }},
      {"bpf", [] { return ::syscall(SYS_bpf, 0, 0, 0); }},
      {"keyctl", [] { return ::syscall(SYS_keyctl, 0, 0, 0, 0, 0); }},
      {"io_uring_setup", [] { return ::syscall(SYS_io_uring_setup, 1, 0); }},
      {"setuid", [] { return ::syscall(SYS_setuid, 0); }},
      {"another core", [] { return ::syscall(SYS_sched_setaffinity, 0, 0, nullptr); }},
      {"a signal to another process", [] { return ::syscall(SYS_tgkill, ::getppid(), ::getppid(), 0); }},
      {"AF_PACKET", [] { return long{::socket(AF_PACKET, SOCK_DGRAM, 0)}; }},
      {"AF_VSOCK", [] { return long{::socket(AF_VSOCK, SOCK_STREAM, 0)}; }},
      {"a raw socket", [] { return long{::socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)}; }},
      {"netlink for audit", [] { return long{::socket(AF_NETLINK, SOCK_RAW, 9)}; }},
      {"limits", [] { return ::syscall(SYS_prlimit64, 0, 7, "xxxxxxxxxxxxxxxx", 0); }},
      {"executable memory",
       [] {
         void* at = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
         return at == MAP_FAILED ? -1L : 0L;
       }},
      {"memory made executable",
       [] {
         void* at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
         return long{::mprotect(at, 4096, PROT_READ | PROT_EXEC)};
       }},
      {"ptrace", [] { return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); }},
      {"dumping", [] { return ::syscall(SYS_prctl, 4, 1, 0, 0, 0); }},
      {"a file made", [] { return long{::open("/tmp/pvrdma-sandbox-test", O_RDONLY | O_CREAT, 0600)}; }},
      {"a file written", [] { return long{::open("/dev/null", O_WRONLY)}; }},
      {"a temporary file", [] { return long{::open("/tmp", O_TMPFILE | O_RDWR, 0600)}; }},
  };
  for (const Case& each : kCases) {
    const Outcome outcome = confined({}, [&each] { return is_refused(each.call()) ? 0 : 1; });
    EXPECT_EQ(outcome.exit_code, 0) << each.what << ": " << outcome.log;
    EXPECT_EQ(lines_in(outcome.log), 1U) << each.what << ": " << outcome.log;
  }
}

TEST(Sandbox, HoldsForThreadsThatRanBeforeAndAfter) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    std::atomic<bool> go = false;
    std::atomic<int> refused = 0;
    const auto attempt = [&refused](const char* name) {
      ::pthread_setname_np(::pthread_self(), name);
      if (is_refused(::socket(AF_PACKET, SOCK_DGRAM, 0))) ++refused;
    };
    std::thread earlier([&] {
      while (!go) std::this_thread::yield();
      attempt("earlier");
    });
    const bool entered = enter_sandbox({}).has_value();
    go = true;
    earlier.join();
    std::thread(attempt, "later").join();
    ::_exit(entered && refused == 2 ? 0 : 1);
  }
  ::close(ends[1]);
  std::string log;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], bytes, sizeof(bytes))) > 0;) {
    log.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << log;
  EXPECT_NE(log.find("(socket) of thread earlier, arguments 0x11 0x2 0x0 "), std::string::npos) << log;
  EXPECT_NE(log.find("(socket) of thread later, arguments 0x11 0x2 0x0 "), std::string::npos) << log;
}

TEST(Sandbox, WritesABoundedNumberOfLines) {
  const Outcome outcome = confined({}, [] {
    for (int i = 0; i < 5000; ++i) {
      if (!is_refused(::syscall(SYS_bpf, 0, 0, 0))) return 1;
    }
    return sandbox::refused_calls() == 5000 ? 0 : 2;
  });
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(lines_in(outcome.log), 16U + 8U) << "32, 64 ... 4096";
}

TEST(Sandbox, ARefusalDoesNotWaitForWhoeverReadsTheLog) {
  const Outcome outcome = confined({}, [] {
    int full[2];
    if (::pipe2(full, O_NONBLOCK) != 0) return 1;
    char page[4096] = {};
    while (::write(full[1], page, sizeof(page)) > 0) {
    }
    ::fcntl(full[1], F_SETFL, 0);
    ::dup2(full[1], STDERR_FILENO);
    return is_refused(::syscall(SYS_bpf, 0, 0, 0)) ? 0 : 2;
  });
  EXPECT_EQ(outcome.exit_code, 0);
}

TEST(Sandbox, LeavesWhatServingNeeds) {
  const Outcome outcome = confined({}, [] {
    const Fd memory(::memfd_create("ram", MFD_CLOEXEC));
    const Fd event(::eventfd(0, EFD_CLOEXEC));
    const Fd unix_socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Fd tcp(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Fd file(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
    if (!memory || !event || !unix_socket || !tcp || !file || ::ftruncate(memory.get(), 4096) != 0) return 1;
    void* at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    if (at == MAP_FAILED || ::munmap(at, 4096) != 0) return 2;
    bool ran = false;
    std::thread([&ran] { ran = true; }).join();
    return ran && sandbox::refused_calls() == 0 ? 0 : 3;
  });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.log;
  EXPECT_EQ(outcome.log, "");
}

TEST(Sandbox, FilesAreMadeOnlyWhereTheStoreIsOne) {
  const std::string path = testing::TempDir() + "sandbox_test_" + std::to_string(::getpid());
  const auto make = [&path] { return Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) ? 0 : 1; };
  EXPECT_EQ(confined({.open_devices = true}, make).exit_code, 1);
  EXPECT_EQ(
      confined({.open_devices = true}, [] { return Fd(::open("/dev/null", O_RDWR)) ? 0 : 1; }).exit_code, 0);
  EXPECT_EQ(confined({.write_files = true}, make).exit_code, 0);
  std::remove(path.c_str());
}

TEST(Sandbox, ItsUserMayBecomeTheOwnerOfAnOpenFileAndNobodyElseMay) {
  const std::string path = testing::TempDir() + "sandbox_owner_" + std::to_string(::getpid());
  const Fd made(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const Fd file(::open(path.c_str(), O_PATH | O_CLOEXEC));
  const Outcome outcome = confined({}, [&] {
    if (::fchownat(file.get(), "", ::geteuid(), ~gid_t{}, AT_EMPTY_PATH) != 0) return 1;
    if (!is_refused(::fchownat(file.get(), "", ::geteuid() + 1, ~gid_t{}, AT_EMPTY_PATH))) return 2;
    if (!is_refused(::fchownat(file.get(), "", ::geteuid(), ::getegid(), AT_EMPTY_PATH))) return 3;
    if (!is_refused(::fchownat(AT_FDCWD, path.c_str(), ::geteuid(), ~gid_t{}, 0))) return 4;
    return sandbox::refused_calls() == 3 ? 0 : 5;
  });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.log;
  std::remove(path.c_str());
}

TEST(Sandbox, TheKernelSaysSo) {
  const Outcome outcome = confined({}, [] {
    std::ifstream status("/proc/self/status");
    int found = 0;
    for (std::string line; std::getline(status, line);) {
      found += static_cast<int>(line == "NoNewPrivs:\t1") + static_cast<int>(line == "Seccomp:\t2");
    }
    return found == 2 ? 0 : 1;
  });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.log;
}

}  // namespace
}  // namespace pvrdma::daemon
