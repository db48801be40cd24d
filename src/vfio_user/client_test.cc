// The client against the server, and against servers that break the protocol.
#include "vfio_user/client.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "support/open_fds.h"
#include "vfio_user/fake_handler.h"
#include "vfio_user/raw_peer.h"
#include "vfio_user/server.h"

namespace pvrdma::vfio_user {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ClientTest : public testing::Test {
 protected:
  std::filesystem::path directory_;
  std::string path_;
  FakeHandler device_;  // the test reads it only while the server's thread does not run

  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "vfio_user_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    path_ = (directory_ / "adapter.sock").string();
  }
  void TearDown() override {
    stop();
    std::filesystem::remove_all(directory_);
  }

  void start() {
    auto server = Server::listen(path_, device_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    stopping_ = Fd(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this] { serve(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(stopping_.get(), &one, sizeof(one)), 8);
    thread_.join();
    server_.reset();
  }

  Fd listening() const {
    const auto address = unix_address("vfio-user socket", path_);
    Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    return listener;
  }

  // Listens, answers the first request with `reply` (VERSION included), and holds the session until `stop`.
  void start_wrong_server(const Bytes& after_version, std::optional<Bytes> version = std::nullopt) {
    Fd listener = listening();
    stopping_ = Fd(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this, listener = std::move(listener), after_version, version] {
      RawPeer peer(Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      if (!peer.receive()) return;
      peer.send(version.value_or(message(1, Command::kVersion, version_payload("{}"), kFlagTypeReply)));
      if (!peer.receive()) return;
      if (after_version.empty()) return;  // hangs up
      peer.send(after_version);
      std::uint64_t value = 0;
      EXPECT_EQ(::read(stopping_.get(), &value, sizeof(value)), 8);
    });
  }

 private:
  void serve() {
    while (true) {
      pollfd fds[3] = {{stopping_.get(), POLLIN, 0},
                       {server_->listen_fd(), POLLIN, 0},
                       {server_->seat().fd(),
                        static_cast<short>((server_->seat().wants_write() ? POLLOUT : 0) |
                                           (server_->seat().wants_read() ? POLLIN : 0)),
                        0}};
      ASSERT_GT(::poll(fds, 3, -1), 0);
      if (fds[0].revents != 0) return;
      if (fds[1].revents != 0) server_->on_listen_ready();
      if (fds[2].revents != 0) server_->seat().on_ready(true, true);
    }
  }

  std::unique_ptr<Server> server_;
  Fd stopping_;
  std::thread thread_;
};

// Whether a thread sleeps, and how often it has gone to sleep.
struct Sleep {
  bool asleep = false;
  std::uint64_t times = 0;
  friend bool operator==(const Sleep&, const Sleep&) = default;
};

Sleep sleep_of(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  Sleep sleep;
  for (std::string word; status >> word;) {
    if (word == "State:") sleep.asleep = (status >> word, word == "S");
    if (word == "voluntary_ctxt_switches:") status >> sleep.times;
  }
  return sleep;
}

// Waking the client would take the server's time.
TEST_F(ClientTest, SleepsOnWhileItsRequestIsTaken) {
  const Fd listener = listening();
  std::atomic<pid_t> caller = 0;
  std::jthread thread([&] {
    const auto client = Client::connect(path_);
    ASSERT_TRUE(client) << client.error().message;
    caller = ::gettid();
    EXPECT_TRUE((*client)->reset());
  });
  RawPeer peer(Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  EXPECT_TRUE(peer.receive());
  peer.send(message(1, Command::kVersion, version_payload("{}"), kFlagTypeReply));
  pollfd request{.fd = peer.fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&request, 1, 5000), 1);
  Sleep before;
  while (!before.asleep) before = sleep_of(caller);

  EXPECT_TRUE(peer.receive());
  EXPECT_EQ(sleep_of(caller), before);

  peer.send(message(2, Command::kReset, {}, kFlagTypeReply));
}

TEST_F(ClientTest, EveryCall) {
  start();
  auto connected = Client::connect(path_);
  ASSERT_TRUE(connected) << connected.error().message;
  Client& client = **connected;
  EXPECT_EQ(client.max_transfer_bytes(), 1u << 20);

  const auto info = client.device_info();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->region_count, 9u);
  EXPECT_EQ(info->irq_index_count, 5u);
  EXPECT_TRUE(info->resettable);
  EXPECT_EQ(client.irq_count(2).value(), 3u);

  const auto plain = client.region_info(1);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->info.size, 0x1000u);
  EXPECT_THAT(plain->info.mmap_areas, IsEmpty());
  EXPECT_FALSE(plain->fd);
  const auto mapped = client.region_info(2);
  ASSERT_TRUE(mapped);
  EXPECT_THAT(mapped->info.mmap_areas, ElementsAre(MmapArea{0x1000, 0x1000}));
  EXPECT_EQ(mapped->info.fd_offset, 0x3000u);
  EXPECT_TRUE(mapped->fd);

  std::uint32_t word = 0;
  ASSERT_TRUE(client.region_read(1, 0x10, std::as_writable_bytes(std::span(&word, 1))));
  EXPECT_EQ(word, 0x13121110u);
  ASSERT_TRUE(client.region_write(1, 0x20, std::as_bytes(std::span(&word, 1))));
  ASSERT_TRUE(client.region_write(0, 0x24, std::as_bytes(std::span(&word, 1)), WriteMode::kPosted));

  const Fd memory(::memfd_create("ram", MFD_CLOEXEC));
  const DmaMapRequest ram{
      .iova = 0x10000, .size = 0x4000, .fd_offset = 0x1000, .readable = true, .writable = true};
  ASSERT_TRUE(client.dma_map(ram, memory.get()));
  ASSERT_TRUE(client.dma_map({.iova = 0x20000, .size = 0x1000}, -1));
  ASSERT_TRUE(client.dma_unmap(0x20000, 0x1000));
  ASSERT_TRUE(client.dma_unmap_all());

  const Fd eventfd(::eventfd(0, EFD_CLOEXEC));
  ASSERT_TRUE(client.set_irq_eventfd(2, 1, eventfd.get()));
  ASSERT_TRUE(client.set_irq_eventfd(2, 1, -1));
  ASSERT_TRUE(client.disable_irqs(2));
  ASSERT_TRUE(client.reset());

  stop();
  EXPECT_THAT(device_.calls,
              ElementsAre("connected", "read 1 0x10 4", "write 1 0x20 4", "write 0 0x24 4 posted",
                          "map 0x10000+0x4000 0x1000 rw", "map 0x20000+0x1000 0x0 -- no RAM",
                          "unmap 0x20000+0x1000", "unmap all", "irq 2.1 assigned", "irq 2.1 unassigned",
                          "irqs 2 disabled", "reset", "disconnected: the server stops"));
  EXPECT_EQ(device_.fds.size(), 2u);
  const auto after = client.reset();
  ASSERT_FALSE(after);
  EXPECT_EQ(client.reset().error().code, ENOTCONN);
}

TEST_F(ClientTest, LargestTransfers) {
  start();
  auto client = Client::connect(path_).value();
  std::vector<std::byte> data(0x4000);
  ASSERT_TRUE(client->region_read(0, 0, data));
  EXPECT_EQ(data[0x1234], std::byte{0x34});
  ASSERT_TRUE(client->region_write(0, 0, data));
  data.resize((1u << 20) + 1);
  EXPECT_EQ(client->region_read(0, 0, data).error().code, EMSGSIZE);
  EXPECT_EQ(client->region_write(0, 0, data).error().code, EMSGSIZE);
  // One megabyte reaches the server. The server refuses it because of the region, and the session goes on.
  EXPECT_EQ(client->region_write(0, 0, std::span(data).first(1u << 20)).error().code, EINVAL);
  EXPECT_EQ(client->region_read(0, 0, std::span(data).first(1u << 20)).error().code, EINVAL);
  EXPECT_TRUE(client->reset());
}

TEST_F(ClientTest, TheDevicesErrorsArriveAndTheSessionGoesOn) {
  device_.next_result = EEXIST;
  start();
  auto client = Client::connect(path_).value();
  const auto refused = client->dma_map({.iova = 0, .size = 0x1000}, -1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EEXIST);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr(path_), HasSubstr("DMA_MAP"), HasSubstr("File exists")));
  EXPECT_EQ(client->region_info(12).error().code, EINVAL);
  EXPECT_TRUE(client->reset());
}

TEST_F(ClientTest, ReconnectsOneAfterTheOther) {
  start();
  for (int i = 0; i < 20; ++i) {
    const auto client = Client::connect(path_);
    ASSERT_TRUE(client) << client.error().message;
    EXPECT_TRUE((*client)->reset());
  }
}

// 64 KiB from address 0x10000.
class SmallMemory final : public ClientMemory {
 public:
  std::vector<std::byte> bytes = std::vector<std::byte>(0x10000);

  int read(std::uint64_t address, std::span<std::byte> out) override {
    if (!holds(address, out.size())) return EFAULT;
    std::copy_n(at(address), out.size(), out.begin());
    return 0;
  }
  int write(std::uint64_t address, std::span<const std::byte> data) override {
    if (!holds(address, data.size())) return EFAULT;
    std::ranges::copy(data, at(address));
    return 0;
  }

 private:
  bool holds(std::uint64_t address, std::size_t size) const {
    return address >= 0x10000 && size <= bytes.size() && address - 0x10000 <= bytes.size() - size;
  }
  std::vector<std::byte>::iterator at(std::uint64_t address) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(address - 0x10000);
  }
};

Bytes dma_request(std::uint16_t id, Command command, const wire::DmaAccess& access, std::size_t data_bytes,
                  std::uint32_t flags = 0) {
  Bytes payload = bytes_of(access);
  payload.resize(payload.size() + data_bytes, std::byte{9});
  return message(id, command, payload, flags);
}

// The client answers while it waits for the reply to a write, and in answer_requests().
TEST_F(ClientTest, AnswersWhatTheServerAsksFor) {
  const Fd listener = listening();
  std::jthread server([&] {
    RawPeer peer(Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    ASSERT_TRUE(peer.receive());
    peer.send(message(1, Command::kVersion, version_payload("{}"), kFlagTypeReply));
    const auto write = peer.receive();
    ASSERT_TRUE(write);
    // Before its reply, the server sends a posted write, a write, a read of both, and an access outside the
    // memory.
    peer.send(dma_request(7, Command::kDmaWrite, {0x10000, 4}, 4, kFlagNoReply));
    peer.send(dma_request(8, Command::kDmaWrite, {0x10008, 2}, 2));
    peer.send(dma_request(9, Command::kDmaRead, {0x10000, 12}, 0));
    peer.send(dma_request(10, Command::kDmaRead, {0x1ffff, 2}, 0));
    const auto written = peer.receive();
    ASSERT_TRUE(written);
    EXPECT_EQ(written->header.id, 8);
    EXPECT_EQ(written->payload, bytes_of(wire::DmaAccess{0x10008, 2}));
    const auto read_back = peer.receive();
    EXPECT_EQ(read_back->header.id, 9);
    EXPECT_EQ(read_back->payload,
              bytes_of(wire::DmaAccess{0x10000, 12}, std::uint64_t{0x09090909}, std::uint32_t{0x0909}));
    const auto outside = peer.receive();
    EXPECT_EQ(outside->header.id, 10);
    EXPECT_EQ(outside->header.flags, kFlagTypeReply | kFlagError);
    EXPECT_EQ(outside->header.error, static_cast<std::uint32_t>(EFAULT));
    peer.send(message(write->header.id, Command::kRegionWrite, bytes_of(wire::RegionAccess{0, 1, 4}),
                      kFlagTypeReply));
    // The client also answers while no call waits.
    peer.send(dma_request(11, Command::kDmaRead, {0x10000, 1}, 0));
    EXPECT_EQ(peer.receive()->payload.size(), 17u);
    peer.send(message(12, Command::kDmaRead, Bytes(15)));
    EXPECT_FALSE(peer.receive());
  });
  SmallMemory memory;
  auto client = Client::connect(path_).value();
  client->set_memory(&memory);
  const std::uint32_t word = 1;
  EXPECT_TRUE(client->region_write(1, 0, std::as_bytes(std::span(&word, 1))));
  std::size_t answered = 0;
  while (answered == 0) {
    const auto some = client->answer_requests(Client::kDefaultReplyTimeout);
    ASSERT_TRUE(some) << some.error().message;
    answered += *some;
  }
  EXPECT_EQ(answered, 1u);
  EXPECT_EQ(client->answer_requests(Client::kDefaultReplyTimeout).error().code, EPROTO);
  EXPECT_EQ(client->answer_requests(Duration(0)).error().code, ENOTCONN);
}

// In both directions, more requests than the socket holds, before the server reads.
TEST_F(ClientTest, ReadsAndWritesOfTheServersThatFillTheSocket) {
  auto server = Server::listen(path_, device_).value();
  std::jthread thread([&] {
    SmallMemory memory;
    auto client = Client::connect(path_).value();
    client->set_memory(&memory);
    while (client->answer_requests(Client::kDefaultReplyTimeout)) {
    }
  });
  const auto poll_once = [&] {
    pollfd fds[2] = {
        {server->listen_fd(), POLLIN, 0},
        {server->seat().fd(), static_cast<short>((server->seat().wants_write() ? POLLOUT : 0) | POLLIN), 0}};
    ASSERT_GT(::poll(fds, 2, 5000), 0);
    if (fds[0].revents != 0) server->on_listen_ready();
    server->seat().on_ready(true, true);
  };
  while (!server->seat().can_request()) poll_once();
  const Bytes data(0x10000, std::byte{3});
  int made = 0, done = 0;
  while (done < 100) {
    if (made < 100 && server->seat().can_request()) {
      const auto note = [&](int error, std::span<const std::byte> read) {
        EXPECT_EQ(error, 0);
        EXPECT_TRUE(std::ranges::all_of(read, [](std::byte byte) { return byte == std::byte{3}; }));
        ++done;
      };
      ASSERT_TRUE(made != 0 || server->seat().dma_write_posted(0x10000, data));
      if (!server->seat().can_request()) continue;
      if (server->seat().dma_read(0x10000, 0x10000, note)) {
        ++made;
        continue;
      }
    }
    poll_once();
    if (testing::Test::HasFatalFailure()) break;
  }
  EXPECT_EQ(done, 100);
  server.reset();
}

TEST_F(ClientTest, LeadsAMigration) {
  device_.migrates = kMigrationStopCopy | kMigrationPreCopy;
  device_.logs = true;
  device_.migration_data = (1u << 20) + 5;
  start();
  auto client = Client::connect(path_).value();
  EXPECT_EQ(client->migration_flags().value(), kMigrationStopCopy | kMigrationPreCopy);
  EXPECT_EQ(client->migration_state().value(), MigrationState::kRunning);
  const LogRange range{0x1000, 0x8000};
  EXPECT_EQ(client->start_log(0x2000, std::span(&range, 1)).value(), 4096u);
  EXPECT_EQ(client->log_report(range, 4096).value(), bytes_of(std::uint64_t{1}));
  ASSERT_TRUE(client->set_migration_state(MigrationState::kPreCopy));
  EXPECT_EQ(client->set_migration_state(MigrationState::kError).error().code, EINVAL);
  ASSERT_TRUE(client->set_migration_state(MigrationState::kStopCopy));
  EXPECT_EQ(client->migration_state().value(), MigrationState::kStopCopy);
  Bytes state(1u << 20);
  EXPECT_EQ(client->migration_read(state).value(), state.size());
  EXPECT_EQ(client->migration_read(state).value(), 5u);
  EXPECT_TRUE(client->stop_log());
  ASSERT_TRUE(client->set_migration_state(MigrationState::kResuming));
  EXPECT_TRUE(client->migration_write(state));
  ASSERT_TRUE(client->set_migration_state(MigrationState::kRunning));
  stop();
  EXPECT_THAT(device_.calls,
              ElementsAre("connected", "log 8192 0x1000+0x8000", "report 0x1000+0x8000 4096 8", "state 6",
                          "state 3", "read state 1048576", "read state 1048576", "log off", "state 1",
                          "state 4", "write state 1048576", "state 1", "state 2", testing::_));
}

TEST_F(ClientTest, NobodyThere) {
  const auto client = Client::connect(path_);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, ENOENT);
  EXPECT_THAT(client.error().message, AllOf(HasSubstr(path_), HasSubstr("start it")));
  EXPECT_EQ(Client::connect(std::string(300, 'x')).error().code, ENAMETOOLONG);
}

TEST_F(ClientTest, AServerThatDoesNotAnswer) {
  const Bytes part = {std::byte{1}};
  start_wrong_server(part);
  auto client = Client::connect(path_, std::chrono::milliseconds(50)).value();
  const auto late = client->reset();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ETIMEDOUT);
  EXPECT_THAT(late.error().message, AllOf(HasSubstr("DEVICE_RESET"), HasSubstr("50 ms")));
  EXPECT_EQ(client->reset().error().code, ENOTCONN);
  client.reset();
}

TEST_F(ClientTest, AServerThatHangsUp) {
  start_wrong_server({});
  auto client = Client::connect(path_).value();
  EXPECT_EQ(client->reset().error().code, ECONNRESET);
  EXPECT_EQ(client->reset().error().code, ENOTCONN);
}

TEST_F(ClientTest, WrongRepliesEndTheSession) {
  const auto reply = [](std::uint16_t id, Command command, const Bytes& payload, std::uint32_t flags) {
    return message(id, command, payload, flags);
  };
  const Bytes access = bytes_of(wire::RegionAccess{0, 1, 4});
  const Bytes table[] = {
      reply(3, Command::kRegionRead, bytes_of(wire::RegionAccess{0, 1, 4}, 1), kFlagTypeReply),  // another id
      reply(2, Command::kRegionWrite, bytes_of(wire::RegionAccess{0, 1, 4}, 1), kFlagTypeReply),
      reply(2, Command::kRegionRead, bytes_of(wire::RegionAccess{0, 1, 4}, 1), 0),  // a request, not a reply
      reply(2, Command::kRegionRead, access, kFlagTypeReply),                       // no data
      reply(2, Command::kRegionRead, {}, kFlagTypeReply),
      bytes_of(wire::Header{2, Command::kRegionRead, 5, kFlagTypeReply, 0}),
      Bytes(64, std::byte{0xff}),
  };
  for (const Bytes& row : table) {
    start_wrong_server(row);
    auto client = Client::connect(path_).value();
    std::uint32_t word = 0;
    const auto read = client->region_read(1, 0, std::as_writable_bytes(std::span(&word, 1)));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, EPROTO) << read.error().message;
    EXPECT_EQ(client->reset().error().code, ENOTCONN);
    stop();
    std::filesystem::remove(path_);
  }
}

TEST_F(ClientTest, WrongAnswersToQuestionsEndTheSession) {
  const auto reply = [](Command command, const Bytes& payload) {
    return message(2, command, payload, kFlagTypeReply);
  };
  Bytes longer = bytes_of(wire::RegionInfo{});
  longer.resize(longer.size() + 1);
  Bytes ever_longer = reply(Command::kGetRegionInfo, bytes_of(wire::RegionInfo{.argsz = 64}));
  for (const std::byte next :
       message(3, Command::kGetRegionInfo, bytes_of(wire::RegionInfo{.argsz = 128}), kFlagTypeReply)) {
    ever_longer.push_back(next);
  }
  const struct {
    Bytes reply;
    Error (*ask)(Client& client);
  } table[] = {
      {reply(Command::kGetInfo, bytes_of(wire::DeviceInfo{}, 1)),
       [](Client& client) { return client.device_info().error(); }},
      {reply(Command::kGetIrqInfo, {}), [](Client& client) { return client.irq_count(0).error(); }},
      {reply(Command::kDmaUnmap, Bytes(23)), [](Client& client) { return client.dma_unmap_all().error(); }},
      {reply(Command::kGetRegionInfo, Bytes(31)),
       [](Client& client) { return client.region_info(0).error(); }},
      {ever_longer, [](Client& client) { return client.region_info(0).error(); }},
      {reply(Command::kGetRegionInfo, longer), [](Client& client) { return client.region_info(0).error(); }},
  };
  for (const auto& row : table) {
    start_wrong_server(row.reply);
    auto client = Client::connect(path_).value();
    const Error error = row.ask(*client);
    EXPECT_EQ(error.code, EPROTO) << error.message;
    EXPECT_EQ(client->reset().error().code, ENOTCONN);
    stop();
    std::filesystem::remove(path_);
  }
}

TEST_F(ClientTest, AServerOfAnotherVersion) {
  start_wrong_server({}, message(1, Command::kVersion, version_payload("{}", {1, 0}), kFlagTypeReply));
  const auto client = Client::connect(path_);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, EPROTO);
  EXPECT_THAT(client.error().message, HasSubstr("version 1.0"));
}

TEST_F(ClientTest, NoDescriptorIsLeftOpen) {
  start();
  const std::size_t before = test::count_open_fds();
  {
    auto client = Client::connect(path_).value();
    const auto region = client->region_info(2);
    EXPECT_TRUE(region && region->fd);
    const Fd memory(::memfd_create("ram", MFD_CLOEXEC));
    device_.next_result = EINVAL;
    EXPECT_FALSE(client->region_read(9, 0, std::span<std::byte>()));
  }
  stop();
  device_.fds.clear();
  EXPECT_EQ(test::count_open_fds(), before - 1);  // the server closed the listening socket, too
}

}  // namespace
}  // namespace pvrdma::vfio_user
