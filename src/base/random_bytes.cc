#include "base/random_bytes.h"

#include <cerrno>
#include <sys/random.h>

#include "base/check.h"

namespace pvrdma {

void fill_random(std::span<std::byte> bytes) {
  ssize_t got = -1;
  do {
    got = ::getrandom(bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);  // early after the boot it waits for entropy
  PVRDMA_CHECK(got == static_cast<ssize_t>(bytes.size()), "getrandom gives up to 256 bytes whole");
}

}  // namespace pvrdma
