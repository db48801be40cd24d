#include "motion/pump.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <system_error>
#include <utility>
#include <vector>

#include "base/control_thread.h"

namespace pvrdma::motion {
namespace {

constexpr std::size_t kPieceBytes = 256u << 10;
// A host that takes no bytes for this long has gone.
constexpr Duration kPatience = std::chrono::seconds(30);
constexpr Duration kQemuSilence = std::chrono::hours(24);  // QEMU may have nothing to send

}  // namespace

Result<std::unique_ptr<Pump>> Pump::start(vmm::Monitor& monitor, std::unique_ptr<ByteChannel> channel,
                                          Direction direction) {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0)
    return fail_errno(errno, "cannot make a pair of sockets");
  const Fd qemus(fds[1]);
  std::unique_ptr<Pump> pump(new Pump(Fd(fds[0]), std::move(channel)));
  try {
    pump->thread_ = std::thread([self = pump.get(), direction] {
      begin_control_thread("motion memory");
      direction == Direction::kToChannel ? self->send() : self->receive();
      self->end();
    });
  } catch (const std::system_error& refused) {
    return fail(ErrorKind::kUnavailable, std::string("no thread for the VM's memory: ") + refused.what());
  }
  constexpr std::string_view kName = std::string_view(kUri).substr(std::string_view("fd:").size());
  if (auto given = monitor.give_fd(std::string(kName), qemus.get()); !given)
    return Failure(std::move(given).error());
  return pump;
}

Pump::~Pump() {
  end();
  if (thread_.joinable()) thread_.join();
}

void Pump::end() {
  ::shutdown(socket_.get(), SHUT_RDWR);
  channel_->interrupt();
}

void Pump::send() {
  std::vector<std::byte> piece(kPieceBytes);
  while (true) {
    const ssize_t got = ::recv(socket_.get(), piece.data(), piece.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    const auto bytes = std::span(piece).first(static_cast<std::size_t>(got));
    if (!channel_->send(bytes, Instant::now() + kPatience)) return;
  }
}

void Pump::receive() {
  std::vector<std::byte> piece(kPieceBytes);
  while (true) {
    const auto got = channel_->receive(piece, Instant::now() + kQemuSilence);
    if (!got || *got == 0) return;
    for (std::size_t done = 0; done < *got;) {
      const ssize_t sent = ::send(socket_.get(), piece.data() + done, *got - done, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return;
      done += static_cast<std::size_t>(sent);
    }
  }
}

}  // namespace pvrdma::motion
