#include "vmm/monitor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <utility>

#include "base/passed_descriptors.h"
#include "base/peer.h"
#include "base/unix_client.h"
#include "base/unix_listener.h"

namespace pvrdma::vmm {
namespace {

constexpr Duration kRetryInterval = std::chrono::milliseconds(5);
constexpr std::size_t kReadBytes = 16 * 1024;
constexpr int kDepthMax = 64;
constexpr const char* kGone = "QEMU has gone";

}  // namespace

Json parse_json(std::string_view text) {
  const auto bounded = [](int depth, Json::parse_event_t, Json&) { return depth <= kDepthMax; };
  return Json::parse(text, bounded, false);
}

Result<std::unique_ptr<Monitor>> Monitor::connect(const std::string& path, Instant until) {
  if (const auto fits = unix_address("QEMU's monitor", path); !fits) return Failure(fits.error());
  while (true) {
    auto socket = connect_unix("QEMU's monitor", path);
    if (socket) {
      std::unique_ptr<Monitor> monitor(new Monitor(path, *std::move(socket)));
      if (auto agreed = monitor->agree(); !agreed) return Failure(std::move(agreed).error());
      return monitor;
    }
    const int code = socket.error().code;
    const bool may_come = code == ENOENT || code == ECONNREFUSED || code == EAGAIN;
    if (!may_come || Instant::now() >= until) {
      return fail_errno(code, fmt::format("QEMU's monitor cannot be reached at {}", path),
                        code == ENOENT   ? ErrorKind::kNotFound
                        : code == EAGAIN ? ErrorKind::kUnavailable
                                         : ErrorKind::kInternal);
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
}

Result<void> Monitor::agree() {
  if (const auto peer = peer_of(socket_.get())) pid_ = peer->pid;
  const auto greeting = read_line(Instant::now() + kPatience);
  if (!greeting && greeting.error().code == ETIMEDOUT) {
    return give_up(ETIMEDOUT,
                   "no greeting: it serves one client at a time, so give this one a monitor of its own",
                   ErrorKind::kUnavailable);
  }
  if (!greeting) return Failure(greeting.error());
  const Json said = parse_json(*greeting);
  if (!said.is_object() || !said.contains("QMP"))
    return give_up(EPROTO, "the program that listens there is not a QMP monitor");
  const auto agreed = execute("qmp_capabilities");
  if (!agreed) return Failure(agreed.error());
  return {};
}

Result<Json> Monitor::execute(std::string_view command, Json arguments) {
  return execute_with(command, std::move(arguments), -1);
}

Result<void> Monitor::give_fd(const std::string& name, int fd) {
  const auto given = execute_with("getfd", {{"fdname", name}}, fd);
  if (!given) return Failure(given.error());
  return {};
}

// `fd` is passed along unless it is -1.
Result<Json> Monitor::execute_with(std::string_view command, Json arguments, int fd) {
  if (!socket_)
    return fail(EPIPE, fmt::format("the monitor at {} is unusable after an earlier error", path_));
  const Json request{{"execute", command}, {"arguments", std::move(arguments)}};
  if (auto sent = send(request.dump() + "\n", fd, Instant::now() + kPatience); !sent)
    return Failure(sent.error());
  return answer(command);
}

Result<std::string> Monitor::human(const std::string& line) {
  auto printed = execute("human-monitor-command", {{"command-line", line}});
  if (!printed) return Failure(std::move(printed).error());
  if (!printed->is_string()) return give_up(EPROTO, "human-monitor-command returned no text");
  return printed->get<std::string>();
}

Result<Json> Monitor::answer(std::string_view command) {
  const Instant until = Instant::now() + kPatience;
  while (true) {
    const auto line = read_line(until);
    if (!line) return Failure(line.error());
    Json said = parse_json(*line);
    if (!said.is_object()) return give_up(EPROTO, "a line that is not a JSON object");
    if (said.contains("event")) continue;
    if (said.contains("return")) return std::move(said["return"]);
    const auto error = said.find("error");
    if (error == said.end()) return give_up(EPROTO, "an object that is not an answer");
    const auto why = text_of(*error, "desc");
    return fail(EREMOTEIO, fmt::format("QEMU refuses {}: {}", command, why ? *why : "without a reason"));
  }
}

Result<std::string> Monitor::read_line(Instant until) {
  std::size_t searched = 0;
  while (true) {
    if (const auto end = received_.find('\n', searched); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    searched = received_.size();
    if (searched > kLineBytesMax) return give_up(EPROTO, "a line of more than 1 MiB");
    if (auto ready = wait(POLLIN, until); !ready) return Failure(ready.error());
    received_.resize(searched + kReadBytes);
    const ssize_t got = ::recv(socket_.get(), received_.data() + searched, kReadBytes, 0);
    const int code = errno;
    received_.resize(searched + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return give_up(EPIPE, kGone);
    if (got < 0 && code != EAGAIN && code != EINTR) return give_up_socket(code);
  }
}

// The descriptor travels with the first byte.
Result<void> Monitor::send(const std::string& line, int fd, Instant until) {
  std::string_view rest = line;
  DescriptorRoom<1> room;
  while (!rest.empty()) {
    if (auto ready = wait(POLLOUT, until); !ready) return ready;
    iovec bytes{const_cast<char*>(rest.data()), rest.size()};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    if (fd >= 0) room.send_with(message, {&fd, 1});
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent > 0) fd = -1;
    if (sent >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return give_up_socket(errno);
    }
  }
  return {};
}

Result<void> Monitor::wait(short events, Instant until) {
  using std::chrono::milliseconds;
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - Instant::now());
    if (left.count() <= 0)
      // Even if other lines, such as events, keep coming.
      return give_up(ETIMEDOUT, "no answer in time", ErrorKind::kUnavailable);
    pollfd socket{socket_.get(), events, 0};
    const int ready = ::poll(&socket, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return give_up_socket(errno);
  }
}

// A QEMU that ends before it has read everything resets the connection.
Failure Monitor::give_up_socket(int code) {
  if (code == EPIPE || code == ECONNRESET) return give_up(EPIPE, kGone);
  return give_up(code, std::generic_category().message(code));
}

Failure Monitor::give_up(int code, std::string_view why, ErrorKind kind) {
  socket_.reset();
  return fail(kind, code, fmt::format("QEMU's monitor at {}: {}", path_, why));
}

Result<std::string> text_of(const Json& object, const char* member) {
  if (object.is_object()) {
    if (const auto found = object.find(member); found != object.end() && found->is_string())
      return found->get<std::string>();
  }
  return fail(EPROTO, fmt::format("QEMU's answer has no text \"{}\"", member));
}

}  // namespace pvrdma::vmm
