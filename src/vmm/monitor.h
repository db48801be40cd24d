// Monitor: a client of a QEMU's QMP monitor, over a UNIX socket.
//
// The VMM is not trusted: the length of a line and the depth of its JSON are bounded, and every wrong answer
// is an Error. The client ignores events; callers poll instead. After any error except a refusal by QEMU the
// stream is in an unknown state, so every later call fails.
//
// Thread: one at a time, which may block: never the shard. Source: QEMU docs/interop/qmp-spec.rst.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

namespace pvrdma::vmm {

using Json = nlohmann::json;

class Monitor {
 public:
  static constexpr std::size_t kLineBytesMax = 1u << 20;
  // The time limit of one answer. A VMM needs long if its administrator has stopped it, or if its host is
  // overloaded.
  static constexpr Duration kPatience = std::chrono::seconds(10);

  // Connects and negotiates capabilities. Until `until` it tries again while nobody listens. Errors, each one
  // sentence with the path: ENOENT or ECONNREFUSED (nobody listens), EACCES, EPROTO (not a QMP monitor),
  // ETIMEDOUT (another client uses the monitor).
  static Result<std::unique_ptr<Monitor>> connect(const std::string& path, Instant until);

  // Returns the command's result. Error EREMOTEIO: QEMU refused the command, in its own words. After another
  // error the monitor is unusable: EPIPE (QEMU has gone), EPROTO, ETIMEDOUT, or the socket's errno.
  Result<Json> execute(std::string_view command, Json arguments = Json::object());
  // Passes a descriptor to QEMU, which knows it by `name` afterwards. `fd` is borrowed. Errors: as for
  // execute().
  Result<void> give_fd(const std::string& name, int fd);
  // Executes a line of the human monitor (HMP) and returns its output.
  Result<std::string> human(const std::string& line);

  const std::string& path() const { return path_; }
  pid_t pid() const { return pid_; }  // of QEMU
  bool works() const { return static_cast<bool>(socket_); }

 private:
  Monitor(std::string path, Fd socket) : path_(std::move(path)), socket_(std::move(socket)) {}

  Result<void> agree();
  Result<Json> answer(std::string_view command);
  Result<std::string> read_line(Instant until);
  Result<Json> execute_with(std::string_view command, Json arguments, int fd);
  Result<void> send(const std::string& line, int fd, Instant until);
  Result<void> wait(short events, Instant until);
  Failure give_up_socket(int code);
  Failure give_up(int code, std::string_view why, ErrorKind kind = ErrorKind::kInternal);

  const std::string path_;
  Fd socket_;  // empty: the monitor is unusable
  std::string received_;
  pid_t pid_ = 0;
};

// Parses JSON of bounded depth and throws nothing. Invalid text gives a discarded() value, which is not an
// object.
Json parse_json(std::string_view text);

// A member of the expected type, or an EPROTO sentence that names it: the VMM's answer may be anything.
Result<std::string> text_of(const Json& object, const char* member);

}  // namespace pvrdma::vmm
