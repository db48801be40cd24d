// Fuzzes a Session (everything that a Server does with a client's bytes) over a socket pair.
//
// The input is a series of records: count@0:1 (descriptors, modulo 12), size@1:2, then `size` bytes. Each
// record is one sendmsg(). After each record the session may make a request to the client, with ids from 1
// on, so that replies match. So the fuzzer decides where messages are cut, and which descriptors come with
// which piece. The fake handler checks that it gets only what handler.h promises. The replies must be a valid
// stream, and no descriptor may be left open.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fcntl.h>

#include "base/log.h"
#include "base/log_writer.h"
#include "vfio_user/fake_handler.h"
#include "vfio_user/raw_peer.h"
#include "vfio_user/session.h"

namespace pvrdma::vfio_user {
namespace {

constexpr std::size_t kMaxFdsInARecord = 11;  // more than a message may have

// The lowest free descriptor number. It changes if a descriptor is left open.
int next_fd() {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(fd);
  return fd;
}

void check_replies(MessageSocket& replies) {
  while (true) {
    const auto message = replies.next_message();
    PVRDMA_CHECK(message, "replies that are no messages");
    if (*message) {
      const wire::Header& header = (*message)->header;
      if (header.command == Command::kDmaRead || header.command == Command::kDmaWrite) {
        if ((header.flags & kFlagTypeMask) == kFlagTypeCommand) continue;  // a request of the session
      }
      PVRDMA_CHECK((header.flags & kFlagTypeMask) == kFlagTypeReply, "a reply that is none");
      const bool error = (header.flags & kFlagError) != 0;
      PVRDMA_CHECK(error == (header.error != 0), "the error flag and number do not agree");
      PVRDMA_CHECK(!error || header.size_bytes == kHeaderBytes, "an error reply with a payload");
      continue;
    }
    const auto received = replies.receive();
    if (!received || !*received) return;
  }
}

void feed(std::span<const std::byte> input, int some_fd) {
  SocketPair pair;
  PVRDMA_CHECK(::fcntl(pair.theirs.get(), F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
  MessageSocket replies(Fd(::fcntl(pair.theirs.get(), F_DUPFD_CLOEXEC, 0)));
  RawPeer peer(std::move(pair.theirs));
  FakeHandler device;
  device.max_kept_calls = 0;
  device.migrates = kMigrationStopCopy | kMigrationPreCopy;
  device.logs = true;
  std::size_t made = 0, ended = 0;
  const RequestDone count_end = [&ended](int error, std::span<const std::byte> data) {
    PVRDMA_CHECK(data.empty() || (error == 0 && data.size() == 4), "data that was not asked for");
    ++ended;
  };
  Session session(std::move(pair.ours), device, "fuzz");

  while (input.size() >= 3) {
    const std::size_t fd_count = std::to_integer<std::size_t>(input[0]) % (kMaxFdsInARecord + 1);
    const std::size_t size = std::min<std::size_t>(read<std::uint16_t>(input, 1), input.size() - 3);
    const auto bytes = input.subspan(3, size);
    input = input.subspan(3 + size);
    if (!bytes.empty()) peer.send(bytes, std::vector<int>(fd_count, some_fd));
    for (bool busy = true; busy;) {
      const auto worked = session.run();
      if (!worked) {
        session.take_requests().fail_all(ECONNRESET);
        PVRDMA_CHECK(ended == made, "a request without an end");
        return;
      }
      check_replies(replies);
      busy = *worked || session.wants_write() || session.has_more();
    }
    if (session.can_request()) {
      if (fd_count % 2 == 0 && session.dma_read(0x1000, 4, count_end)) ++made;
      if (session.can_request() && session.dma_write(0x1000, std::array<std::byte, 2>{}, count_end)) ++made;
      if (fd_count == 5) session.expire_requests(session.next_deadline());
      PVRDMA_CHECK(ended <= made, "a request ended twice");
    }
  }
}

}  // namespace
}  // namespace pvrdma::vfio_user

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pvrdma::vfio_user;
  static const int some_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  static const bool quiet = [] {
    pvrdma::log::set_level(pvrdma::log::Level::kError);
    return true;
  }();
  PVRDMA_CHECK(quiet, "log level");
  const int before = next_fd();
  feed(std::as_bytes(std::span(data, size)), some_fd);
  // The first line's timestamp makes the log's thread open the time zone file.
  PVRDMA_CHECK(pvrdma::log::flush(std::chrono::seconds(10)), "the log is written");
  PVRDMA_CHECK(next_fd() == before, "a descriptor was left open");
  return 0;
}
