// Fuzzes connections over RoCE: two engines with one QP each, joined by a Roce. The input decides which
// frames are delivered, lost, duplicated, changed or made up. Each frame gets a valid ICRC.
//
// The input is a sequence of steps, see Step. Invariants: nothing crashes, and each guest's memory changes
// only in its rings and where it allowed the peer to write.
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "roce/frame.h"
#include "support/fuzz_input.h"
#include "transport/roce/fake_link.h"
#include "verbs/engine_fixture.h"

namespace pvrdma::transport::roce {
namespace {

using pvrdma::roce::Frame;
using pvrdma::roce::Packet;
using test::FuzzInput;
using Bytes = FakeLink::Bytes;

constexpr SegmentId kSegment{1, 0};
constexpr std::uint64_t kRamBytes = 384 * 1024;
constexpr std::uint32_t kMrBytes = 10'000;  // ends within a page
constexpr int kStepsMax = 64;
constexpr std::size_t kFramesMost = 512;  // in flight
constexpr std::array<Mac, 2> kMacs{{{{2, 0, 0, 0, 0, 1}}, {{2, 0, 0, 0, 0, 2}}}};

enum class Step : std::uint8_t {
  kSend,     // side@0:1, opcode@1:1, bytes@2:2, place@4:2, key@6:1: a work request
  kReceive,  // side@0:1, bytes@1:2
  kDeliver,  // count@0:1
  kLose,     // count@0:1
  kDouble,
  kSwap,
  kChange,  // changes the next frame
  kPacket,  // side@0:1, opcode@1:1, ahead@2:1, flags@3:1, place@4:4, dma_bytes@8:4, syndrome@12:1, bytes@13:2
  kFrame,   // bytes@0:2 and the frame
  kTime,    // microseconds@0:2
  kNewPath,  // side@0:1
  kCount
};

// One of the two guests.
struct Side {
  Side(std::uint8_t host, std::uint32_t first_psn, std::uint32_t peers_psn)
      : adapter(host, 1, {}, kRamBytes), options{.sq_psn = first_psn, .rq_psn = peers_psn} {
    options.path_mtu = abi::Mtu::k256;
  }

  void connect(const Side& peer) {
    adapter.connect(qp, peer.adapter.endpoint(peer.qp), options);
    adapter.fill(mr, 0, kMrBytes, adapter.gid.bytes[15]);
    const std::byte* const ram = adapter.memory.at(first());
    before.assign(ram, ram + kRamBytes);
  }
  // Checks that only the rings and the memory region were written.
  void check() {
    std::byte* const ram = adapter.memory.at(first());
    const auto forgive = [&](std::uint64_t from, std::uint64_t bytes) {
      std::memcpy(before.data() + (from - first().value), ram + (from - first().value), bytes);
    };
    forgive(rings_begin.value, rings_end.value - rings_begin.value);
    std::uint64_t at = mr.start % guestmem::kPageBytes;
    std::uint64_t left = kMrBytes;
    for (const guestmem::GuestPhys page : mr.pages) {
      const std::uint64_t bytes = std::min(left, guestmem::kPageBytes - at);
      forgive(page.value + at, bytes);
      left -= bytes;
      at = 0;
    }
    PVRDMA_CHECK(std::memcmp(before.data(), ram, kRamBytes) == 0,
                 "memory changes only where the peer may write");
  }
  static guestmem::GuestPhys first() { return guestmem::GuestPhys(test::GuestMemory::kBase); }

  verbs::TestAdapter adapter;
  verbs::ConnectOptions options;
  verbs::TestMr mr = adapter.make_mr(kMrBytes);
  // A memory region to which the peer has no access rights.
  verbs::TestMr hidden = adapter.make_mr(kMrBytes, abi::kAccessLocalWrite);
  guestmem::GuestPhys rings_begin = adapter.memory.pages(1)[0];
  verbs::TestCq cq = adapter.make_cq(32);
  verbs::TestQp qp = adapter.make_qp(cq, cq, {.max_send_wr = 16, .max_recv_wr = 16});
  guestmem::GuestPhys rings_end = adapter.memory.pages(1)[0];
  Traffic traffic;
  std::vector<std::byte> before;
};

class World final : public NativeInbound {
 public:
  World() {
    for (std::size_t i = 0; i < 2; ++i) {
      sides_[i].adapter.wire.open_other = [this, i](const verbs::Connection& ends, verbs::PathSlot& slot) {
        roce_.open({.segment = kSegment, .sender = &sides_[i].adapter.engine, .sender_mac = kMacs[i]}, ends,
                   sides_[i].traffic, slot);
      };
    }
    sides_[0].connect(sides_[1]);
    sides_[1].connect(sides_[0]);
  }

  Admission admit(SegmentId, const verbs::Gid&, const verbs::Gid& destination, const Mac&) override {
    for (Side& side : sides_) {
      if (side.adapter.gid == destination) return {Entry::kAdmitted, &side.adapter.engine};
    }
    return {Entry::kUnknownGid, nullptr};
  }
  void on_room(SegmentId) override {}

  void run(FuzzInput& input) {
    for (int i = 0; i < kStepsMax && !input.empty(); ++i) {
      step(input);
      for (Side& side : sides_) {
        side.adapter.now = now_;
        side.adapter.settle();
        side.adapter.poll_cqes(side.cq);
      }
      roce_.run(now_);
      for (Bytes& frame : link_.sent()) {
        if (frames_.size() < kFramesMost) frames_.push_back(std::move(frame));
      }
    }
    for (Side& side : sides_) side.check();
  }

 private:
  void step(FuzzInput& input) {
    switch (static_cast<Step>(input.byte() % static_cast<unsigned>(Step::kCount))) {
      case Step::kSend:
        return post(input);
      case Step::kReceive: {
        Side& side = side_of(input);
        const std::uint32_t bytes = input.u16() % (kMrBytes + 1);
        return side.adapter.receive(side.qp, {.wr_id = 1, .sges = {side.mr.sge(0, bytes)}});
      }
      case Step::kDeliver:
        for (unsigned count = input.byte(); count != 0 && !frames_.empty(); --count) {
          deliver(frames_.front());
          frames_.erase(frames_.begin());
        }
        return;
      case Step::kLose:
        for (unsigned count = 1 + input.byte() % 8; count != 0 && !frames_.empty(); --count) {
          frames_.erase(frames_.begin());
        }
        return;
      case Step::kDouble:
        if (!frames_.empty()) frames_.push_back(Bytes(frames_.front()));
        return;
      case Step::kSwap:
        if (frames_.size() > 1) std::swap(frames_[0], frames_[1]);
        return;
      case Step::kChange: {
        const std::uint16_t place = input.u16();
        const std::byte value{input.byte()};
        if (frames_.empty()) return;
        frames_.front()[place % frames_.front().size()] ^= value;
        static_cast<void>(pvrdma::roce::seal(frames_.front()));
        return;
      }
      case Step::kPacket:
        return make_up(input);
      case Step::kFrame: {
        const std::uint16_t bytes = input.u16();
        const auto frame = input.take_bytes(bytes);
        return deliver({frame.begin(), frame.end()});
      }
      case Step::kTime:
        now_ = now_ + std::chrono::microseconds(input.u16());
        for (Side& side : sides_) {
          if (side.adapter.engine.next_deadline() <= now_) side.adapter.engine.on_time(now_);
        }
        return;
      case Step::kNewPath:
        ++side_of(input).adapter.wire.generation;
        return;
      case Step::kCount:
        return;
    }
  }

  Side& side_of(FuzzInput& input) { return sides_[input.byte() % 2]; }

  void post(FuzzInput& input) {
    static constexpr std::array kOpcodes{abi::Opcode::kRdmaWrite,      abi::Opcode::kRdmaWriteWithImm,
                                         abi::Opcode::kSend,           abi::Opcode::kSendWithImm,
                                         abi::Opcode::kRdmaRead,       abi::Opcode::kAtomicFetchAndAdd,
                                         abi::Opcode::kAtomicCmpAndSwp};
    const std::size_t at = input.byte() % 2;
    Side& side = sides_[at];
    const Side& peer = sides_[1 - at];
    verbs::SendWr wr{.opcode = kOpcodes[input.byte() % kOpcodes.size()]};
    const std::uint32_t bytes = input.u16() % (kMrBytes + 1);
    const bool is_atomic =
        wr.opcode == abi::Opcode::kAtomicFetchAndAdd || wr.opcode == abi::Opcode::kAtomicCmpAndSwp;
    wr.sges = {side.mr.sge(0, is_atomic ? 8 : bytes)};
    wr.remote_addr = peer.mr.start + input.u16() % 16384;
    wr.rkey = input.byte() % 8 == 0 ? peer.hidden.key : peer.mr.key;
    side.adapter.send(side.qp, wr);
  }

  // Makes up a packet from the other side that is close to what this side expects or has sent.
  void make_up(FuzzInput& input) {
    const std::size_t at = input.byte() % 2;
    Side& from = sides_[at];
    Side& to = sides_[1 - at];
    Frame frame;
    frame.envelope.source = from.adapter.gid;
    frame.envelope.destination = to.adapter.gid;
    frame.envelope.source_mac = kMacs[at];
    frame.envelope.destination_mac = kMacs[1 - at];
    Packet& packet = frame.packet;
    packet.opcode = pvrdma::roce::kOpcodes[input.byte() % pvrdma::roce::kOpcodes.size()].opcode;
    const auto ahead = static_cast<std::int8_t>(input.byte());
    const std::uint8_t flags = input.byte();
    const abi::QpAttr state = *to.adapter.engine.query_qp(to.qp.handle);
    const verbs::Psn near((flags & 1) != 0 ? state.sq_psn : state.rq_psn);
    packet.psn = near + static_cast<std::uint32_t>(ahead);
    packet.ack_request = (flags & 2) != 0;
    if ((flags & 4) != 0) frame.envelope.traffic_class = 3;
    packet.destination = to.qp.qpn;
    packet.source = from.qp.qpn;
    packet.remote_addr = to.mr.start + input.u32() % 16384;
    packet.rkey = (flags & 8) != 0 ? to.hidden.key : to.mr.key;
    packet.invalidate_rkey = packet.rkey;
    packet.dma_bytes = (flags & 16) != 0 ? input.u32() : input.u32() % 16384;
    packet.syndrome = input.byte();
    const Bytes payload((flags & 32) != 0 ? 256 : input.u16() % 300, std::byte{0xa5});
    packet.payload = payload;
    Bytes bytes(pvrdma::roce::kFrameBytesMax);
    bytes.resize(pvrdma::roce::build(frame, bytes.data()));
    deliver(std::move(bytes));
  }

  void deliver(Bytes frame) {
    if (frame.size() < kEthernetHeaderBytes || frame.size() > pvrdma::roce::kFrameBytesMax) return;
    static_cast<void>(pvrdma::roce::seal(frame));
    link_.deliver(frame, now_);
  }

  Roce roce_{*this, {.connections_max = 8}};
  FakeLink& link_ = FakeLink::add(roce_, kSegment);
  std::array<Side, 2> sides_{Side(51, 0xff'fff0, 100), Side(52, 100, 0xff'fff0)};
  std::vector<Bytes> frames_;
  Instant now_{std::chrono::seconds(1)};
};

}  // namespace
}  // namespace pvrdma::transport::roce

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pvrdma::test::FuzzInput input(data, size);
  pvrdma::transport::roce::World().run(input);
  return 0;
}
