#include "guestmem/copy.h"

#include <cstring>

#include "guestmem/read_hook.h"

namespace pvrdma::guestmem {

bool read(const AddressSpace& memory, GuestPhys from, std::span<std::byte> out) {
  std::byte* to = out.data();
  return memory.for_each_piece(from, out.size(), Access::kRead,
                               [&memory, &to](const std::byte* data, std::size_t size) {
                                 before_read(memory, data, size);
                                 std::memcpy(to, data, size);
                                 to += size;
                                 return true;
                               });
}

bool write(const AddressSpace& memory, GuestPhys to, std::span<const std::byte> bytes) {
  const std::byte* from = bytes.data();
  return memory.for_each_piece(to, bytes.size(), Access::kWrite, [&from](std::byte* data, std::size_t size) {
    std::memcpy(data, from, size);
    from += size;
    return true;
  });
}

}  // namespace pvrdma::guestmem
