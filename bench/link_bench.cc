// RoCE links alone: how many frames per second a link carries to another one of its kind, whose end does not
// sleep, and a frame's round trip when both ends sleep. The path over them (kind roce) is compared with these
// figures. Sender and receiver have a thread each, like two daemons; the receiver of Rate only counts.
//
// stream: a thread between the two ends forwards bytes, like a hub. tap: two taps on a bridge. xdp: the two
// ends of a veth pair. Makes a network namespace, so it needs root.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "benchmark/benchmark.h"

#include "base/check.h"
#include "base/log.h"
#include "base/unix_listener.h"
#include "roce/frame.h"
#include "shard/loop.h"
#include "support/must.h"
#include "support/net_namespace.h"
#include "transport/roce/link.h"

namespace pvrdma::transport::roce {
namespace {

using test::must;
using test::NetNamespace;

using pvrdma::roce::kIcrcBytes;

constexpr std::size_t kHeadBytes = 14 + 20 + 8 + 12;  // of a write's middle packet over IPv4

// The head of such a packet from end `from` (0 or 1) to the other end.
std::array<std::byte, kHeadBytes> head_of(int from, std::size_t payload_bytes) {
  const auto mac = [](int end) { return Mac{{2, 0, 0, 0, 0, static_cast<std::uint8_t>(1 + end)}}; };
  const auto gid = [](int end) {
    return verbs::Gid{
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, static_cast<std::uint8_t>(1 + end)}};
  };
  pvrdma::roce::Frame frame;
  frame.envelope.source_mac = mac(from);
  frame.envelope.destination_mac = mac(1 - from);
  frame.envelope.source = gid(from);
  frame.envelope.destination = gid(1 - from);
  frame.packet.opcode = pvrdma::roce::Opcode::kWriteMiddle;
  std::array<std::byte, pvrdma::roce::kHeadBytesMax> head;
  PVRDMA_CHECK(
      pvrdma::roce::build_head(frame, static_cast<std::uint32_t>(payload_bytes), head.data()) == kHeadBytes,
      "a head of the length that is counted on");
  std::array<std::byte, kHeadBytes> cut;
  std::copy_n(head.begin(), kHeadBytes, cut.begin());
  return cut;
}

// Forwards the bytes of two clients of a UNIX socket to each other.
class Hub {
 public:
  Hub() : path_("/tmp/link_bench." + std::to_string(::getpid())) {
    listener_ = must(UnixListener::listen(path_, {.what = "hub", .mode = 0600, .backlog = 2}));
    thread_ = std::thread([this] { run(); });
  }
  ~Hub() {
    stop_ = true;
    thread_.join();
  }
  const std::string& path() const { return path_; }

 private:
  void run() {
    std::array<Fd, 2> clients;
    for (Fd& each : clients) {
      pollfd waiting{listener_->fd(), POLLIN, 0};
      while (!stop_ && ::poll(&waiting, 1, 10) == 0) {
      }
      each = Fd(::accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC));
    }
    std::array<char, 65536> bytes;
    while (!stop_) {
      std::array<pollfd, 2> fds{{{clients[0].get(), POLLIN, 0}, {clients[1].get(), POLLIN, 0}}};
      if (::poll(fds.data(), fds.size(), 10) <= 0) continue;
      for (std::size_t i = 0; i < fds.size(); ++i) {
        if ((fds[i].revents & POLLIN) == 0) continue;
        const ssize_t got = ::recv(clients[i].get(), bytes.data(), bytes.size(), 0);
        if (got <= 0) return;
        ::send(clients[1 - i].get(), bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
      }
    }
  }

  const std::string path_;
  std::unique_ptr<UnixListener> listener_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// One end: a link and the loop that runs it.
class End : public FrameHandler {
 public:
  explicit End(const LinkName& name) : loop_(must(shard::Loop::create({}, clock_))) {
    link_ = must(open_link(name, *loop_, clock_, *this));
    while (!link_->is_up()) loop_->turn(std::chrono::milliseconds(1));
  }

  void on_frame(std::span<const std::byte> frame, Instant /*now*/) override {
    if (frame.size() < kHeadBytes + kIcrcBytes || frame[0] != std::byte{2}) return;  // a frame of the kernel
    ++received;
    if (!echoes) return;
    std::byte* const place = link_->place();
    std::memcpy(place, frame.data(), frame.size());
    std::swap_ranges(place, place + 6, place + 6);
    link_->send(frame.size());
  }
  void on_burst_end(Instant now) override {
    if (echoes) link_->flush(now);
  }
  void on_room(Instant /*now*/) override {}

  // Sends a frame with a payload of that length and arbitrary contents.
  void send(std::span<const std::byte, kHeadBytes> head, std::size_t payload_bytes) {
    std::byte* place = nullptr;
    while ((place = link_->place()) == nullptr) {
      link_->flush(clock_.now());
      loop_->turn(Duration{0});
    }
    std::memcpy(place, head.data(), head.size());
    link_->send(kHeadBytes + payload_bytes + kIcrcBytes);
  }
  void flush() { link_->flush(clock_.now()); }
  void turn(Duration wait) { loop_->turn(wait); }

  std::atomic<std::uint64_t> received = 0;
  bool echoes = false;

 private:
  SteadyClock clock_;
  std::unique_ptr<shard::Loop> loop_;
  std::unique_ptr<Link> link_;
};

bool make_devices(LinkKind kind, int mtu) {
  const std::string text = " mtu " + std::to_string(mtu);
  if (kind == LinkKind::kXdp) {
    return NetNamespace::ip("link add end0" + text + " type veth peer name end1" + text) &&
           NetNamespace::ip("link set end0 up") && NetNamespace::ip("link set end1 up");
  }
  bool made =
      NetNamespace::ip("link add bridge" + text + " type bridge") && NetNamespace::ip("link set bridge up");
  for (const char* end : {"end0", "end1"}) {
    made = made && NetNamespace::ip(std::string("tuntap add mode tap ") + end) &&
           NetNamespace::ip(std::string("link set txqueuelen 8192 master bridge up") + text + " " + end);
  }
  return made;
}

// Two connected links of one kind, the second in a thread of its own.
class Pair {
 public:
  Pair(LinkKind kind, int mtu, bool echoes) {
    std::array<LinkName, 2> names{{{kind, "end0"}, {kind, "end1"}}};
    if (kind == LinkKind::kStream) {
      hub_ = std::make_unique<Hub>();
      for (LinkName& each : names) each.name = hub_->path();
    } else if (!network_ || !make_devices(kind, mtu)) {
      return;
    }
    near = std::make_unique<End>(names[0]);
    far_ = std::make_unique<End>(names[1]);
    far_->echoes = echoes;
    thread_ = std::thread([this, echoes] {
      while (!stop_) far_->turn(echoes ? std::chrono::milliseconds(10) : Duration{0});
    });
  }
  ~Pair() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::uint64_t arrived() const { return far_->received; }

  std::unique_ptr<End> near;  // null: the devices could not be made

 private:
  const NetNamespace network_;
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<End> far_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

void Rate(benchmark::State& state) {
  const auto kind = static_cast<LinkKind>(state.range(0));
  const auto payload = static_cast<std::size_t>(state.range(1));
  const auto head = head_of(0, payload);
  Pair pair(kind, payload > 1024 ? 9000 : 1500, false);
  if (!pair.near) return state.SkipWithError("network devices need root");
  std::size_t in_burst = 0;
  const std::uint64_t before = pair.arrived();
  const Instant begin = Instant::now();
  for (auto _ : state) {
    pair.near->send(head, payload);
    if (++in_burst % kBurst == 0) pair.near->flush();
  }
  pair.near->flush();
  const double seconds = std::chrono::duration<double>(Instant::now() - begin).count();
  const auto arrived = static_cast<double>(pair.arrived() - before);
  state.SetLabel(std::string(to_text(kind)));
  state.counters["arrived_kpps"] = arrived / seconds / 1e3;
  state.counters["payload_gbps"] = arrived * static_cast<double>(payload) * 8 / seconds / 1e9;
}

constexpr std::size_t kExchangedBytes = 8;

// Sends a frame and waits for its echo. False: it took longer than `longest`.
bool there_and_back(End& near, Duration longest) {
  static const auto kHead = head_of(0, kExchangedBytes);
  const std::uint64_t before = near.received;
  near.send(kHead, kExchangedBytes);
  near.flush();
  const Instant end = Instant::now() + longest;
  while (near.received == before) {
    if (Instant::now() >= end) return false;
    near.turn(longest);
  }
  return true;
}

void RoundTrip(benchmark::State& state) {
  const auto kind = static_cast<LinkKind>(state.range(0));
  Pair pair(kind, 1500, true);
  if (!pair.near) return state.SkipWithError("network devices need root");
  // A device that has just come up may lose frames.
  while (!there_and_back(*pair.near, std::chrono::milliseconds(10))) {
  }
  for (std::uint64_t before = 0; pair.near->received != before;) {
    before = pair.near->received;
    pair.near->turn(std::chrono::milliseconds(50));
  }
  for (auto _ : state) {
    if (!there_and_back(*pair.near, std::chrono::seconds(1))) return state.SkipWithError("a frame was lost");
  }
  state.SetLabel(std::string(to_text(kind)));
}

constexpr std::int64_t kStream = static_cast<std::int64_t>(LinkKind::kStream);
constexpr std::int64_t kTap = static_cast<std::int64_t>(LinkKind::kTap);
constexpr std::int64_t kXdp = static_cast<std::int64_t>(LinkKind::kXdp);

BENCHMARK(Rate)
    ->ArgNames({"kind", "payload"})
    ->ArgsProduct({{kStream, kTap, kXdp}, {1024, 4096}})
    ->UseRealTime()
    ->MinTime(2);
BENCHMARK(RoundTrip)->ArgNames({"kind"})->Args({kStream})->Args({kTap})->Args({kXdp})->UseRealTime();

}  // namespace
}  // namespace pvrdma::transport::roce

int main(int argc, char** argv) {
  pvrdma::log::set_level(pvrdma::log::Level::kWarn);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
