// Attacks with the session itself: descriptors, interrupts, connecting and leaving.
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "attack.h"
#include "guest.h"
#include "vfio_user/raw_peer.h"

namespace pvrdma::bench {
namespace {

using vfio_user::RawPeer;

void require(bool done, const char* what) {
  if (!done) throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

RawPeer dial(const std::string& path) {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  require(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
          "connect");
  return RawPeer(std::move(socket));
}

// Every vector's counter is full, and a write to it would block.
std::string blocked_eventfd(Field& field) {
  field.begin();
  Guest guest(field.sockets[0], {}, std::chrono::seconds(2));
  // The first command is submitted normally, so it is in its slot. Later ones avoid the driver, which would
  // drain the eventfd.
  must(guest.submit(abi::Command::kQueryPort, abi::QueryPortRequest{.port_num = 1}));
  for (const abi::Vector vector :
       {abi::Vector::kResponse, abi::Vector::kAsyncEvent, abi::Vector::kNotification}) {
    const int eventfd = guest.device().event_fd(vector);
    (void)driver::take_interrupts(eventfd);
    require(::eventfd_write(eventfd, 0xffff'ffff'ffff'fffe) == 0, "filling an eventfd");
    require(::fcntl(eventfd, F_SETFL, ::fcntl(eventfd, F_GETFL) & ~O_NONBLOCK) == 0, "O_NONBLOCK");
  }
  std::uint64_t interrupts = 0;
  while (!field.over()) {
    if (!guest.post(driver::Region::kRegisters, static_cast<std::uint64_t>(abi::Register::kRequest), 0))
      break;
    if (!guest.device().read_register(abi::Register::kErr)) {
      return fmt::format("the daemon stopped answering after {} interrupts", interrupts);
    }
    ++interrupts;
  }
  return fmt::format("{} commands with a full eventfd", interrupts);
}

// A TCP connection with unread data, whose last close() waits until it is read.
Fd lingering_socket() {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int small = 4096;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof(address);
  require(::bind(listener.get(), name, length) == 0 && ::listen(listener.get(), 1) == 0,
          "a listener on loopback");
  require(::getsockname(listener.get(), name, &length) == 0, "getsockname");
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  require(::connect(socket.get(), name, length) == 0, "connecting on loopback");
  static Fd reader;  // the other end stays open and never reads
  reader = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::vector<char> bytes(1 << 20);
  while (::send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  const linger wait{.l_onoff = 1, .l_linger = 3};
  require(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)) == 0, "SO_LINGER");
  return socket;
}

std::string lingering_descriptor(Field& field) {
  field.begin();
  std::uint32_t passed = 0;
  do {
    RawPeer peer = dial(field.sockets[0]);
    Fd socket = lingering_socket();
    // DMA_MAP before VERSION. The daemon has the last reference before the message is complete.
    const vfio_user::Bytes bytes =
        vfio_user::message(1, vfio_user::Command::kDmaMap, vfio_user::bytes_of(vfio_user::wire::DmaMap{}));
    peer.send(std::span(bytes).first(vfio_user::kHeaderBytes), {socket.get()});
    socket.reset();
    peer.send(std::span(bytes).subspan(vfio_user::kHeaderBytes));
    (void)peer.receive();
    ++passed;
  } while (!field.over());
  return fmt::format("{} sockets passed", passed);
}

// Connects, sends VERSION, nonsense or nothing, and leaves.
std::string connect_loop(Field& field) {
  field.begin();
  std::uint32_t times = 0;
  do {
    RawPeer peer = dial(field.sockets[0]);
    switch (times % 3) {
      case 0:
        peer.send(vfio_user::qemu_version());
        (void)peer.receive();
        break;
      case 1:
        peer.send(vfio_user::message(7, static_cast<vfio_user::Command>(999), {}, 0xffff'ffff));
        (void)peer.receive();
        break;
      default:
        break;
    }
    ++times;
  } while (!field.over());
  return fmt::format("{} connections", times);
}

std::string hundred_vmms(Field& field) {
  field.begin();
  std::uint32_t rounds = 0;
  do {
    std::vector<std::unique_ptr<Guest>> guests;
    for (const std::string& socket : field.sockets) {
      guests.push_back(
          std::make_unique<Guest>(socket, driver::DeviceOptions{.ram = {.size_bytes = 8 << 20}}));
    }
    ++rounds;
  } while (!field.over());
  return fmt::format("{} times {} guests came and left", rounds, field.sockets.size());
}

constexpr Attack kAttacks[] = {
    {"blocked-eventfd", "interrupts into full eventfds without O_NONBLOCK", &blocked_eventfd},
    {"lingering-descriptor", "a TCP socket with SO_LINGER before VERSION", &lingering_descriptor},
    {"connect-loop", "connects and leaves, or misbehaves, in a loop", &connect_loop},
    {"hundred-vmms", "100 VMMs connect, start a driver and leave", &hundred_vmms, 100},
};

}  // namespace

std::span<const Attack> session_attacks() {
  return kAttacks;
}

}  // namespace pvrdma::bench
