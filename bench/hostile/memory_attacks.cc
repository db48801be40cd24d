// Attacks with memory: large amounts, strange maps, and memory that disappears.
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#include "attack.h"
#include "guest.h"
#include "support/rc_endpoint.h"

namespace pvrdma::bench {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGiB = 1024 * kMiB;
constexpr std::uint64_t kTiB = 1024 * kGiB;
constexpr std::uint64_t kWindowAt = 1ULL << 40;
constexpr std::uint64_t kGibPages = kGiB / abi::kPageBytes;

void stay(const Field& field) {
  while (!field.over()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// Like QEMU, unmaps and closes the memory before the socket, so the daemon has the last reference.
std::string vm_dies(Field& field) {
  field.begin();
  std::uint32_t died = 0;
  do {
    Fd file = memory_file(64 * kGiB);
    if (::posix_fallocate(file.get(), 0, static_cast<off_t>(field.touch_bytes)) != 0) {
      throw std::runtime_error(fmt::format("this machine has no {} bytes to touch", field.touch_bytes));
    }
    auto client = must(vfio_user::Client::connect(field.sockets[0], Guest::kPatience));
    must(client->dma_map({.iova = 0, .size = 64 * kGiB, .readable = true, .writable = true}, file.get()));
    file.reset();
    client.reset();
    ++died;
  } while (!field.over());
  return fmt::format("{} VMs of 64 GiB died, each with {} MiB touched", died, field.touch_bytes / kMiB);
}

// As many maps of a sparse file as the daemon allows, the largest first.
std::string address_space(Field& field) {
  field.begin();
  const Fd file = memory_file(64 * kTiB);
  auto client = must(vfio_user::Client::connect(field.sockets[0], Guest::kPatience));
  std::uint64_t mapped = 0;
  std::uint32_t count = 0;
  std::uint64_t at = 0;
  std::string refusal;
  for (std::uint64_t bytes = 64 * kTiB; bytes >= 64 * kKiB && !field.over();) {
    auto done = client->dma_map({.iova = at, .size = bytes, .readable = true, .writable = true}, file.get());
    if (done) {
      at += bytes;
      mapped += bytes;
      if (++count == 71) break;
    } else {
      if (refusal.empty()) refusal = done.error().message;
      bytes /= 2;
    }
  }
  stay(field);
  return fmt::format("{} maps, {} GiB of addresses{}{}", count, mapped / kGiB,
                     refusal.empty() ? "" : "; first refusal: ", refusal);
}

// Makes and destroys regions one after the other, as an honest guest might.
std::string large_regions(Field& field) {
  field.begin();
  Guest guest(field.sockets[0]);
  const Fd file = memory_file(kGiB);
  guest.map(kWindowAt, file, kGiB);
  const LargeRegion region(guest, pages_from(kWindowAt, kGibPages));
  std::uint32_t made = 0;
  while (!field.over()) {
    const auto answer = must(region.create(guest));
    must(guest.device().commands().run(abi::Command::kDestroyMr,
                                       abi::DestroyMrRequest{.mr_handle = answer.mr_handle}));
    ++made;
  }
  return fmt::format("{} regions of 1 GiB made and destroyed", made);
}

// Sends the same command 56 times before the first one is answered.
std::string region_burst(Field& field) {
  field.begin();
  std::uint32_t bursts = 0;
  std::uint64_t refused = 0;
  do {
    Guest guest(field.sockets[0]);
    const Fd file = memory_file(kGiB);
    guest.map(kWindowAt, file, kGiB);
    const LargeRegion region(guest, pages_from(kWindowAt, kGibPages));
    refused += must(guest.submit(abi::Command::kCreateMr, region.request)) != 0 ? 1 : 0;
    for (int i = 0; i < 56; ++i) {
      guest.post(driver::Region::kRegisters, static_cast<std::uint64_t>(abi::Register::kRequest), 0);
    }
    refused += must(guest.device().read_register(abi::Register::kErr)) != 0 ? 1 : 0;
    ++bursts;
  } while (!field.over());
  return fmt::format("{} bursts of 56 regions of 1 GiB{}", bursts, refused == 0 ? "" : ", some were refused");
}

// Regions of 16 MiB that name one page of a guest of 64 MiB again and again.
std::string one_page(Field& field) {
  field.begin();
  Guest guest(field.sockets[0]);
  const auto page = must(guest.device().ram().allocate(abi::kPageBytes));
  constexpr std::uint64_t kPages = 4096;
  const std::vector<driver::GuestPhys> same(kPages, page->gpa());
  const LargeRegion region(guest, same);
  std::uint64_t named = 0;
  std::string refusal;
  while (named < 64'000'000 && refusal.empty()) {
    auto made = region.create(guest);
    if (made) {
      named += kPages;
    } else {
      refusal = made.error().message;
    }
  }
  stay(field);
  return fmt::format("one page named {} times{}{}", named, refusal.empty() ? "" : "; ", refusal);
}

// A client whose region names every second page of a file, which is then truncated.
class Vanishing {
 public:
  explicit Vanishing(const std::string& socket, std::uint32_t number)
      : guest_(socket), file_(memory_file(kBytes)) {
    guest_.map(kWindowAt, file_, kBytes);
    must(guest_.device().bind_gid(0, test::gid_of(number)));
    from_ = std::make_unique<test::RcEndpoint>(guest_.device(), test::gid_of(number));
    to_ = std::make_unique<test::RcEndpoint>(guest_.device(), test::gid_of(number));
    must(test::connect(*from_, *to_, {.timeout = 18}));
    region_ = must(driver::MemoryRegion::of_pages(
        from_->pd,
        {.start = 0, .length = kPages * abi::kPageBytes, .access = test::kFullAccess, .pages = pages_}));
  }

  void vanish() const {
    if (::ftruncate(file_.get(), 0) != 0) throw std::runtime_error(std::strerror(errno));
  }
  // Makes the daemon read all vanished pages.
  std::string touch() const {
    std::vector<driver::Sge> pieces;
    std::vector<driver::SendRequest> requests;
    for (std::uint64_t at = 0; at < kPages * abi::kPageBytes; at += kPiece) {
      pieces.push_back(region_->sge(at, kPiece));
    }
    for (const driver::Sge& piece : pieces) {
      requests.push_back(driver::wr::write(1, {&piece, 1}, to_->remote(), 0));
    }
    const driver::Posted posted = from_->qp->post_send(requests);
    return posted.ok() ? "all requests were taken" : "the connection was ended";
  }

 private:
  static constexpr std::uint64_t kPages = 1024;
  static constexpr std::uint64_t kBytes = 2 * kPages * abi::kPageBytes;
  static constexpr std::uint32_t kPiece = 64 * 1024;

  Guest guest_;
  Fd file_;
  std::vector<driver::GuestPhys> pages_ = pages_from(kWindowAt, kPages, 2);
  std::unique_ptr<test::RcEndpoint> from_;
  std::unique_ptr<test::RcEndpoint> to_;
  std::unique_ptr<driver::MemoryRegion> region_;
};

std::string vanished_pages(Field& field) {
  field.begin();
  std::uint32_t rounds = 0;
  std::string end;
  do {
    std::vector<std::unique_ptr<Vanishing>> clients;
    for (std::uint32_t i = 0; i < field.sockets.size(); ++i) {
      clients.push_back(std::make_unique<Vanishing>(field.sockets[i], i));
    }
    for (const auto& client : clients) client->vanish();
    for (const auto& client : clients) end = client->touch();
    ++rounds;
  } while (!field.over());
  return fmt::format("{} times {} clients; {}", rounds, field.sockets.size(), end);
}

constexpr Attack kAttacks[] = {
    {"vm-dies", "a VM of 64 GiB, sparse, ends", &vm_dies},
    {"address-space", "71 maps of a sparse file of 64 TiB", &address_space},
    {"large-regions", "regions of 1 GiB, one after the other", &large_regions},
    {"region-burst", "56 pipelined CREATE_MR of 1 GiB", &region_burst},
    {"one-page", "one page named 64 million times", &one_page},
    {"vanished-pages", "every second page under regions of three clients vanishes", &vanished_pages, 3},
};

}  // namespace

std::span<const Attack> memory_attacks() {
  return kAttacks;
}

}  // namespace pvrdma::bench
