// Fuzzes parse(), which gets every frame that reaches an adapter's Ethernet address.
//
// The input is one frame. It is parsed as it is, and again with the right ICRC, which no fuzzer would find.
// The parsed payload must lie within the frame. A frame that is built from the result must be parsed to the
// same result.
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "roce/frame.h"

namespace pvrdma::roce {
namespace {

void check(std::span<const std::byte> bytes, const Frame& frame) {
  const std::span<const std::byte> payload = frame.packet.payload;
  PVRDMA_CHECK(
      payload.data() >= bytes.data() && payload.data() + payload.size() <= bytes.data() + bytes.size(),
      "the payload is within its frame");
  if (payload.size() > kMtuBytesMax) return;  // a connection refuses such a packet
  std::vector<std::byte> built(kFrameBytesMax);
  built.resize(build(frame, built.data()));
  PVRDMA_CHECK(built.size() == frame_bytes(frame, static_cast<std::uint32_t>(payload.size())),
               "build() and frame_bytes() agree about the length");
  const auto again = parse(built);
  PVRDMA_CHECK(again, "a built frame can be parsed");
  PVRDMA_CHECK(again->envelope == frame.envelope, "a built frame has the same envelope");
  std::vector<std::byte> twice(kFrameBytesMax);
  twice.resize(build(*again, twice.data()));
  PVRDMA_CHECK(twice == built, "a frame that is built again has the same bytes");
}

}  // namespace
}  // namespace pvrdma::roce

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pvrdma::roce;
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> frame(bytes.begin(), bytes.end());
  if (const auto parsed = parse(frame)) check(frame, *parsed);
  if (!seal(frame)) return 0;
  if (const auto parsed = parse(frame)) check(frame, *parsed);
  return 0;
}
