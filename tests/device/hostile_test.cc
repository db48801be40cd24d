// A hostile driver: garbage in rings, work requests and doorbells, and memory that vanishes. Its own objects
// may fail, but the daemon and two correct guests must go on (docs/device.md 9).
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <unistd.h>

#include "device_test.h"

namespace pvrdma::test {
namespace {

// Seeded, so that failures can be reproduced.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

TestbenchOptions three_adapters() {
  TestbenchOptions options{.adapter_count = 3};
  options.driver.ram.seal = driver::GuestRam::Seal::kNone;
  return options;
}

class Hostile : public DeviceTest {
 protected:
  Hostile() : DeviceTest(three_adapters()) { expect_tidy_ = false; }

  void SetUp() override {
    h_ = std::make_unique<RcEndpoint>(device(0), gid_of(0));
    peer_ = std::make_unique<RcEndpoint>(device(1), gid_of(1));
    must(connect(*h_, *peer_, {.timeout = 8, .retry_cnt = 1}));
    honest_a_ = std::make_unique<RcEndpoint>(device(1), gid_of(1));
    honest_b_ = std::make_unique<RcEndpoint>(device(2), gid_of(2));
    must(connect(*honest_a_, *honest_b_));
  }
  void TearDown() override {
    honest_guests_work();
    h_.reset();
    peer_.reset();
    honest_a_.reset();
    honest_b_.reset();
    EXPECT_TRUE(device(1).query_port());
    devices_[0].reset();
    EXPECT_TRUE(eventually([&] { return !host_.info(0).connected; }));
    {
      RcEndpoint again(device(0), gid_of(0));  // afterwards a correct driver can use the adapter
      RcEndpoint other(device(1), gid_of(1));
      must(connect(again, other));
      const Sge sge = again.sge(0, 64);
      ASSERT_TRUE(again.qp->post_send(wr::write(1, one(sge), other.remote())).ok());
      EXPECT_TRUE(await_one(*again.send_cq).ok());
    }
    DeviceTest::TearDown();
  }

  void honest_guests_work() {
    for (std::uint8_t round = 0; round < 5; ++round) {
      honest_a_->fill(0, 9000, round);
      ASSERT_TRUE(honest_b_->recv(round, 0, 9000).ok());
      const Sge sge = honest_a_->sge(0, 9000);
      ASSERT_TRUE(honest_a_->qp->post_send(wr::send(round, one(sge))).ok());
      ASSERT_TRUE(await_one(*honest_a_->send_cq).ok());
      ASSERT_TRUE(await_one(*honest_b_->recv_cq).ok());
      EXPECT_TRUE(honest_b_->holds(0, 9000, round));
    }
  }
  void ring() { must(h_->qp->ring_doorbell(abi::kQpDoorbellSend)); }
  std::uint32_t state() { return must(h_->qp->query()).qp_state; }

  std::unique_ptr<RcEndpoint> h_;
  std::unique_ptr<RcEndpoint> peer_;
  std::unique_ptr<RcEndpoint> honest_a_;
  std::unique_ptr<RcEndpoint> honest_b_;
};

TEST_F(Hostile, send_queue_indices_out_of_range) {
  for (const std::uint32_t index : {128u, 0xffu, 0x8000'0000u, 0xffff'ffffu}) {
    SCOPED_TRACE(index);
    h_->qp->send_ring().state().set_tail(index);
    ring();
    EXPECT_EQ(state(), 6u);
    must(h_->qp->to_reset());
    must(peer_->qp->to_reset());
    must(connect(*h_, *peer_, {.timeout = 8, .retry_cnt = 1}));
  }
  EXPECT_GE(host_.info(0).verbs_counters.invalid_ring_indices, 4u);
}

TEST_F(Hostile, more_than_a_ring_of_requests) {
  h_->qp->send_ring().state().set_tail(127);  // head is 0, the ring has 64 entries
  ring();
  EXPECT_EQ(state(), 6u);
}

TEST_F(Hostile, receive_queue_indices_out_of_range) {
  h_->qp->recv_ring().state().set_tail(0xdead'beef);
  const Sge sge = peer_->sge(0, 8);
  ASSERT_TRUE(peer_->qp->post_send(wr::send(1, one(sge))).ok());
  const WorkCompletion done = await_one(*peer_->send_cq);
  EXPECT_FALSE(done.ok());
  EXPECT_EQ(state(), 6u);
}

TEST_F(Hostile, completion_queue_indices_out_of_range) {
  h_->send_cq->ring().state().set_head(0x0bad'0bad);
  const Sge sge = h_->sge(0, 8);
  ASSERT_TRUE(h_->qp->post_send(wr::write(1, one(sge), peer_->remote())).ok());
  EXPECT_EQ(state(), 6u);
  auto event = device(0).wait_async_event(kPatience);
  while (event && event->type != abi::EventType::kCqErr) event = device(0).wait_async_event(kPatience);
  EXPECT_TRUE(event);
}

TEST_F(Hostile, the_device_does_not_trust_its_own_tail_either) {
  h_->send_cq->ring().state().set_tail(0xffff'fff0);
  const Sge sge = h_->sge(0, 8);
  ASSERT_TRUE(h_->qp->post_send(wr::write(1, one(sge), peer_->remote())).ok());
  (void)state();
}

TEST_F(Hostile, event_ring_indices_out_of_range) {
  must(h_->send_cq->arm());
  const Sge sge = h_->sge(0, 8);
  ASSERT_TRUE(h_->qp->post_send(wr::write(1, one(sge), peer_->remote())).ok());
  // The device has its own directory of the shared region's rings. With a second region the test can change
  // their indices.
  auto region = must(driver::SharedRegion::create(device(0).ram(), 20, device(0).uar_pfn(0)));
  region->async_events().state().set_head(0xffff'ffff);
  region->notifications().state().set_head(0x7777'7777);
  must(device(0).write_register(abi::Register::kDsrLow, static_cast<std::uint32_t>(region->gpa().value)));
  must(device(0).write_register(abi::Register::kDsrHigh,
                                static_cast<std::uint32_t>(region->gpa().value >> 32)));
  must(device(0).write_register(abi::Register::kCtl, 0));
  for (int i = 0; i < 600; ++i) {
    host_.on_shard(0, [&](adapters::ServedAdapter& service) { service.set_link(i % 2 == 1); });
  }
  EXPECT_GE(host_.info(0).device_counters.invalid_event_indices, 1u);
  must(device(0).write_register(abi::Register::kCtl, 2));
}

// 600 events for a ring of 512 that the guest does not read: no event is overwritten, and the rest comes when
// there is room.
TEST_F(Hostile, an_event_ring_that_nobody_reads) {
  while (device(0).poll_async_event()) {
  }
  for (int i = 0; i < 600; ++i) {
    host_.on_shard(0, [&](adapters::ServedAdapter& service) { service.set_link(i % 2 == 1); });
  }
  int events = 0;
  abi::EventType expected = abi::EventType::kPortErr;
  while (auto event = device(0).wait_async_event(std::chrono::milliseconds(300))) {
    EXPECT_EQ(event->type, expected);
    expected = expected == abi::EventType::kPortErr ? abi::EventType::kPortActive : abi::EventType::kPortErr;
    ++events;
  }
  EXPECT_GE(events, 512);
}

TEST_F(Hostile, sge_counts_beyond_everything) {
  for (const std::uint32_t count : {5u, 33u, 255u, 0x1000'0000u, 0xffff'ffffu}) {
    SCOPED_TRACE(count);
    std::byte* element = nullptr;
    ASSERT_EQ(h_->qp->send_ring().begin(element), driver::RingStatus::kReady);
    abi::SendWqeHeader header{};
    header.wr_id = count;
    header.num_sge = count;
    header.opcode = static_cast<std::uint32_t>(abi::Opcode::kRdmaWrite);
    std::memcpy(element, &header, sizeof(header));
    h_->qp->send_ring().commit();
    ring();
    EXPECT_EQ(await_one(*h_->send_cq).status, Status::kLocalQpOperation);
    must(h_->qp->to_reset());
    must(peer_->qp->to_reset());
    must(connect(*h_, *peer_, {.timeout = 8, .retry_cnt = 1}));
  }
}

TEST_F(Hostile, receives_with_sge_counts_beyond_everything) {
  std::byte* element = nullptr;
  ASSERT_EQ(h_->qp->recv_ring().begin(element), driver::RingStatus::kReady);
  const abi::RecvWqeHeader header{7, 0xffff'ffff, 0};
  std::memcpy(element, &header, sizeof(header));
  h_->qp->recv_ring().commit();
  const Sge sge = peer_->sge(0, 8);
  ASSERT_TRUE(peer_->qp->post_send(wr::send(1, one(sge))).ok());
  EXPECT_FALSE(await_one(*peer_->send_cq).ok());
  const WorkCompletion done = await_one(*h_->recv_cq);
  EXPECT_EQ(done.wr_id, 7u);
  EXPECT_EQ(done.status, Status::kLocalQpOperation);
}

// A guest CPU moves the tail for ever, while other guests want their turn.
TEST_F(Hostile, a_send_queue_that_never_ends) {
  for (std::uint32_t slot = 0; slot < 64; ++slot) {
    const Sge sge = h_->sge(0, 64 * 1024);
    driver::SendRequest request = wr::write(slot, one(sge), peer_->remote(), 0);
    request.wqe.num_sge = 1;
    std::memcpy(h_->qp->send_ring().element(slot), &request.wqe, sizeof(request.wqe));
    std::memcpy(h_->qp->send_ring().element(slot) + sizeof(request.wqe), &sge, sizeof(sge));
  }
  std::atomic<bool> stop{false};
  const driver::WorkRing ring_view = h_->qp->send_ring();
  std::thread vcpu([&stop, ring_view] {
    while (!stop.load(std::memory_order_relaxed)) {
      const std::uint32_t head = ring_view.state().head(std::memory_order_acquire);
      ring_view.state().set_tail((head + 60) & 127);
      std::this_thread::yield();
    }
  });
  ring();
  for (int i = 0; i < 20; ++i) honest_guests_work();
  stop.store(true);
  vcpu.join();
  EXPECT_TRUE(device(0).query_port());
  must(h_->qp->to_reset());
}

TEST_F(Hostile, random_bytes_as_work_requests) {
  Random random(20261120);
  for (int round = 0; round < 150; ++round) {
    for (std::uint32_t slot = 0; slot < 64; ++slot) {
      std::byte* element = h_->qp->send_ring().element(slot);
      for (std::uint32_t i = 0; i < h_->qp->send_ring().stride_bytes(); i += 4) {
        const auto word = random();
        std::memcpy(element + i, &word, sizeof(word));
      }
      // Half of them are valid enough to get further.
      if (random() % 2 == 0) {
        const std::uint32_t count = random() % 5;
        const std::uint32_t opcode = random() % 16;
        std::memcpy(element + 8, &count, sizeof(count));
        std::memcpy(element + 16, &opcode, sizeof(opcode));
        const Sge sge = h_->sge(random() % 65536, random() % 65536);
        std::memcpy(element + 80, &sge, sizeof(sge));
      }
    }
    h_->qp->send_ring().state().set_tail(random() % 140);
    ring();
    must(h_->qp->to_reset());
    must(peer_->qp->to_reset());
    must(connect(*h_, *peer_, {.timeout = 8, .retry_cnt = 1}));
  }
}

TEST_F(Hostile, random_doorbells) {
  Random random(7);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t page = random() % 4;
    const std::uint64_t offset = page * 4096 + random() % 4 * 4;
    const auto value = random() & (random() % 2 == 0 ? 0xff00'00ff : 0xffff'ffff);
    (void)device(0).bus().region_write32(driver::Region::kUar, offset, value);
  }
  EXPECT_TRUE(device(0).query_port());
}

TEST_F(Hostile, random_commands) {
  Random random(11);
  std::array<std::uint32_t, abi::kRequestSlotBytes / 4> words{};
  for (int i = 0; i < 5'000; ++i) {
    for (auto& word : words) {
      switch (random() % 4) {
        case 0:
          word = random();
          break;
        case 1:
          word = random() % 8;
          break;
        case 2:
          word = static_cast<std::uint32_t>(device(0).ram().base().value + random() % 4096 * 4096ULL);
          break;
        default:
          word = 1;
          break;
      }
    }
    words[2] = random() % 24;
    if (words[2] == 14 || words[2] == 12) continue;  // keeps the endpoint's own objects
    must(device(0).commands().submit(std::as_bytes(std::span(words))));
  }
}

TEST_F(Hostile, memory_unmapped_under_load) {
  const Sge sge = h_->sge(0, 4096);
  for (std::uint64_t i = 0; i < 20; ++i)
    ASSERT_TRUE(h_->qp->post_send(wr::write(i, one(sge), peer_->remote())).ok());
  const Sge back = peer_->sge(0, 4096);
  must(device(0).bus().dma_unmap(device(0).ram().base().value, device(0).ram().size_bytes()));
  ASSERT_TRUE(peer_->qp->post_send(wr::write(1, one(back), h_->remote())).ok());
  EXPECT_FALSE(await_one(*peer_->send_cq).ok());
  ring();
  must(device(0).bus().dma_map(device(0).ram().base().value, device(0).ram().size_bytes(),
                               device(0).ram().fd(), 0));
}

// The file of guest memory shrinks, so every access of the daemon raises SIGBUS.
TEST_F(Hostile, memory_truncated_under_load) {
  const Sge sge = h_->sge(0, 4096);
  const Sge back = peer_->sge(0, 4096);
  for (std::uint64_t i = 0; i < 5; ++i)
    ASSERT_TRUE(h_->qp->post_send(wr::write(i, one(sge), peer_->remote())).ok());
  const auto bytes = static_cast<off_t>(device(0).ram().size_bytes());
  ASSERT_EQ(::ftruncate(device(0).ram().fd(), 4096), 0);
  (void)h_->qp->ring_doorbell(abi::kQpDoorbellSend);
  (void)device(0).write_register(abi::Register::kRequest, 0);
  ASSERT_TRUE(peer_->qp->post_send(wr::write(1, one(back), h_->remote())).ok());
  EXPECT_FALSE(await_one(*peer_->send_cq).ok());
  EXPECT_TRUE(eventually([&] { return host_.info(0).state == device::AdapterState::kFailed; }));
  ASSERT_EQ(::ftruncate(device(0).ram().fd(), bytes), 0);  // so that the test can destroy its own side
}

}  // namespace
}  // namespace pvrdma::test
