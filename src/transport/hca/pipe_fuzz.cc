// Fuzzes the slots that a peer sends. An engine gets only messages that the rules allow, and a slot that
// breaks a rule ends the pipe. The input is a sequence of slots: length u16 (little endian), bytes.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "support/manual_clock.h"
#include "transport/hca/fake_nic.h"
#include "transport/hca/hca_shared.h"
#include "transport/hca/pipe.h"

namespace pvrdma::transport::hca {
namespace {

struct Taker final : Inbound {
  Delivery on_request(HostId, PathKind, SegmentId segment, const verbs::Request& request,
                      verbs::Payload& payload, Instant) override {
    PVRDMA_CHECK(segment != SegmentId{}, "a message is of a segment");
    PVRDMA_CHECK(payload.bytes() == wire::payload_bytes(request), "the bytes are those of the message");
    return Delivery::kDelivered;
  }
  Delivery on_response(HostId, SegmentId, const verbs::Response& response, verbs::Payload& payload,
                       Instant) override {
    PVRDMA_CHECK(payload.bytes() == response.bytes, "the bytes are those of the message");
    return Delivery::kDelivered;
  }
  Delivery on_datagram(HostId, SegmentId, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                       Instant) override {
    PVRDMA_CHECK(payload.bytes() == datagram.bytes, "the bytes are those of the message");
    return Delivery::kDelivered;
  }
  void on_ready(HostId, Instant) override {}
  void on_restored(HostId, Instant) override {}
  void on_up_changed(HostId, Instant) override {}
};

struct Nobody final : NicUser {
  void on_news(News) override {}
};

// No VM has registered memory.
struct NoServices final : HcaServices {
  void work(std::function<void()> job, std::function<void()> then) override {
    job();
    then();
  }
  void bury(std::unique_ptr<Buried> dead) override { dead.reset(); }
  std::shared_ptr<GuestMemory> memory_of(const verbs::Engine&) override { return nullptr; }
  void give_up_device() override {}
};

void run(Pipe::Role role, std::span<const std::uint8_t> input) {
  test::ManualClock clock;
  FakeNetwork network(1, clock);
  network.set_delay(Duration{0});
  Nobody nobody;
  const verbs::Gid gid{{0xfe, 0x80}};
  network.add("here", kE810, {gid});
  network.add("there", kE810, {gid});
  Taker taker;
  NoServices services;
  HcaShared shared(services, taker, clock);
  shared.make_room(4);
  auto here = PipeEnd::make(network.open("here", nobody).value(), 1024).value();
  auto there = PipeEnd::make(network.open("there", nobody).value(), 1024).value();
  PVRDMA_CHECK(here->connect(gid, gid, there->here()) && there->connect(gid, gid, here->here()), "connected");
  Pipe pipe(shared, role, HostId(2), here, clock.now());
  const auto turn = [&] {
    while (network.run(clock.now())) {
    }
    const bool listed = std::erase(shared.active, &pipe) != 0;
    if (listed) pipe.run(clock.now());
    shared.unflushed.clear();
    pipe.flush(clock.now());
  };
  std::uint32_t slot = 0;
  while (input.size() > 2 && !pipe.broken() && slot < there->slots()) {
    const auto wanted = static_cast<std::size_t>(input[0] | input[1] << 8);
    input = input.subspan(2);
    const std::size_t bytes = std::min({wanted, input.size(), std::size_t{kSlotBytes}});
    std::memcpy(there->send_slot(slot).data(), input.data(), bytes);
    input = input.subspan(bytes);
    PVRDMA_CHECK(there->post_send(slot, static_cast<std::uint32_t>(bytes), slot, false), "posted");
    ++slot;
    turn();
  }
  PVRDMA_CHECK(pipe.broken() || pipe.trouble().empty(), "who is not broken has no trouble");
  PVRDMA_CHECK(network.crimes() == 0, "the device saw nothing that must not be");
  pipe.release().reset();
}

}  // namespace
}  // namespace pvrdma::transport::hca

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using pvrdma::transport::hca::Pipe;
  for (const auto role : {Pipe::Role::kAcceptor, Pipe::Role::kDialler})
    pvrdma::transport::hca::run(role, {data, size});
  return 0;
}
