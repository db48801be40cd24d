// Fuzzes an adapter from the guest's side. The fuzzer controls memory, command slots, registers and
// doorbells.
//
// First the guest starts normally and makes, at known places, some objects of each kind (kernel and user), so
// that the fuzzer's commands have targets. Input: one byte of options (hardware version, whether the QPs are
// at RTS, whether doorbells are mapped), then records of op@0:1, size@1:2 and `size` bytes, see Op. The
// fuzzer checks: Nothing crashes, and every call keeps its time bound. A response interrupt comes exactly
// when ERR is 0 and the command has a response. A doorbell in memory is taken as long as its context must
// exist.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <span>

#include "base/log.h"
#include "device/capabilities.h"
#include "device/fake_doorbells.h"
#include "device/fake_guest.h"
#include "support/fuzz_input.h"

namespace pvrdma::device {
namespace {

using test::FakeGuest;
using Input = test::FuzzInput;

enum class Op : std::uint8_t {
  kWriteMemory,   // offset@0:4 (modulo the RAM), bytes
  kCommand,       // up to 184 bytes of the command slot, then REQUEST
  kPatchCommand,  // offset@0:1, bytes: changes the last command in the slot, then REQUEST
  kRegister,      // offset@0:2, bytes of any width
  kDoorbell,      // page@0:2, offset@2:2, bytes of any width
  kConfig,        // offset@0:1, bytes
  kRun,           // milliseconds@0:1
  kRequest,       // a peer's message: a verbs::Request as it lies in memory, with its enumerations made valid
  kDatagram,      // a verbs::Datagram in the same form
  kResponse,      // a verbs::Response in the same form
  kUnmap,         // removes the RAM; the next one adds it again
  kStore,         // page@0:2, offset@2:2, bytes: into the mapped doorbell pages
  kHole,          // page@0:2, pages@2:2: punched into their memory
  kCount
};

constexpr std::uint64_t kRamBytes = 2u << 20;
constexpr std::uint32_t kRecordsMax = 64;
constexpr std::uint32_t kUserPage = 1;
constexpr std::size_t kStoreBytesMax = 64;

class Harness {
 public:
  Harness(HardwareVersion version, bool ready_to_send, DoorbellMode doorbells)
      : guest_(config_of(version, doorbells), kRamBytes) {
    guest_.bring_up();
    version_ = version;
    if (doorbells == DoorbellMode::kMapped) pages_.emplace(guest_.adapter());
    const std::uint32_t context = guest_.create_uc(kUserPage);
    bind_gid();
    for (const std::uint32_t owner : {0u, context}) make_objects(owner, ready_to_send);
  }

  void step(Op op, Input input) {
    context_may_be_gone_ |= op == Op::kCommand || op == Op::kPatchCommand || op == Op::kRegister ||
                            op == Op::kConfig || op == Op::kUnmap;
    switch (op) {
      case Op::kWriteMemory: {
        const std::uint64_t offset = input.take<std::uint32_t>() % kRamBytes;
        const auto bytes = input.take_bytes(kRamBytes - offset);
        std::memcpy(guest_.ram().data() + offset, bytes.data(), bytes.size());
        return;
      }
      case Op::kCommand: {
        std::array<std::byte, abi::kRequestSlotBytes> slot{};
        const auto bytes = input.take_bytes(slot.size());
        std::memcpy(slot.data(), bytes.data(), bytes.size());
        guest_.store(guest_.region.cmd_slot_dma, slot);
        request();
        return;
      }
      case Op::kPatchCommand: {
        auto slot = guest_.load<std::array<std::byte, abi::kRequestSlotBytes>>(guest_.region.cmd_slot_dma);
        const std::size_t offset = input.take<std::uint8_t>() % slot.size();
        const auto bytes = input.take_bytes(slot.size() - offset);
        std::memcpy(slot.data() + offset, bytes.data(), bytes.size());
        guest_.store(guest_.region.cmd_slot_dma, slot);
        request();
        return;
      }
      case Op::kRegister: {
        const std::uint64_t offset = input.take<std::uint16_t>() % abi::kRegisterBarBytes;
        const auto bytes = input.take_bytes(std::min<std::uint64_t>(16, abi::kRegisterBarBytes - offset));
        if (bytes.empty()) return;
        guest_.adapter().region_write(1, offset, bytes, false);
        std::array<std::byte, 16> out{};
        guest_.adapter().region_read(1, offset, std::span(out).first(bytes.size()));
        return;
      }
      case Op::kDoorbell: {
        const std::uint64_t size = uar_bar_bytes(1024);
        const std::uint64_t offset =
            (std::uint64_t{input.take<std::uint16_t>()} * abi::kUarPageBytes + input.take<std::uint16_t>()) %
            size;
        const auto bytes = input.take_bytes(std::min<std::uint64_t>(128, size - offset));
        if (!bytes.empty()) guest_.adapter().region_write(2, offset, bytes, false);
        return;
      }
      case Op::kConfig: {
        const std::uint64_t offset = input.take<std::uint8_t>();
        const auto bytes = input.take_bytes(kPciConfigBytes - offset);
        if (!bytes.empty()) guest_.adapter().region_write(7, offset, bytes, false);
        return;
      }
      case Op::kRun:
        run(input.take<std::uint8_t>());
        return;
      case Op::kRequest:
        peer_request(input);
        return;
      case Op::kDatagram:
        peer_datagram(input);
        return;
      case Op::kResponse:
        peer_response(input);
        return;
      case Op::kUnmap:
        flip_mapping();
        return;
      case Op::kStore: {
        if (!pages_) return;
        const std::size_t at = place_in_pages(input);
        const auto bytes = input.take_bytes(std::min(kStoreBytesMax, pages_->all().size() - at));
        std::copy(bytes.begin(), bytes.end(), pages_->all().data() + at);
        return;
      }
      case Op::kHole: {
        if (!pages_) return;
        const std::size_t page = input.take<std::uint16_t>();
        const std::size_t count = 1 + input.take<std::uint16_t>();
        PVRDMA_CHECK(::fallocate(pages_->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 static_cast<off_t>(page * abi::kUarPageBytes),
                                 static_cast<off_t>(count * abi::kUarPageBytes)) == 0,
                     "its seals allow it");
        return;
      }
      case Op::kCount:
        return;
    }
  }

  // A doorbell is taken whatever else is in the pages, runs or waits.
  void expect_doorbells_taken() {
    if (!pages_ || context_may_be_gone_ || guest_.adapter().info().state != AdapterState::kActive) return;
    guest_.clock.advance(std::chrono::seconds(1));  // so that no rate holds it back
    for (const abi::UarWord which : {abi::UarWord::kQp, abi::UarWord::kCq}) {
      pages_->word(kUserPage, which) = abi::kDoorbellHandleMask;
      guest_.adapter().run(guest_.clock.now());
      PVRDMA_CHECK(pages_->word(kUserPage, which) == 0, "a doorbell in memory is taken");
    }
  }

 private:
  static AdapterConfig config_of(HardwareVersion version, DoorbellMode doorbells) {
    auto config = test::some_adapter(version);
    config.doorbells = doorbells;
    config.limits = limits_of(version, Profile::kOpen);
    config.limits->max_qp = 256;  // small tables, because each input needs a new adapter
    config.limits->max_cq = 256;
    config.limits->max_mr = 256;
    config.limits->max_pd = 64;
    return config;
  }

  void bind_gid() {
    abi::CreateBindRequest request{};
    request.mtu = 1024;
    request.vlan = 0xfff;
    request.new_gid.raw = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0x50, 0x56, 0xff, 0xfe, 1, 2, 3};
    request.gid_type = static_cast<std::uint8_t>(default_roce(version_));
    PVRDMA_CHECK(guest_.command(abi::Command::kCreateBind, request) == 0, "a GID is bound");
    gid_ = verbs::Gid{request.new_gid.raw};
  }

  // A PD, a CQ, an MR of four pages, an RC QP connected to its own number, and a UD QP.
  void make_objects(std::uint32_t context, bool ready_to_send) {
    const std::uint32_t pd = guest_.create_pd(context);
    const auto cq = guest_.create_cq(context);
    const auto data = guest_.pages(4);
    abi::CreateMrRequest mr{};
    mr.start = data.at[0];
    mr.length = 4 * abi::kPageBytes;
    mr.pdir_dma = data.directory;
    mr.pd_handle = pd;
    mr.access_flags = 0xf;
    mr.nchunks = 4;
    PVRDMA_CHECK(guest_.command(abi::Command::kCreateMr, mr) == 0, "CREATE_MR");
    for (const abi::QpType type : {abi::QpType::kRc, abi::QpType::kUd}) {
      const auto rings = guest_.pages(3);
      PVRDMA_CHECK(
          guest_.command(abi::Command::kCreateQp, guest_.qp_request(pd, cq.handle, rings, type)) == 0,
          "CREATE_QP");
      const auto qpn = guest_.response<abi::CreateQpResponse>().qpn;
      const std::uint32_t handle =
          separates_qp_handle(version_) ? guest_.response<abi::CreateQpResponseV2>().qp_handle : qpn;
      if (ready_to_send) make_ready(handle, qpn, type);
    }
  }

  void make_ready(std::uint32_t handle, std::uint32_t qpn, abi::QpType type) {
    const bool rc = type == abi::QpType::kRc;
    abi::ModifyQpRequest modify{};
    modify.qp_handle = handle;
    modify.attrs.port_num = 1;
    modify.attrs.qp_access_flags = 0xf;
    modify.attrs.path_mtu = 3;
    modify.attrs.dest_qp_num = qpn;
    modify.attrs.ah_attr.grh.dgid.raw = gid_.bytes;
    modify.attrs.ah_attr.ah_flags = abi::kAhGrh;
    modify.attrs.ah_attr.port_num = 1;
    modify.attrs.max_dest_rd_atomic = 4;
    modify.attrs.max_rd_atomic = 4;
    modify.attrs.timeout = 10;
    modify.attrs.retry_cnt = 2;
    modify.attrs.rnr_retry = 2;
    const std::uint32_t masks[] = {rc ? 0x39u : 0x71u, rc ? 0x129181u : 0x1u, rc ? 0x12e01u : 0x10001u};
    for (std::uint32_t state = 1; state <= 3; ++state) {
      modify.attr_mask = masks[state - 1];
      modify.attrs.qp_state = state;
      PVRDMA_CHECK(guest_.command(abi::Command::kModifyQp, modify) == 0, "MODIFY_QP");
    }
  }

  void request() {
    guest_.interrupts(abi::Vector::kResponse);
    const auto header = guest_.load<abi::RequestHeader>(guest_.region.cmd_slot_dma);
    const bool active = guest_.adapter().info().state == AdapterState::kActive;
    guest_.write_register(abi::Register::kRequest, 0);
    const bool accepted = guest_.read_register(abi::Register::kErr) == 0;
    const auto command = abi::parse_command(header.cmd);
    const bool expected = accepted && command && abi::expects_response(*command);
    // Checked only in the plain case: the fuzzer may have masked interrupts or moved the slots.
    const bool plain = guest_.read_register(abi::Register::kImr) == 0 && active && !unmapped_ && same_slots();
    PVRDMA_CHECK(!plain || (guest_.interrupts(abi::Vector::kResponse) == 1) == expected,
                 "vector 0 comes exactly with an accepted command that has a response");
  }
  // Whether the device must still have the region that was made at the start.
  bool same_slots() { return guest_.adapter().info().device_counters.resets == 0 && !reloaded(); }
  bool reloaded() {
    return guest_.load<abi::DeviceSharedRegion>(guest_.region_address).cmd_slot_dma !=
           guest_.region.cmd_slot_dma;
  }

  void run(std::uint8_t milliseconds) {
    guest_.clock.advance(std::chrono::milliseconds(milliseconds));
    const Instant now = guest_.clock.now();
    for (int turn = 0; turn < 8 && guest_.adapter().run(now); ++turn) {
    }
    if (now >= guest_.adapter().next_deadline()) guest_.adapter().on_time(now);
  }

  // `bytes` bytes of the peer's payload, in any memory of this process.
  guestmem::SpanList payload(std::uint64_t bytes) {
    static std::array<std::byte, 64 * 1024> peer_memory;
    guestmem::SpanList list;
    PVRDMA_CHECK(list.append(peer_memory.data(), std::min<std::uint64_t>(bytes, peer_memory.size())),
                 "one piece");
    return list;
  }
  verbs::Endpoint endpoint(std::uint32_t qpn) const { return {gid_, verbs::Qpn(qpn & 0xff'ffff)}; }

  void peer_request(Input& input) {
    verbs::Request request;
    const auto qpn = input.take<std::uint32_t>();
    request.from = endpoint(qpn);
    request.to = endpoint(qpn);
    request.number = verbs::MessageNumber(input.take<std::uint32_t>());
    request.op = static_cast<verbs::RequestOp>(input.take<std::uint8_t>() % 5);
    request.extra = static_cast<verbs::Extra>(input.take<std::uint8_t>() % 3);
    request.solicited = (input.take<std::uint8_t>() & 1) != 0;
    request.extra_value = input.take<std::uint32_t>();
    request.bytes = input.take<std::uint32_t>() % 65536;
    request.offset = input.take<std::uint32_t>();
    request.message_bytes = input.take<std::uint32_t>();
    request.remote_addr = input.take<std::uint64_t>();
    request.rkey = input.take<std::uint32_t>();
    request.compare_add = input.take<std::uint64_t>();
    request.swap = input.take<std::uint64_t>();
    const auto bytes = request.is_read_or_atomic() ? 0 : request.bytes;
    const guestmem::SpanList spans = payload(bytes);
    verbs::SpanPayload handed_over(spans);
    guest_.adapter().engine().on_request(request, handed_over, guest_.clock.now());
  }

  void peer_response(Input& input) {
    verbs::Response response;
    const auto qpn = input.take<std::uint32_t>();
    response.from = endpoint(qpn);
    response.to = endpoint(qpn);
    response.number = verbs::MessageNumber(input.take<std::uint32_t>());
    response.syndrome = static_cast<verbs::Syndrome>(input.take<std::uint8_t>() % 7);
    response.op = static_cast<verbs::RequestOp>(input.take<std::uint8_t>() % 5);
    response.rnr_timer = input.take<std::uint8_t>() % 32;
    response.offset = input.take<std::uint32_t>();
    response.bytes = response.op == verbs::RequestOp::kRead ? input.take<std::uint32_t>() % 65536 : 0;
    response.atomic_original = input.take<std::uint64_t>();
    const guestmem::SpanList spans = payload(response.bytes);
    verbs::SpanPayload handed_over(spans);
    guest_.adapter().engine().on_response(response, handed_over, guest_.clock.now());
  }

  void peer_datagram(Input& input) {
    verbs::Datagram datagram;
    datagram.from = endpoint(1);
    datagram.to = endpoint(input.take<std::uint32_t>());
    datagram.qkey = input.take<std::uint32_t>();
    datagram.extra = static_cast<verbs::Extra>(input.take<std::uint8_t>() % 2);
    datagram.solicited = (input.take<std::uint8_t>() & 1) != 0;
    datagram.bytes = input.take<std::uint16_t>() % 4096;
    datagram.roce = default_roce(version_);
    guest_.adapter().engine().on_datagram(datagram, payload(datagram.bytes), guest_.clock.now());
  }

  std::size_t place_in_pages(Input& input) {
    const std::size_t page = input.take<std::uint16_t>();
    const std::size_t offset = input.take<std::uint16_t>();
    return (page * abi::kUarPageBytes + offset) % pages_->all().size();
  }

  void flip_mapping() {
    auto& adapter = guest_.adapter();
    if (!unmapped_) {
      adapter.dma_unmap_all();
    } else {
      guest_.map_ram();
    }
    unmapped_ = !unmapped_;
  }

  FakeGuest guest_;
  HardwareVersion version_{};
  verbs::Gid gid_;
  bool unmapped_ = false;
  std::optional<test::DoorbellPages> pages_;  // mapped doorbells only
  bool context_may_be_gone_ = false;          // the user context
};

}  // namespace
}  // namespace pvrdma::device

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pvrdma;
  using namespace pvrdma::device;
  log::set_level(log::Level::kError);
  if (size == 0) return 0;
  constexpr HardwareVersion kVersions[] = {HardwareVersion::k13, HardwareVersion::k14, HardwareVersion::k17,
                                           HardwareVersion::k18};
  Harness harness(kVersions[data[0] % 4], (data[0] & 4) != 0,
                  (data[0] & 8) != 0 ? DoorbellMode::kMapped : DoorbellMode::kTrapped);
  auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  for (std::uint32_t record = 0; record < kRecordsMax && bytes.size() >= 3; ++record) {
    Input header(bytes.first(3));
    const auto op = static_cast<Op>(header.take<std::uint8_t>() % static_cast<std::uint8_t>(Op::kCount));
    const std::size_t length = std::min<std::size_t>(header.take<std::uint16_t>(), bytes.size() - 3);
    harness.step(op, Input(bytes.subspan(3, length)));
    bytes = bytes.subspan(3 + length);
  }
  harness.expect_doorbells_taken();
  return 0;
}
