// Results of operations on the environment (sockets, files, configuration, memory maps).
//
// An Error is one sentence for a person: it names the object, the value and the way out. Outcomes that a
// guest or a peer can cause are no Errors but enumerated protocol results (see verbs/status.h,
// device/command_executor.h). Thread: values, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <tl/expected.hpp>
#include <utility>

namespace pvrdma {

// What an error means for the client whose request failed. The API makes its HTTP status from it
// (api/router.cc), so the code that creates an error that a client may see says its kind.
enum class ErrorKind : std::uint8_t {
  kInternal,     // none of the others; the client can do nothing about it
  kInvalid,      // the client must change the request: a value is not allowed, or a limit is reached
  kNotFound,     // an object that the request names or needs does not exist or is away
  kConflict,     // an object exists already or is in use, or a rule forbids the request now
  kUnavailable,  // the daemon or what it depends on cannot answer now: the same request may succeed later
};

struct [[nodiscard]] Error {
  int code = 0;         // the errno of the system, or one that the function's declaration names; 0: neither
  std::string message;  // complete sentence without a final full stop
  ErrorKind kind = ErrorKind::kInternal;
  // The member of a client's request that is wrong, "adapter.mac"; empty: it is about several, or none.
  std::string field = {};

  // Puts what the caller was doing in front: "CONTEXT: MESSAGE".
  Error in(std::string_view context) && {
    message.insert(0, ": ").insert(0, context);
    return std::move(*this);
  }
  // For a caller that knows better than the error's creator what it means for the client.
  Error as(ErrorKind other) && {
    kind = other;
    return std::move(*this);
  }
  // For a caller that knows in which member of the client's request the value was.
  Error about(std::string member) && {
    field = std::move(member);
    return std::move(*this);
  }
};

template <typename T = void>
using Result = tl::expected<T, Error>;

using Failure = tl::unexpected<Error>;

inline Failure fail(int code, std::string message) {
  return Failure(Error{code, std::move(message)});
}
inline Failure fail(std::string message) {
  return Failure(Error{0, std::move(message)});
}

inline Failure fail(ErrorKind kind, std::string message, std::string field = {}) {
  return Failure(Error{0, std::move(message), kind, std::move(field)});
}
inline Failure fail(ErrorKind kind, int code, std::string message) {
  return Failure(Error{code, std::move(message), kind});
}

// "DOING: strerror(errno)".
inline Failure fail_errno(int code, std::string_view doing, ErrorKind kind = ErrorKind::kInternal) {
  return Failure(Error{code, std::string(doing) + ": " + std::generic_category().message(code), kind});
}

}  // namespace pvrdma
