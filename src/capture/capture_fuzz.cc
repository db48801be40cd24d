// Fuzzes how a capture handles untrusted input: a client's filter, and the messages of peers.
//
// The input is one byte with the filter's length, the filter, and then messages. Each message has 24 bytes
// that describe it, and its payload, which is shorter if the input ends. Invariants: a filter's result does
// not depend on how it is called. Every complete frame parses to something that a RoCE receiver accepts. No
// message makes more frames, or longer ones, than it has packets of its MTU.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "capture/filter.h"
#include "capture/ring.h"
#include "capture/synthesis.h"

namespace pvrdma::capture {
namespace {

constexpr std::size_t kMessagesMax = 64;

// Reads integers from the input; returns zeros after its end.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T take() {
    T value{};
    const auto part = take_bytes(sizeof value);
    std::memcpy(&value, part.data(), part.size());
    return value;
  }
  std::span<const std::byte> take_bytes(std::size_t size) {
    const auto part = bytes_.first(std::min(size, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

verbs::Endpoint endpoint(std::uint8_t seed) {
  verbs::Endpoint made{{}, verbs::Qpn(seed + 1U)};
  if (seed % 2 == 0) made.gid.bytes[10] = made.gid.bytes[11] = 0xff;
  made.gid.bytes[15] = seed;
  return made;
}

Record make_record(Input& input) {
  Record record;
  const auto what = input.take<std::uint8_t>();
  record.kind = static_cast<Kind>(what % 3);
  record.direction = static_cast<verbs::Direction>(what >> 2 & 1);
  record.path = static_cast<transport::PathKind>((what >> 3) % transport::kPathKinds);
  record.mtu = static_cast<abi::Mtu>(1 + (what >> 5) % 5);
  const auto op = static_cast<verbs::RequestOp>(input.take<std::uint8_t>() % 5);
  const auto extra = input.take<std::uint8_t>();
  const verbs::Endpoint from = endpoint(input.take<std::uint8_t>() % 4);
  const verbs::Endpoint to = endpoint(input.take<std::uint8_t>() % 4);
  const verbs::MessageNumber number(input.take<std::uint8_t>() % 2);
  const auto bytes = input.take<std::uint16_t>();
  const auto offset = input.take<std::uint32_t>();
  const auto message_bytes = input.take<std::uint32_t>();
  const verbs::Psn psn(input.take<std::uint32_t>());
  const auto value = input.take<std::uint32_t>();

  record.request = {.from = from,
                    .to = to,
                    .number = number,
                    .psn = psn,
                    .op = op,
                    .extra = static_cast<verbs::Extra>(extra % 3),
                    .solicited = extra > 127,
                    .extra_value = value,
                    .message_bytes = message_bytes,
                    .offset = offset,
                    .bytes = bytes,
                    .remote_addr = value,
                    .rkey = value};
  record.response = {.from = from,
                     .to = to,
                     .number = number,
                     .syndrome = static_cast<verbs::Syndrome>(extra % 7),
                     .op = op,
                     .rnr_timer = extra,
                     .offset = offset,
                     .bytes = op == verbs::RequestOp::kRead ? bytes : 0U};
  record.answered = {psn, message_bytes};
  record.datagram = {.from = from,
                     .to = to,
                     .qkey = value,
                     .extra = static_cast<verbs::Extra>(extra % 2),
                     .bytes = bytes,
                     .flow_label = value,
                     .traffic_class = extra,
                     .hop_limit = extra,
                     .roce = extra % 2 == 0 ? RoceVersion::kV1 : RoceVersion::kV2};
  return record;
}

void check_frame(std::span<const std::byte> kept, std::size_t bytes, std::uint32_t snap_bytes) {
  PVRDMA_CHECK(kept.size() <= std::min<std::size_t>(bytes, snap_bytes), "more was kept than is wanted");
  PVRDMA_CHECK(bytes <= roce::kFrameBytesMax, "a frame that is too long");
  if (kept.size() != bytes) return;
  PVRDMA_CHECK(roce::parse(kept), "a whole frame that a receiver refuses");
}

void run(Input input) {
  const auto text = input.take_bytes(input.take<std::uint8_t>());
  const auto filter = Filter::parse({reinterpret_cast<const char*>(text.data()), text.size()});
  PVRDMA_CHECK(filter || !filter.error().message.empty(), "a mistake without a sentence");

  constexpr std::uint32_t kSnapBytes = 300;
  Ring ring(1 << 18);
  Synthesis synthesis({{2, 0, 0, 0, 0, 1}}, RoceVersion::kV2, kSnapBytes);
  Record taken;
  std::vector<std::byte> payload;
  for (std::size_t i = 0; i < kMessagesMax && !input.empty(); ++i) {
    const Record record = make_record(input);
    const auto bytes = input.take_bytes(record.bytes());
    guestmem::SpanList spans;
    static_cast<void>(spans.append(const_cast<std::byte*>(bytes.data()), bytes.size()));
    PVRDMA_CHECK(ring.put(record, bytes.empty() ? nullptr : &spans, kSnapBytes) && ring.take(taken, payload),
                 "an empty ring has no room");
    if (filter) {
      PVRDMA_CHECK(filter->matches(record) == filter->matches(taken), "a filter that changes its mind");
    }
    std::size_t frames = 0;
    synthesis.frames_of(taken, payload, [&](std::span<const std::byte> kept, std::size_t whole) {
      check_frame(kept, whole, kSnapBytes);
      ++frames;
    });
    PVRDMA_CHECK(frames <= record.bytes() / abi::mtu_bytes(record.mtu) + 2, "more frames than packets");
  }
}

}  // namespace
}  // namespace pvrdma::capture

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pvrdma::capture;
  run(Input(std::as_bytes(std::span(data, size))));
  return 0;
}
