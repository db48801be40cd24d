// One VMM's attempts to delay the daemon, which its neighbour must not notice. Adapter 1 (B) is served while
// an operation of adapter 0's client (A) cannot end. A is a scripted client, and B is the user-space driver.
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>

#include "base/log_writer.h"
#include "base/unix_listener.h"
#include "device_test.h"
#include "guestmem/mapped_memory.h"
#include "support/lingering_socket.h"
#include "support/open_fds.h"
#include "vfio_user/raw_peer.h"

namespace pvrdma::test {
namespace {

using vfio_user::bytes_of;
using vfio_user::Command;
using vfio_user::message;
using vfio_user::RawPeer;
namespace wire = vfio_user::wire;

std::size_t count_threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

class Neighbour : public DeviceTest {
 protected:
  explicit Neighbour(const Budgets& budgets = {}) : DeviceTest({.budgets = budgets}) {}

  void SetUp() override {
    expect_b_served();
    log::flush(Duration{0});  // starts the log's thread
    EXPECT_TRUE(eventually([&] { return host_.reaper().busy_queues() == 0; }));
    // The thread that closed B's descriptors is about to end.
    for (int same = 0; same < 5; same = count_threads() == threads_before_ ? same + 1 : 0) {
      threads_before_ = count_threads();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    fds_before_ = count_open_fds();
  }
  // Whatever A did, nothing of it may be left.
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return host_.reaper().busy_queues() == 0; }));
    EXPECT_TRUE(eventually([&] { return count_open_fds() == fds_before_; }))
        << count_open_fds() << " descriptors, " << fds_before_ << " before";
    EXPECT_TRUE(eventually([&] { return count_threads() == threads_before_; }))
        << count_threads() << " threads, " << threads_before_ << " before";
    DeviceTest::TearDown();
  }

  // Fails after the driver's own time limit, which is far shorter than A's operations.
  void expect_b_served() {
    EXPECT_EQ(must(device(1).read_register(abi::Register::kVersion)), device(1).version());
    EXPECT_TRUE(device(1).query_port());
  }

  RawPeer connect(std::uint32_t index = 0) {
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = must(unix_address("adapter", host_.socket_path(index)));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return RawPeer(std::move(socket));
  }
  RawPeer connect_and_agree(std::uint32_t index = 0) {
    RawPeer peer = connect(index);
    peer.send(vfio_user::qemu_version());
    EXPECT_TRUE(peer.receive());
    return peer;
  }
  // Sends while the shard cannot receive, so that the descriptor held by `lingering` is closed only in the
  // socket's queue.
  void send_and_forget(RawPeer& peer, const vfio_user::Bytes& bytes, LingeringSocket& lingering) {
    while_the_shard_waits([&] {
      EXPECT_TRUE(peer.send(bytes, {lingering.get()}));
      lingering.forget();
    });
  }
  template <typename Work>
  void while_the_shard_waits(Work work) {
    std::promise<void> waits, go_on;
    std::thread holder([&] {
      host_.on_shard(0, [&](adapters::ServedAdapter&) {
        waits.set_value();
        go_on.get_future().wait();
      });
    });
    waits.get_future().wait();
    work();
    go_on.set_value();
    holder.join();
  }

  // Returns the errno of the reply.
  static std::uint32_t map(RawPeer& peer, std::uint64_t at, std::uint64_t size, int fd) {
    peer.send(message(1, Command::kDmaMap, bytes_of(wire::DmaMap{.flags = 3, .iova = at, .size = size})),
              {fd});
    const auto reply = peer.receive();
    return reply ? reply->header.error : ~0u;
  }

  std::size_t fds_before_ = 0;
  std::size_t threads_before_ = 0;
};

TEST_F(Neighbour, a_descriptor_that_cannot_be_closed_comes_before_version) {
  LingeringSocket lingering;
  RawPeer a = connect();
  send_and_forget(a, vfio_user::qemu_version(), lingering);
  EXPECT_FALSE(a.receive()) << "the session ends";
  expect_b_served();
  EXPECT_EQ(host_.reaper().busy_queues(), 1u) << "and it is still being closed";
  connect_and_agree();
  expect_b_served();
  lingering.let_go();
}

TEST_F(Neighbour, a_descriptor_that_cannot_be_closed_comes_as_memory_and_as_an_interrupt) {
  LingeringSocket memory, interrupt;
  RawPeer a = connect_and_agree();
  send_and_forget(a, message(1, Command::kDmaMap, bytes_of(wire::DmaMap{.flags = 3, .size = 4096})), memory);
  auto reply = a.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.error, static_cast<std::uint32_t>(EOPNOTSUPP));
  expect_b_served();
  send_and_forget(
      a, message(2, Command::kSetIrqs, bytes_of(wire::SetIrqs{.flags = 0x24, .index = 2, .count = 1})),
      interrupt);
  reply = a.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->header.error, static_cast<std::uint32_t>(EINVAL));
  expect_b_served();
  a.close();
  expect_b_served();
  memory.let_go();
  interrupt.let_go();
}

// The kernel closes descriptors in a socket's queue when it closes the socket.
TEST_F(Neighbour, a_descriptor_that_cannot_be_closed_waits_in_the_socket_of_a_client_that_left) {
  LingeringSocket lingering;
  RawPeer a = connect();
  while_the_shard_waits([&] {
    a.send(vfio_user::Bytes(20, std::byte{0xff}));  // ends the session
    EXPECT_TRUE(a.send(vfio_user::Bytes(4), {lingering.get()}));
    lingering.forget();
    a.close();
  });
  expect_b_served();
  EXPECT_EQ(host_.reaper().busy_queues(), 1u);
  lingering.let_go();
}

TEST_F(Neighbour, an_interrupt_is_full_and_was_made_blocking) {
  const Fd full(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ASSERT_TRUE(
      device(0).bus().set_vector_eventfd(static_cast<std::uint32_t>(abi::Vector::kAsyncEvent), full.get()));
  const std::uint64_t most = ~0ull - 1;
  ASSERT_EQ(::write(full.get(), &most, sizeof(most)), 8);
  ASSERT_EQ(::fcntl(full.get(), F_SETFL, 0), 0);
  host_.on_shard(0, [](adapters::ServedAdapter& service) { service.set_link(false); });
  expect_b_served();
  host_.on_shard(0, [](adapters::ServedAdapter& service) { service.set_link(true); });
  std::uint64_t seen = 0;
  ASSERT_EQ(::read(full.get(), &seen, sizeof(seen)), 8);
  EXPECT_GE(seen, most);
  expect_tidy_ = false;  // this driver's own eventfd was not told
  devices_[0].reset();
}

TEST_F(Neighbour, a_vm_dies_with_its_memory) {
  constexpr std::size_t kBytes = 256u << 20;
  Fd ram(::memfd_create("guest-ram", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(ram.get(), 4096ll * kBytes), 0);  // sparse, except for this:
  void* const touched =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ram.get(), 0);
  ASSERT_NE(touched, MAP_FAILED);
  RawPeer a = connect_and_agree();
  ASSERT_EQ(map(a, 0, 16ull * kBytes, ram.get()), 0u);
  ::munmap(touched, kBytes);
  ram.reset();  // QEMU's memory goes before its sockets, so the daemon has the last reference
  a.close();
  EXPECT_TRUE(eventually([&] { return !host_.info(0).connected; }));
  EXPECT_EQ(host_.info(0).dma_ram_bytes, 0u);
  expect_b_served();
}

TEST_F(Neighbour, a_sparse_file_is_mapped_until_the_limit) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer leaves less address space than the limit";
#endif
  constexpr std::uint64_t kSize = 1ull << 40;
  const Fd sparse(::memfd_create("sparse", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(sparse.get(), kSize), 0);
  RawPeer a = connect_and_agree();
  std::uint64_t mapped = 0;
  std::uint32_t error = 0;
  while (mapped < 71 && (error = map(a, mapped * kSize, kSize, sparse.get())) == 0) ++mapped;
  EXPECT_EQ(error, static_cast<std::uint32_t>(ENOSPC));
  EXPECT_EQ(mapped * kSize, guestmem::kDefaultMappedBytes);
  EXPECT_EQ(host_.info(0).dma_ram_bytes, mapped * kSize);
  expect_b_served();
}

// As QEMU does for virtio-mem: a map for each block, and one unmap for all of them.
TEST_F(Neighbour, eight_thousand_maps_come_and_go_at_once) {
  constexpr std::uint64_t kPage = guestmem::kPageBytes;
  constexpr std::uint64_t kSize = guestmem::kMaxRamMaps * kPage;
  const Fd ram(::memfd_create("ram", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(ram.get(), kSize), 0);
  const std::string trouble =
      "the VMM could not share all of its guest's memory: DMA map of 0x1000 bytes at 0x4000000: there are "
      "8192 maps of memory already (boot a guest that has a virtual IOMMU with iommu=pt, give a virtio-mem "
      "device a larger block-size)";
  RawPeer a = connect_and_agree();
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t at = 0; at < kSize; at += kPage) ASSERT_EQ(map(a, 2 * at, kPage, ram.get()), 0u) << at;
    EXPECT_EQ(host_.info(0).trouble, round == 0 ? "" : trouble);
    EXPECT_EQ(map(a, 2 * kSize, kPage, ram.get()), static_cast<std::uint32_t>(ENOSPC));
    EXPECT_EQ(map(a, 3 * kSize, kPage, ram.get()), static_cast<std::uint32_t>(ENOSPC));
    EXPECT_EQ(host_.info(0).trouble, trouble) << "which names the first";
    EXPECT_EQ(host_.info(0).dma_map_count, guestmem::kMaxRamMaps);
    expect_b_served();
    a.send(message(1, Command::kDmaUnmap, bytes_of(wire::DmaUnmap{.iova = 0, .size = 2 * kSize})));
    const auto reply = a.receive();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->header.error, 0u);
    EXPECT_EQ(host_.info(0).dma_map_count, 0u);
    expect_b_served();
  }
  a.send(message(2, Command::kReset, {}));
  ASSERT_TRUE(a.receive());
  EXPECT_EQ(host_.info(0).trouble, "");
}

class BudgetMappings : public Neighbour {
 protected:
  BudgetMappings() : Neighbour({.mappings = 2}) {}
};

TEST_F(BudgetMappings, a_map_beyond_the_budget_is_refused_to_the_vmm) {
  const Fd ram(::memfd_create("ram", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(ram.get(), guestmem::kPageBytes), 0);
  RawPeer a = connect_and_agree();
  LogCapture log;
  for (const std::uint64_t at : {0, 1})
    EXPECT_EQ(map(a, at * guestmem::kPageBytes, guestmem::kPageBytes, ram.get()), 0u);
  EXPECT_EQ(map(a, 1ull << 30, guestmem::kPageBytes, ram.get()), static_cast<std::uint32_t>(ENOSPC));
  EXPECT_NE(log.text().find("adapter test-0's budget (budgets.mappings) allows 2 mappings"),
            std::string::npos)
      << log.text();
  const auto uses = host_.info(0).budgets;
  const auto mappings = std::ranges::find(uses, Budget::kMappings, &BudgetUse::budget);
  ASSERT_NE(mappings, uses.end());
  EXPECT_EQ(mappings->use, 2u);
  EXPECT_EQ(mappings->refused, 1u);
}

TEST_F(Neighbour, two_thousand_clients_come_and_leave) {
  for (int i = 0; i < 2000; ++i) {
    RawPeer a = i % 2 == 0 ? connect_and_agree() : connect();
    if (i % 100 == 0) expect_b_served();
  }
  expect_b_served();
  EXPECT_TRUE(eventually([&] { return !host_.info(0).connected; }));
}

// Each session may leave as many descriptors as a message has, but their total number is bounded.
TEST_F(Neighbour, descriptors_that_cannot_be_closed_pile_up_until_nobody_is_let_in) {
  LingeringSocket lingering;
  RawPeer first = connect();
  send_and_forget(first, vfio_user::qemu_version(), lingering);
  EXPECT_FALSE(first.receive());
  const Fd eventfd(::eventfd(0, EFD_CLOEXEC));
  bool let_in = true;
  for (int i = 0; i < 40 && let_in; ++i) {
    RawPeer a = connect();
    a.send(vfio_user::qemu_version(), std::vector<int>(253, eventfd.get()));
    pollfd end{a.fd(), POLLIN, 0};
    let_in = ::poll(&end, 1, 500) == 1;
    expect_b_served();
  }
  EXPECT_FALSE(let_in);
  EXPECT_LE(count_open_fds(), fds_before_ + ReaperQueue::kDescriptors);
  lingering.let_go();
  EXPECT_TRUE(eventually([&] { return host_.reaper().busy_queues() == 0; }));
  connect_and_agree();  // as soon as the server accepts again
}

// B's memory and interrupts need descriptors, so other clients must not use up all numbers.
TEST_F(Neighbour, clients_do_not_take_the_last_descriptors) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Fd ram(::memfd_create("more-ram", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(ram.get(), 4096), 0);
  const auto limit = static_cast<rlim_t>(fds_before_ + 5);
  const rlimit few{.rlim_cur = limit, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  RawPeer a = connect();
  a.send(vfio_user::qemu_version());
  EXPECT_FALSE(a.receive()) << "sent away: the numbers left are for the clients there are";
  EXPECT_TRUE(device(1).bus().dma_map(1ull << 40, 4096, ram.get(), 0));
  EXPECT_TRUE(device(1).bus().dma_unmap(1ull << 40, 4096));
  expect_b_served();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace pvrdma::test
