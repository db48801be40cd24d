#include "sandbox/sandbox.h"

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/core.h>
#include <memory>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <string_view>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/log_format.h"

namespace pvrdma::sandbox {
namespace {

constexpr std::uint64_t kLinesAtFirst = 16;
constexpr std::size_t kCallsNamed = 512;
constexpr std::size_t kNameBytes = 32;
constexpr int kArgumentsShown = 4;
constexpr int kBySeccomp = 1;  // SYS_SECCOMP of <linux/signal.h>, which conflicts with glibc's headers

// Globals, because no argument can be passed to the signal handler. The names are written before the filter
// is loaded.
std::atomic<std::uint64_t> refused = 0;
std::atomic<bool> entered = false;
std::array<std::array<char, kNameBytes>, kCallsNamed> names;
std::string_view line_start;  // the journal's priority, if standard error is the journal
std::string_view refusal;

// A line of text, built only with functions that a signal handler may call.
class Line {
 public:
  Line& text(std::string_view part) {
    for (const char c : part) put(c);
    return *this;
  }
  Line& number(std::uint64_t value, unsigned base = 10) {
    std::array<char, 24> digits;
    std::size_t count = 0;
    do {
      digits[count++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    while (count != 0) put(digits[--count]);
    return *this;
  }
  // Drops the line if it would have to wait, because the reader of standard error may have stopped.
  void write() {
    put('\n');
    pollfd out{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&out, 1, 0) != 1) return;
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, bytes_.data(), size_);
  }

 private:
  void put(char c) {
    if (size_ < bytes_.size()) bytes_[size_++] = c;
  }
  std::array<char, 400> bytes_;  // below PIPE_BUF, so that a write is never partial
  std::size_t size_ = 0;
};

#if defined(__x86_64__)
std::uint64_t argument(const ucontext_t& context, int index) {
  constexpr int kRegisters[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
  return static_cast<std::uint64_t>(context.uc_mcontext.gregs[kRegisters[index]]);
}
void set_result(ucontext_t& context, int error) {
  context.uc_mcontext.gregs[REG_RAX] = -error;
}
#elif defined(__aarch64__)
std::uint64_t argument(const ucontext_t& context, int index) {
  return context.uc_mcontext.regs[index];
}
void set_result(ucontext_t& context, int error) {
  context.uc_mcontext.regs[0] = static_cast<std::uint64_t>(-static_cast<std::int64_t>(error));
}
#else
#error "the sandbox does not know where this processor keeps a system call's result"
#endif

void report(const siginfo_t& info, const ucontext_t& context, std::uint64_t count) {
  const auto number = static_cast<std::uint32_t>(info.si_syscall);
  char thread[16] = "";
  ::prctl(PR_GET_NAME, thread);
  Line line;
  line.text(line_start).text(refusal).text(" ").number(number).text(" (");
  line.text(number < kCallsNamed && names[number][0] != 0 ? names[number].data() : "unknown")
      .text(") of thread ");
  line.text(std::string_view(thread, ::strnlen(thread, sizeof(thread)))).text(", arguments");
  for (int i = 0; i < kArgumentsShown; ++i) line.text(" 0x").number(argument(context, i), 16);
  line.text(": it got EPERM; ").number(count).text(" refused so far");
  line.write();
}

// Runs in signal context, in the thread whose call was refused, instead of that call.
void on_sigsys(int /*signal*/, siginfo_t* info, void* raw_context) {
  if (info->si_code != kBySeccomp) return;  // sent by kill(), not by the filter
  const int saved_errno = errno;
  auto& context = *static_cast<ucontext_t*>(raw_context);
  const std::uint64_t count = refused.fetch_add(1, std::memory_order_relaxed) + 1;
  if (count <= kLinesAtFirst || std::has_single_bit(count)) report(*info, context, count);
  errno = saved_errno;
  set_result(context, EPERM);
}

void name_calls() {
  for (std::size_t call = 0; call < kCallsNamed; ++call) {
    const std::unique_ptr<char, decltype(&std::free)> name(
        ::seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, static_cast<int>(call)), &std::free);
    if (name) ::strncpy(names[call].data(), name.get(), kNameBytes - 1);
  }
}

Result<void> install_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_sigsys;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return fail_errno(errno, "installing the SIGSYS handler");
  return {};
}

Result<void> load(scmp_filter_ctx filter, const Program& program) {
  // The filter applies to all threads. Calls of another ABI are refused too. It must not turn on the kernel's
  // slow mitigation of speculative store bypass, because no foreign code runs in this process.
  int code = ::seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
  if (code == 0) code = ::seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_TRAP);
  if (code == 0) code = ::seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
  if (code == 0) ::seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);  // older kernels lack this flag
  if (code == 0) code = ::seccomp_load(filter);
  if (code == 0) return {};
  return fail_errno(-code, fmt::format("the kernel refuses the sandbox's filter: {}", program.way_out));
}

}  // namespace

Result<Confinement> enter(const Program& program, const AddRules& add_rules) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return fail_errno(errno, "the sandbox cannot forbid new privileges");
  }
  if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) return Confinement::kNoSeccomp;
  name_calls();
  refusal = program.refusal;
  if (log::default_format() == log::Format::kJournal) line_start = "<4>";
  if (auto installed = install_handler(); !installed) return Failure(std::move(installed).error());
  const std::unique_ptr<void, decltype(&::seccomp_release)> filter(::seccomp_init(SCMP_ACT_TRAP),
                                                                   &::seccomp_release);
  if (!filter) return fail(ENOMEM, "the sandbox's filter cannot be made: out of memory");
  Rules rules(filter.get());
  add_rules(rules);
  if (auto added = rules.outcome(); !added) return Failure(std::move(added).error());
  if (auto loaded = load(filter.get(), program); !loaded) return Failure(std::move(loaded).error());
  entered.store(true, std::memory_order_relaxed);
  return Confinement::kConfined;
}

bool is_confined() {
  return entered.load(std::memory_order_relaxed);
}

std::uint64_t refused_calls() {
  return refused.load(std::memory_order_relaxed);
}

}  // namespace pvrdma::sandbox
