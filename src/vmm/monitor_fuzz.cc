// Fuzzes what a VMM's monitor says: a QEMU that answers each command with anything.
//
// The input is all that the monitor says, its greeting included; then it hangs up. The fuzzer calls whatever
// the daemon asks of a monitor, one after the other. It checks: Nothing crashes or throws, nothing waits for
// more than is said, a failure has a sentence, and after a failure of a command that is not QEMU's refusal
// the monitor is unusable.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <poll.h>
#include <span>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "base/check.h"
#include "base/unix_listener.h"
#include "vmm/migration.h"
#include "vmm/monitor.h"
#include "vmm/pci.h"

namespace pvrdma::vmm {
namespace {

constexpr PciPlace kPlace{.bus = 0, .slot = 3, .function = 1};

const UnixListener& listener() {
  static const std::unique_ptr<UnixListener> made =
      UnixListener::listen("/tmp/vmm_monitor_fuzz_" + std::to_string(::getpid()),
                           {.what = "the fuzzer's monitor", .mode = 0600, .backlog = 4})
          .value();
  return *made;
}

// Accepts one client, says everything, hangs up and reads until the client has gone.
void serve(std::span<const std::uint8_t> said) {
  pollfd ready{listener().fd(), POLLIN, 0};
  while (::poll(&ready, 1, -1) < 0 && errno == EINTR) {
  }
  const Fd client(::accept4(listener().fd(), nullptr, nullptr, SOCK_CLOEXEC));
  while (client && !said.empty()) {
    const ssize_t sent = ::send(client.get(), said.data(), said.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    said = said.subspan(static_cast<std::size_t>(sent));
  }
  ::shutdown(client.get(), SHUT_WR);
  char ignored[4096];
  while (::recv(client.get(), ignored, sizeof(ignored), 0) > 0) {
  }
}

void expect_sentence(const Error& error) {
  PVRDMA_CHECK(!error.message.empty(), "a failure has a sentence");
  PVRDMA_CHECK(error.code != ETIMEDOUT, "a monitor that has hung up is not waited for");
}

template <typename T>
void check(const Monitor& monitor, bool was_usable, const Result<T>& result) {
  PVRDMA_CHECK(was_usable || (!result && !monitor.works()), "an unusable monitor stays so");
  if (!result) expect_sentence(result.error());
}

// For commands: other questions also fail if an answer, which was one, does not have what they look for.
template <typename T>
void check_command(const Monitor& monitor, bool was_usable, const Result<T>& result) {
  check(monitor, was_usable, result);
  PVRDMA_CHECK(result || result.error().code == EREMOTEIO || !monitor.works(),
               "after a failure that is not QEMU's refusal the monitor is unusable");
}

void ask_everything(Monitor& monitor) {
  const auto ask = [&monitor](const auto& question) {
    const bool was_usable = monitor.works();
    check(monitor, was_usable, question());
  };
  ask([&] { return version_of(monitor); });
  ask([&] { return run_state(monitor); });
  ask([&] { return migration_status(monitor); });
  ask([&] { return migration_capabilities(monitor); });
  ask([&] { return set_migration_capability(monitor, kAutoConverge, true); });
  ask([&] { return migration_settings(monitor); });
  ask([&] { return set_migration_settings(monitor, {.bytes_per_s_max = 1, .downtime_ms = 1}); });
  ask([&] { return find_device(monitor); });
  ask([&] { return disable_vectors(monitor, kPlace); });
  ask([&] { return restore(monitor, kPlace, {}, [] { return Result<void>(); }); });
  const bool was_usable = monitor.works();
  check_command(monitor, was_usable, monitor.human("info status"));
  while (monitor.works()) check_command(monitor, true, monitor.execute("query-status"));
}

void test(std::span<const std::uint8_t> said) {
  std::thread qemu([said] { serve(said); });
  auto monitor = Monitor::connect(listener().path(), Instant::now());
  if (monitor)
    ask_everything(**monitor);
  else
    expect_sentence(monitor.error());
  if (monitor) monitor->reset();
  qemu.join();
}

}  // namespace
}  // namespace pvrdma::vmm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pvrdma::vmm::test({data, size});
  return 0;
}
