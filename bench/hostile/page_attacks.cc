// Attacks with pages that cost the kernel long when the daemon touches them: the VMM takes the page's range
// away at that moment, or the page is huge and must be cleared first.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <fstream>
#include <future>
#include <linux/memfd.h>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "attack.h"
#include "guest.h"
#include "support/rc_endpoint.h"

namespace pvrdma::bench {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1024 * kMiB;
constexpr std::uint64_t kWindowAt = 1ULL << 40;

// Returns how long it took.
milliseconds punch(const Fd& file, std::uint64_t bytes) {
  const Clock::time_point before = Clock::now();
  if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0)
    throw std::runtime_error(fmt::format("punching a hole: {}", std::strerror(errno)));
  return duration_cast<milliseconds>(Clock::now() - before);
}

// While the kernel punches the hole, it lets each touch of a page inside sleep.
std::string punched_memory(Field& field) {
  Guest guest(field.sockets[0]);
  const Fd file = memory_file(kGiB);
  guest.map(kWindowAt, file, kGiB);
  const auto pd = must(driver::ProtectionDomain::create(guest.device().kernel()));
  abi::CreateMrRequest names_a_page{.length = abi::kPageBytes, .pd_handle = pd->handle(), .nchunks = 1};
  field.begin();
  std::uint32_t holes = 0;
  std::uint64_t touched = 0;
  milliseconds punching{};
  do {
    if (::posix_fallocate(file.get(), 0, static_cast<off_t>(kGiB)) != 0)
      throw std::runtime_error("this machine has no GiB of memory for the guest");
    auto vmm = std::async(std::launch::async, [&] { return punch(file, kGiB); });
    while (vmm.wait_for(milliseconds(1)) != std::future_status::ready) {
      names_a_page.pdir_dma = kWindowAt + touched++ * 13 * abi::kPageBytes % kGiB;
      must(guest.submit(abi::Command::kCreateMr, names_a_page));  // the page is empty, so it is refused
    }
    punching += vmm.get();
    ++holes;
  } while (!field.over());
  return fmt::format("{} holes of 1 GiB, {} ms each; {} pages touched meanwhile", holes,
                     punching.count() / holes, touched);
}

struct HugePages {
  std::uint64_t bytes = 0;  // of each page
  std::uint64_t count = 0;
};

constexpr std::uint64_t kHugePagesMax = 512;

std::uint64_t free_huge_pages(std::uint64_t bytes) {
  std::ifstream file(fmt::format("/sys/kernel/mm/hugepages/hugepages-{}kB/free_hugepages", bytes / 1024));
  std::uint64_t count = 0;
  file >> count;
  return count;
}

// The machine's free pages of the largest size.
HugePages free_huge_pages() {
  for (const std::uint64_t bytes : {kGiB, 2 * kMiB}) {
    if (const std::uint64_t count = free_huge_pages(bytes); count > 0)
      return {bytes, std::min(count, bytes == kGiB ? 1 : kHugePagesMax)};
  }
  return {};
}

std::string lack_of_huge_pages() {
  return free_huge_pages().count > 0 ? "" : "this machine has no free huge page (sysctl vm.nr_hugepages)";
}

Fd huge_memory_file(const HugePages& pages) {
  const unsigned int size = pages.bytes == kGiB ? MFD_HUGE_1GB : MFD_HUGE_2MB;
  Fd file(::memfd_create("pvrdma-bench", MFD_CLOEXEC | MFD_HUGETLB | size));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(pages.bytes * pages.count)) != 0)
    throw std::runtime_error(fmt::format("no memory file of huge pages: {}", std::strerror(errno)));
  return file;
}

// One write of 8 bytes into each huge page of a guest, whose VMM then takes all pages away, again and again.
std::string huge_pages(Field& field) {
  const HugePages pages = free_huge_pages();
  const std::uint64_t bytes = pages.bytes * pages.count;
  Guest guest(field.sockets[0]);
  const Fd file = huge_memory_file(pages);
  guest.map(kWindowAt, file, bytes);
  must(guest.device().bind_gid(0, test::gid_of(0)));
  const auto depth = static_cast<std::uint32_t>(pages.count);
  const test::EndpointOptions options{.cq_entries = depth, .max_send_wr = depth};
  test::RcEndpoint from(guest.device(), test::gid_of(0), options);
  test::RcEndpoint to(guest.device(), test::gid_of(0), options);
  must(test::connect(from, to, {.timeout = 20}));
  const auto region = must(driver::MemoryRegion::of_pages(
      to.pd, {.start = 0,
              .length = pages.count * abi::kPageBytes,
              .access = test::kFullAccess,
              .pages = pages_from(kWindowAt, pages.count, pages.bytes / abi::kPageBytes)}));
  const driver::Sge sge = from.sge(0, 8);
  std::vector<driver::SendRequest> writes;
  for (std::uint64_t i = 0; i < pages.count; ++i)
    writes.push_back(driver::wr::write(i, {&sge, 1}, {i * abi::kPageBytes, region->rkey()}));
  std::vector<driver::WorkCompletion> done(pages.count);
  field.begin();
  std::uint64_t cleared = 0;
  do {
    if (!from.qp->post_send(writes).ok()) throw std::runtime_error("a write could not be posted");
    for (std::uint64_t completed = 0; completed < pages.count;) {
      const std::size_t now = from.send_cq->poll(done, driver::CompletionQueue::WhenEmpty::kReturn);
      for (std::size_t i = 0; i < now; ++i) {
        if (!done[i].ok()) throw std::runtime_error("the pool of huge pages is empty: a write failed");
      }
      completed += now;
      if (now == 0) std::this_thread::sleep_for(milliseconds(1));
    }
    cleared += pages.count;
    punch(file, bytes);
  } while (!field.over());
  return fmt::format("{} pages of {} MiB cleared, {} at a time", cleared, pages.bytes / kMiB, pages.count);
}

constexpr Attack kAttacks[] = {
    {.name = "punched-memory",
     .what = "the VMM punches a hole of 1 GiB, the guest has pages inside touched meanwhile",
     .run = &punched_memory},
    {.name = "huge-pages",
     .what = "writes into huge pages that the kernel must clear, all free ones of the machine",
     .run = &huge_pages,
     .lack = &lack_of_huge_pages},
};

}  // namespace

std::span<const Attack> page_attacks() {
  return kAttacks;
}

}  // namespace pvrdma::bench
