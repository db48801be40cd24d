// Fuzzes decode(), which reads whatever another host, or anybody who reaches the port, sends.
//
// Input: the bytes of a stream, frames with their payloads. The fuzzer checks: a decoded frame encodes to the
// same bytes, a shorter part of it asks for more, and it stays within the limits that the frame socket's
// buffers rely on.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "transport/wire/format.h"

namespace pvrdma::transport::wire {
namespace {

using State = Decoded::State;

void check_frame(std::span<const std::byte> bytes, const Decoded& decoded, const Frame& frame) {
  PVRDMA_CHECK(decoded.head_bytes >= kHeaderBytes && decoded.head_bytes <= kHeadBytesMax,
               "a head of a wrong size");
  PVRDMA_CHECK(decoded.payload_bytes <= kPayloadBytesMax, "more payload than a segment has");
  Head head;
  const auto again = encode(frame, head);
  PVRDMA_CHECK(std::equal(again.begin(), again.end(), bytes.begin(),
                          bytes.begin() + static_cast<std::ptrdiff_t>(decoded.head_bytes)),
               "what was decoded encodes to other bytes");
  Frame part;
  const Decoded shorter = decode(bytes.first(decoded.head_bytes - 1), part);
  PVRDMA_CHECK(shorter.state == State::kNeedMore && shorter.head_bytes <= decoded.head_bytes,
               "a part of a good head is not just short");
}

void feed(std::span<const std::byte> bytes) {
  while (true) {
    Frame frame;
    const Decoded decoded = decode(bytes, frame);
    switch (decoded.state) {
      case State::kNeedMore:
        PVRDMA_CHECK(decoded.head_bytes > bytes.size() && decoded.head_bytes <= kHeadBytesMax,
                     "asks for nothing new");
        return;
      case State::kBad:
        PVRDMA_CHECK(decoded.defect != Defect::kNone && !describe(decoded.defect).empty(),
                     "bad without a reason");
        return;
      case State::kComplete:
        check_frame(bytes, decoded, frame);
        bytes = bytes.subspan(std::min(bytes.size(), decoded.head_bytes + decoded.payload_bytes));
        break;
    }
  }
}

}  // namespace
}  // namespace pvrdma::transport::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pvrdma::transport::wire::feed(std::as_bytes(std::span(data, size)));
  return 0;
}
