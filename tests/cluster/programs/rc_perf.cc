// rc_perf: measures RDMA writes or reads between two adapters with the user-space driver.
//
//   --mode bandwidth  keeps --depth requests of --size bytes under way on each of --connections for
//   --seconds;
//                     prints bytes per second.
//   --mode latency    one request at a time until its completion is seen; prints the median in microseconds.
//
// --read: reads, by the same adapter, instead of writes. --warm-up: seconds of the same load that are not
// counted, for bandwidth, because an RDMA NIC needs time to register memory. --user: uses a user context,
// like an application, whose doorbells are mapped if the adapter's mode is mapped. --spin: polls for
// completions without a pause, instead of sleeping until an event.
//
// The result is a single number on standard output. Exit code 0, or 1 with a sentence.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fmt/core.h>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver/driver.h"
#include "driver/vfio_user_bus.h"
#include "support/must.h"
#include "support/rc_endpoint.h"

namespace pvrdma::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string a;
  std::string b;
  std::string mode = "bandwidth";
  std::uint32_t connections = 4;
  std::uint32_t size = 64 * 1024;
  std::uint32_t depth = 16;
  abi::Mtu path_mtu = abi::Mtu::k1024;
  double seconds = 2;
  double warm_up_seconds = 0;
  bool read = false;
  bool user = false;
  bool spin = false;
};

struct Pair {
  Pair(driver::Device& a, const EndpointOptions& of_a, driver::Device& b, const EndpointOptions& of_b,
       abi::Mtu path_mtu)
      : from(a, gid_of(0), of_a), to(b, gid_of(1), of_b) {
    must(connect(from, to, {.timeout = 15, .first_psn = 0, .path_mtu = path_mtu}));
  }
  RcEndpoint from;
  RcEndpoint to;
};

// Posts `count` requests as one list, with one doorbell.
void post(Pair& pair, const Options& options, std::size_t count) {
  const driver::Sge sge = pair.from.sge(0, options.size);
  const std::vector<driver::SendRequest> list(count, options.read
                                                         ? driver::wr::read(1, {&sge, 1}, pair.to.remote())
                                                         : driver::wr::write(1, {&sge, 1}, pair.to.remote()));
  if (count != 0 && !pair.from.qp->post_send(list).ok()) {
    throw std::runtime_error("a request could not be posted");
  }
}

std::size_t completed(Pair& pair) {
  std::vector<driver::WorkCompletion> done(64);
  const std::size_t count = pair.from.send_cq->poll(done, driver::CompletionQueue::WhenEmpty::kReturn);
  for (std::size_t i = 0; i < count; ++i) {
    if (!done[i].ok()) {
      throw std::runtime_error(
          fmt::format("a request ended with status {}", static_cast<int>(done[i].status)));
    }
  }
  return count;
}

// Sends one request on each connection. The other host may learn of the GIDs a moment later, and drops
// earlier messages.
void warm_up(std::vector<std::unique_ptr<Pair>>& pairs, const Options& options) {
  for (const auto& pair : pairs) {
    post(*pair, options, 1);
    while (completed(*pair) == 0) pair->from.device.wait_notifications(std::chrono::milliseconds(1));
  }
}

double bandwidth(std::vector<std::unique_ptr<Pair>>& pairs, const Options& options) {
  for (const auto& pair : pairs) post(*pair, options, options.depth);
  std::uint64_t requests = 0;
  const auto after = [](Clock::time_point start, double seconds) {
    return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  const Clock::time_point begin = after(Clock::now(), options.warm_up_seconds);
  const Clock::time_point end = after(begin, options.seconds);
  for (Clock::time_point now{}; now < end; now = Clock::now()) {
    std::size_t progress = 0;
    for (const auto& pair : pairs) {
      const std::size_t count = completed(*pair);
      post(*pair, options, count);
      progress += count;
    }
    if (now >= begin) requests += progress;
    // The daemons need the processor more than a loop that finds no completion.
    if (progress == 0 && !options.spin)
      pairs.front()->from.device.wait_notifications(std::chrono::microseconds(100));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return static_cast<double>(requests) * options.size / seconds;
}

double latency(Pair& pair, const Options& options) {
  std::vector<double> times;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(options.seconds));
  while (Clock::now() < end) {
    if (!options.spin) must(pair.from.send_cq->arm());
    const Clock::time_point begin = Clock::now();
    post(pair, options, 1);
    while (completed(pair) == 0) {
      if (!options.spin) pair.from.device.wait_notifications(std::chrono::seconds(1));
    }
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double measure(const Options& options) {
  const auto open = [](const std::string& socket, std::uint32_t index) {
    auto device = must(driver::Device::open(must(driver::VfioUserBus::connect(socket))));
    must(device->bind_gid(0, gid_of(index)));
    return device;
  };
  const auto a = open(options.a, 0);
  const auto b = open(options.b, 1);
  const auto context_of = [&](driver::Device& device) {
    return options.user ? must(driver::Context::create_user(device)) : nullptr;
  };
  const auto context_a = context_of(*a);
  const auto context_b = context_of(*b);
  const auto endpoint = [&](const auto& context) {
    return EndpointOptions{.context = context.get(), .max_send_wr = 128, .buffer_bytes = options.size};
  };
  std::vector<std::unique_ptr<Pair>> pairs;
  for (std::uint32_t i = 0; i < options.connections; ++i) {
    pairs.push_back(
        std::make_unique<Pair>(*a, endpoint(context_a), *b, endpoint(context_b), options.path_mtu));
  }
  warm_up(pairs, options);
  return options.mode == "latency" ? latency(*pairs.front(), options) : bandwidth(pairs, options);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("rc_perf: RDMA writes, or reads, between two adapters");
  app.add_option("--a", options.a, "vfio-user socket of the adapter that asks")->required();
  app.add_option("--b", options.b, "vfio-user socket of the other")->required();
  app.add_option("--mode", options.mode)->check(CLI::IsMember({"bandwidth", "latency"}));
  app.add_option("--connections", options.connections)->check(CLI::Range(1, 64));
  app.add_option("--size", options.size, "bytes of a request")->check(CLI::Range(1, 4 << 20));
  app.add_option("--depth", options.depth, "requests under way on a connection")->check(CLI::Range(1, 128));
  app.add_option("--path-mtu", options.path_mtu, "1024 or 4096 bytes")
      ->transform(CLI::Transformer(
          std::map<std::string, abi::Mtu>{{"1024", abi::Mtu::k1024}, {"4096", abi::Mtu::k4096}}));
  app.add_option("--seconds", options.seconds)->check(CLI::Range(0.1, 600.0));
  app.add_option("--warm-up", options.warm_up_seconds)->check(CLI::Range(0.0, 600.0));
  app.add_flag("--read", options.read, "reads instead of writes");
  app.add_flag("--user", options.user, "in user contexts");
  app.add_flag("--spin", options.spin, "look for completions without a pause");
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("{:.3f}\n", measure(options));
    return 0;
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "rc_perf: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace pvrdma::test

int main(int argc, char** argv) {
  return pvrdma::test::run(argc, argv);
}
