// gid_binder: a guest that binds GIDs. It binds ::ffff:ADDRESS and holds it. With --flap it does so again and
// again, each time with another address of its own. With --power it leaves and comes back in between. It
// prints "bound" or "refused" after the first GID, and ends at SIGTERM.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fmt/core.h>
#include <string>
#include <thread>

#include "base/ip_address.h"
#include "driver/device.h"
#include "driver/vfio_user_bus.h"
#include "support/must.h"

namespace pvrdma::test {
namespace {

volatile std::sig_atomic_t stopped = 0;

abi::Gid mapped(const IpAddress& address) {
  abi::Gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  std::copy_n(address.raw().begin(), 4, gid.raw.begin() + 12);
  return gid;
}

struct Options {
  std::string adapter;
  std::string address = "10.9.0.1";
  bool flap = false;
  bool power = false;
};

// One life of the guest. The daemon may refuse a guest that comes back sooner than it can unmap the memory of
// the guest's earlier lives: such a guest tries again.
void live(const Options& options, abi::Gid gid) {
  auto opened = driver::Device::open(must(driver::VfioUserBus::connect(options.adapter)));
  if (!opened && opened.error().code == ENOSPC && options.power) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return;
  }
  const auto device = must(std::move(opened));
  const bool bound = device->bind_gid(0, gid).has_value();
  fmt::print("{}\n", bound ? "bound" : "refused");
  std::fflush(stdout);
  if (options.power) return;
  while (stopped == 0) {
    if (!options.flap) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    static_cast<void>(device->unbind_gid(0, gid));
    ++gid.raw[15];
    static_cast<void>(device->bind_gid(0, gid));
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("gid_binder: a guest that binds GIDs");
  app.add_option("--adapter", options.adapter, "its socket")->required();
  app.add_option("--address", options.address, "an IPv4 address");
  app.add_flag("--flap", options.flap, "bind and unbind in a loop, 256 addresses in turn");
  app.add_flag("--power", options.power, "leave and come back in a loop");
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGTERM, [](int) { stopped = 1; });
  const abi::Gid gid = mapped(IpAddress::parse(options.address).value());
  do {
    live(options, gid);
  } while (options.power && stopped == 0);
  return 0;
}

}  // namespace
}  // namespace pvrdma::test

int main(int argc, char** argv) {
  return pvrdma::test::run(argc, argv);
}
