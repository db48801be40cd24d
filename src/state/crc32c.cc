#include "state/crc32c.h"

#include <isa-l/crc.h>

#include "base/check.h"
#include "state/stream.h"

namespace pvrdma::state {

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  PVRDMA_CHECK(bytes.size() <= kRecordHeadBytes + kRecordBytesMax, "no record is larger");
  // The library's parameter is not const, but the library only reads.
  auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  return ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~0u);
}

}  // namespace pvrdma::state
