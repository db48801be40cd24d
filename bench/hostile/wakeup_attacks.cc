// Attacks with very many watches (epoll) on a file that the daemon makes ready: the kernel goes through all
// of them each time, in the daemon's call.
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <vector>

#include "attack.h"
#include "guest.h"

namespace pvrdma::bench {
namespace {

constexpr std::size_t kWatches = 190'000;
constexpr int kFirstNumber = 256;  // of descriptors; lower ones are in use

// An epoll instance takes one watch for each number that a file's descriptor has. The watch stays when that
// descriptor is closed, because the file is still open.
class Watches {
 public:
  explicit Watches(int watched) {
    rlimit numbers{};
    ::getrlimit(RLIMIT_NOFILE, &numbers);
    numbers.rlim_cur = numbers.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &numbers);
    while (count_ < kWatches && add(watched, static_cast<int>(numbers.rlim_cur))) continue;
  }
  std::size_t count() const { return count_; }

 private:
  // Makes one more instance and fills it. False: the user may have no more watches.
  bool add(int watched, int numbers_end) {
    instances_.emplace_back(::epoll_create1(EPOLL_CLOEXEC));
    for (int number = kFirstNumber; number < numbers_end && count_ < kWatches; ++number) {
      const Fd copy(::fcntl(watched, F_DUPFD_CLOEXEC, number));
      epoll_event event{.events = EPOLLIN, .data = {}};
      if (::epoll_ctl(instances_.back().get(), EPOLL_CTL_ADD, copy.get(), &event) != 0) {
        if (errno == ENOSPC) return false;  // fs.epoll.max_user_watches
        throw std::runtime_error(fmt::format("watch number {}: {}", count_ + 1, std::strerror(errno)));
      }
      ++count_;
    }
    return true;
  }

  std::vector<Fd> instances_;
  std::size_t count_ = 0;
};

std::string watched_eventfd(Field& field) {
  Guest guest(field.sockets[0]);
  const Watches watches(guest.device().event_fd(abi::Vector::kResponse));
  field.begin();
  std::uint32_t commands = 0;
  while (!field.over()) {
    must(guest.device().query_port());
    ++commands;
  }
  return fmt::format("{} watches, {} interrupts", watches.count(), commands);
}

std::string watched_socket(Field& field) {
  Guest guest(field.sockets[0]);
  const Watches watches(guest.client().socket_fd());
  field.begin();
  std::uint32_t replies = 0;
  while (!field.over()) {
    must(guest.device().read_register(abi::Register::kVersion));
    ++replies;
  }
  return fmt::format("{} watches, {} replies", watches.count(), replies);
}

constexpr Attack kAttacks[] = {
    {"watched-eventfd", "190,000 epoll watches on the eventfd of an interrupt", &watched_eventfd},
    {"watched-socket", "190,000 epoll watches on the VMM's own socket", &watched_socket},
};

}  // namespace

std::span<const Attack> wakeup_attacks() {
  return kAttacks;
}

}  // namespace pvrdma::bench
