// idle_guests: one guest for each socket that is named, all in one process. Each has its driver loaded and,
// with --contexts, a verbs process that does nothing. Prints "open" when all are ready, and ends at SIGTERM.
// If it fails, it ends with a sentence.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <fmt/core.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver/context.h"
#include "driver/device.h"
#include "driver/vfio_user_bus.h"
#include "support/must.h"

namespace pvrdma::test {
namespace {

constexpr std::size_t kRamBytes = 4 << 20;

struct Guest {
  std::unique_ptr<driver::Device> device;
  std::unique_ptr<driver::Context> context;  // of the verbs process; null: there is no process
};

Guest open_guest(const std::string& socket, bool with_context) {
  Guest guest;
  guest.device = must(
      driver::Device::open(must(driver::VfioUserBus::connect(socket)), {.ram = {.size_bytes = kRamBytes}}));
  if (with_context) guest.context = must(driver::Context::create_user(*guest.device));
  return guest;
}

int run(int argc, char** argv) {
  std::vector<std::string> sockets;
  bool with_contexts = false;
  CLI::App app("idle_guests: guests that do nothing");
  app.add_option("--adapter", sockets, "the adapters' sockets")->required();
  app.add_flag("--contexts", with_contexts, "each has a verbs process");
  CLI11_PARSE(app, argc, argv);
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  sigprocmask(SIG_BLOCK, &end, nullptr);
  try {
    std::vector<Guest> guests;
    guests.reserve(sockets.size());
    for (const std::string& socket : sockets) guests.push_back(open_guest(socket, with_contexts));
    fmt::print("open\n");
    std::fflush(stdout);
    int caught = 0;
    return sigwait(&end, &caught);
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "idle_guests: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace pvrdma::test

int main(int argc, char** argv) {
  return pvrdma::test::run(argc, argv);
}
