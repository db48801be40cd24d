// What the API's tests share: fakes of everything that the API asks the daemon, and a cluster member on a
// fake store. Thread: the test's.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <httplib.h>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "api/api_server.h"
#include "api/host_reads.h"
#include "api/routes.h"
#include "base/fd.h"
#include "base/no_such.h"
#include "control/model/edits.h"
#include "control/model/records.h"
#include "control/plane/plane.h"
#include "snapshots/snapshot.h"
#include "support/fake_store.h"

namespace pvrdma::api {

struct FakeSource final : snapshots::SnapshotSource {
  Result<snapshots::Snapshot> take_snapshot(snapshots::SnapshotDetail detail) override {
    ++snapshots_taken;
    if (stopping) return fail(ErrorKind::kUnavailable, "the shard takes no questions now");
    snapshots::Snapshot snapshot;
    snapshots::AdapterSnapshot adapter;
    adapter.name = "VM-01";
    adapter.groups = {{"verbs", {{"tx_bytes", 5}}}};
    adapter.paths = {{"tcp", 3, 300}};
    adapter.budgets = {{Budget::kQps, 3, 64, 1}};
    snapshot.adapters.push_back(adapter);
    snapshot.totals = {{Budget::kQps, 3, 4096, 0}};
    snapshot.shards = {{.cpu = 5,
                        .cpu_us = 70,
                        .busy_percent = 12,
                        .adapters = {"VM-01"},
                        .groups = {{snapshots::kShardCounters, {{"turns", 9}}}}}};
    snapshot.not_served = not_served;
    snapshot.tcp.listening = true;
    snapshot.tcp.peers.push_back({"esx-02", 4, 3, 2, "a lane is down"});
    snapshot.hca = hca;
    if (detail == snapshots::SnapshotDetail::kAdaptersAndQps) {
      snapshots::QpSnapshot qp;
      qp.adapter = "VM-01";
      qp.qpn = 9;
      snapshot.qps.push_back(qp);
      qp.qpn = 10;
      qp.remote_gid = "fe80::2";
      qp.path = "local";
      qp.path_reason = "both are on host esx-01";
      snapshot.qps.push_back(qp);
    }
    return snapshot;
  }
  std::atomic<bool> stopping = false;
  std::atomic<int> snapshots_taken = 0;
  transport::HcaState hca{"mlx5_0", "", {{"esx-02", true, 2, 1, ""}}, 4096};
  std::vector<adapters::AdapterTrouble> not_served;
};

// A stream of `frames` pieces "x", at most 1000. If `frames` is 0: 64 pieces of 64 KiB, which is more than a
// socket holds.
class FakeCapture final : public ByteStream {
 public:
  FakeCapture(std::uint32_t frames, std::shared_ptr<std::atomic<int>> running)
      : piece_(frames == 0 ? std::string(64 * 1024, 'y') : "x"),
        pieces_(frames == 0 ? 64 : std::min(frames, 1000U)),
        running_(std::move(running)) {
    ++*running_;
  }
  ~FakeCapture() override { --*running_; }
  bool read(std::string& out) override {
    out += piece_;
    return --pieces_ != 0;
  }

 private:
  const std::string piece_;
  std::uint32_t pieces_;
  const std::shared_ptr<std::atomic<int>> running_;
};

struct FakeLinks final : adapters::Links {
  Result<void> set(const std::string& adapter, adapters::Link wanted) override {
    if (adapter != "VM-01") return Failure(no_such("adapter", adapter, "adapter"));
    link = wanted;
    return {};
  }
  adapters::Link link = adapters::Link::kUp;
};

struct FakePlacement final : adapters::Placement {
  Result<adapters::Placed> place(const std::string& adapter, std::uint32_t shard) override {
    if (adapter != "VM-01") return Failure(no_such("adapter", adapter, "adapter"));
    if (shard == 7) return fail(ErrorKind::kConflict, "adapter VM-01 stays on its shard");
    return adapters::Placed{.from = 0, .to = shard, .pause = std::chrono::microseconds(1234)};
  }
};

struct FakeCaptures final : adapters::Captures {
  Result<std::unique_ptr<ByteStream>> start(const adapters::CaptureWish& wish) override {
    if (wish.adapter != "VM-01") return fail(ErrorKind::kNotFound, "there is no adapter " + wish.adapter);
    if (wish.filter == "bad") return fail(ErrorKind::kInvalid, "the filter, character 1");
    return std::make_unique<FakeCapture>(wish.frames_max, running);
  }
  std::vector<adapters::CaptureState> list() override { return listed; }
  Result<void> end(std::uint64_t id) override {
    if (std::erase_if(listed, [id](const auto& each) { return each.id == id; }) != 0) return {};
    return fail(ErrorKind::kNotFound, "there is no capture " + std::to_string(id));
  }
  std::vector<adapters::CaptureState> listed;
  std::shared_ptr<std::atomic<int>> running = std::make_shared<std::atomic<int>>(0);
};

struct FakeFaults final : adapters::Faults {
  Result<adapters::FaultState> add(const adapters::FaultWish& wish) override {
    if (wish.adapter != "VM-01") return fail(ErrorKind::kNotFound, "there is no adapter " + wish.adapter);
    if (!faults.empty())
      return fail(ErrorKind::kConflict, "adapter VM-01 has fault 1 already: remove it first");
    faults.push_back({wish, 1, {.messages = 1000, .dropped = 10}});
    return faults.back();
  }
  Result<std::vector<adapters::FaultState>> list() override { return faults; }
  Result<void> remove(std::optional<std::uint64_t> id) override {
    const auto removed = std::erase_if(faults, [id](const auto& each) { return !id || each.id == *id; });
    if (id && removed == 0) return fail(ErrorKind::kNotFound, "there is no fault " + std::to_string(*id));
    return {};
  }
  std::vector<adapters::FaultState> faults;
};

struct FakeHcaChecker final : transport::HcaChecker {
  Result<transport::HcaCheck> check(const transport::HcaCheckWish& wish) override {
    if (wish.device == "none") return fail(ErrorKind::kNotFound, "this host has no RDMA device none");
    return transport::HcaCheck{
        .device = "mlx5_0", .mtu = 4096, .gids = {"fe80::1"}, .memory_mib = wish.memory_mib};
  }
};

struct FakeUpgrades final : motion::UpgradeService {
  Result<motion::UpgradeReport> upgrade(const motion::UpgradeWish& wish) override {
    if (wish.adapter != "VM-01") return fail(ErrorKind::kNotFound, "there is no adapter " + wish.adapter);
    if (wish.monitor == "gone") return fail(ErrorKind::kConflict, "QEMU's monitor cannot be reached at gone");
    using std::chrono::milliseconds, std::chrono::microseconds;
    return motion::UpgradeReport{.vm = "VM-01",
                                 .from = {"10.0.2", 17},
                                 .to = {"11.1.3", 18},
                                 .pause = milliseconds(30),
                                 .qemu = milliseconds(20),
                                 .restore = milliseconds(8),
                                 .adapter = microseconds(500),
                                 .state_bytes = 1234};
  }
};

struct FakeCheckpoints final : motion::CheckpointService {
  Result<std::unique_ptr<ByteStream>> start(const motion::CheckpointWish& wish) override {
    if (wish.adapter != "VM-01") return fail(ErrorKind::kNotFound, "there is no adapter " + wish.adapter);
    return std::make_unique<FakeCapture>(1, running);
  }
  Result<void> finish(const std::string& adapter) override {
    if (adapter != "VM-01") return fail(ErrorKind::kNotFound, "there is no checkpoint of adapter " + adapter);
    return {};
  }
  Result<motion::RestoreReport> restore(const motion::CheckpointWish& wish, std::string_view state) override {
    if (wish.adapter != "VM-01") return fail(ErrorKind::kNotFound, "there is no adapter " + wish.adapter);
    if (state.empty()) return fail(ErrorKind::kInvalid, "it ends before the adapter's last record");
    restored = std::string(state);
    return motion::RestoreReport{"VM-01", {"11.1.3", 18}, std::chrono::milliseconds(400)};
  }
  std::string print_state(std::string_view state) override { return "state of " + std::string(state) + "\n"; }

  std::shared_ptr<std::atomic<int>> running = std::make_shared<std::atomic<int>>(0);
  std::string restored;  // the state that was restored
};

struct FakeMotions final : motion::MotionService {
  Result<motion::MotionState> start(const motion::MotionWish& wish) override {
    if (wish.vm != "VM-01") return fail(ErrorKind::kNotFound, "there is no VM " + wish.vm);
    motion::MotionState& begun = newest.emplace();
    begun.id = "m1";
    begun.vm = wish.vm;
    begun.from = "esx-01";
    begun.to = wish.to;
    begun.state = "runs";
    begun.phase = "memory";
    started = wish;
    return begun;
  }
  Result<void> check(const motion::MotionWish& wish) override {
    if (wish.to == "esx-02") return {};
    return fail(ErrorKind::kConflict, "no path leads to host " + wish.to);
  }
  std::vector<motion::MotionState> list() override {
    return newest ? std::vector{*newest} : std::vector<motion::MotionState>{};
  }
  motion::MotionCounters counters() override { return {.left = 1, .pause_us = 17'192}; }
  Result<void> cancel(const std::string& vm) override {
    if (!newest || newest->vm != vm) return fail(ErrorKind::kNotFound, "VM " + vm + " is not on its way");
    newest->state = "failed";
    return {};
  }

  motion::MotionWish started;
  std::optional<motion::MotionState> newest;
};

// Fakes of everything that the API asks about this host.
struct FakeHost {
  FakeSource source;
  FakeLinks links;
  FakeCaptures captures;
  FakeFaults faults;
  FakeUpgrades upgrades;
  FakeCheckpoints checkpoints;
  FakePlacement placement;
  FakeHcaChecker hca_checker;
  FakeMotions motions;
  HostReads reads{nullptr, HostProof::kNone};

  ApiParts parts(control::Plane* plane = nullptr, std::string sysfs = "/sys") {
    return {.version = "1.2.3",
            .source = source,
            .links = links,
            .captures = captures,
            .faults = faults,
            .upgrades = upgrades,
            .checkpoints = checkpoints,
            .placement = placement,
            .hca_checker = hca_checker,
            .plane = plane,
            .motions = plane != nullptr ? &motions : nullptr,
            .reads = plane != nullptr ? &reads : nullptr,
            .sysfs = std::move(sysfs),
            .why_one_shard = "[daemon] shards is 1"};
  }
};

inline std::string test_path(const std::string& suffix) {
  return testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
         std::to_string(::getpid()) + suffix;
}

inline httplib::Client unix_client(const std::string& path) {
  httplib::Client made(path);
  made.set_address_family(AF_UNIX);
  made.set_default_headers({{"Host", "localhost"}});
  return made;
}

inline Fd connected_to(const std::string& path) {
  Fd connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return connection;
}

// Returns what the server sends for `request` until it ends the connection.
inline std::string answer_to(const std::string& path, const std::string& request) {
  const Fd connection = connected_to(path);
  EXPECT_EQ(::send(connection.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  std::array<char, 4096> piece;
  for (ssize_t got = 0; (got = ::recv(connection.get(), piece.data(), piece.size(), 0)) > 0;) {
    answer.append(piece.data(), static_cast<std::size_t>(got));
  }
  return answer;
}

// A body in pieces. The pauses between them give the server time to answer and to close.
inline httplib::ContentProvider slowly(const std::string& body) {
  return [body](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return sink.write(body.data() + offset, std::min(length, body.size() / 4 + 1));
  };
}

// Host esx-01 is alive and has two vmnics and an RDMA device. esx-02 is known but not alive.
struct FakeMember {
  FakeMember() {
    auto made = std::make_unique<control::FakeStore>(cluster);
    store = made.get();
    plane = control::Plane::start("esx-01", "i-1", std::move(made), nullptr).value();
    control::LiveHost live;
    live.name = "esx-01";
    live.instance = "i-1";
    live.version = "1.2.3";
    live.socket_folder = "/run/pvrdma";
    live.vmnics = {
        {.name = "vmnic0", .netdev = "eth0", .pci_address = "", .driver = "", .mac = "", .description = ""},
        {.name = "vmnic1", .netdev = "eth1", .pci_address = "", .driver = "", .mac = "", .description = ""}};
    live.rdma_devices = {
        {.name = "vmrdma0", .device = "mlx5_0", .driver = "", .paired_uplink = "", .description = ""}};
    cluster->put(control::live_host_key("esx-01"), control::live_host_value(live));
    for (const char* host : {"esx-01", "esx-02"}) {
      EXPECT_TRUE(plane->edit(
          [&](control::Inventory& inventory) { return control::edits::add_host(inventory, host); }));
    }
  }
  std::shared_ptr<control::FakeCluster> cluster = std::make_shared<control::FakeCluster>();
  control::FakeStore* store = nullptr;  // the plane's store
  std::unique_ptr<control::Plane> plane;
};

}  // namespace pvrdma::api
