#include "hole_puncher.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <span>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

#include "support/must.h"

namespace pvrdma::test {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{512} << 20;
constexpr std::uint64_t kAt = std::uint64_t{1} << 40;
constexpr std::uint64_t kStride = 13 * abi::kPageBytes;

Fd make_file() {
  Fd file(::memfd_create("pvrdma-test", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(kBytes)) != 0)
    throw std::runtime_error(fmt::format("no memory file: {}", std::strerror(errno)));
  return file;
}

void punch(int file) {
  if (::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(kBytes)) != 0)
    throw std::runtime_error(fmt::format("punching a hole: {}", std::strerror(errno)));
}

}  // namespace

HolePuncher::HolePuncher(driver::Device& device)
    : device_(device), file_(make_file()), pd_(must(driver::ProtectionDomain::create(device.kernel()))) {
  must(device_.bus().dma_map(kAt, kBytes, file_.get(), 0));
}

void HolePuncher::touch() {
  if (!hole_.valid()) {
    if (::posix_fallocate(file_.get(), 0, static_cast<off_t>(kBytes)) != 0)
      throw std::runtime_error("this machine has no memory for the guest");
    hole_ = std::async(std::launch::async, punch, file_.get());
  }
  abi::CreateMrRequest names_a_page{.length = abi::kPageBytes, .pd_handle = pd_->handle(), .nchunks = 1};
  names_a_page.hdr.cmd = static_cast<std::uint32_t>(abi::Command::kCreateMr);
  names_a_page.pdir_dma = kAt + touched_++ * kStride % kBytes;
  // The page is empty, so the command is refused.
  must(device_.commands().submit(std::as_bytes(std::span(&names_a_page, 1))));
  if (hole_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) hole_.get();
}

}  // namespace pvrdma::test
