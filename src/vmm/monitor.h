// Monitor: a QEMU's QMP monitor, as its client over a UNIX socket.
//
// The VMM is not trusted: a line has a bound, JSON is no deeper than it needs to be, and whatever it says
// wrongly is an Error. Events are passed over: who wants to know asks. After an error other than QEMU's own
// refusal nothing can be told of what comes next, so every later call fails.
//
// Thread: one at a time, which may block: never the shard.
// Source: QEMU docs/interop/qmp-spec.rst.
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
  // Of one answer. A VMM that is stopped by its administrator, or whose host is starved, takes long.
  static constexpr Duration kPatience = std::chrono::seconds(10);

  // Connects and agrees on capabilities; tries again until `until` while nobody listens there. Errors: one
  // sentence with the path; ENOENT or ECONNREFUSED: nobody listens; EACCES; EPROTO: it is no QMP monitor;
  // ETIMEDOUT: another client has it.
  static Result<std::unique_ptr<Monitor>> connect(const std::string& path, Instant until);

  // What the command returned. Errors: EREMOTEIO: QEMU refused it, in its own words; otherwise the monitor is
  // of no use any more: EPIPE (QEMU has gone), EPROTO, ETIMEDOUT, or the socket's errno.
  Result<Json> execute(std::string_view command, Json arguments = Json::object());
  // Gives QEMU a descriptor, which it knows by `name` from then on. `fd` is borrowed. Errors: as execute().
  Result<void> give_fd(const std::string& name, int fd);
  // A line for people (HMP), and what was printed.
  Result<std::string> human(const std::string& line);

  const std::string& path() const { return path_; }
  pid_t pid() const { return pid_; }  // of the QEMU
  bool works() const { return static_cast<bool>(socket_); }

 private:
  Monitor(std::string path, Fd socket) : path_(std::move(path)), socket_(std::move(socket)) {}

  Result<void> agree();
  Result<Json> answer(std::string_view command);
  Result<std::string> read_line(Instant until);
  Result<Json> execute_with(std::string_view command, Json arguments, int fd);
  Result<void> send(const std::string& line, int fd, Instant until);
  Result<void> wait(short events, Instant until);
  Failure give_up(int code, std::string_view why);

  const std::string path_;
  Fd socket_;  // empty: of no use any more
  std::string received_;
  pid_t pid_ = 0;
};

// No deeper than it needs to be, and no exception: what cannot be read is discarded(), which is no object.
Json parse_json(std::string_view text);

// The member of that type, or an EPROTO sentence that names it: what a VMM answered need not be what was
// asked for.
Result<std::string> text_of(const Json& object, const char* member);

}  // namespace pvrdma::vmm
