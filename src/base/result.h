// Results of operations on the environment (sockets, files, configuration, memory maps).
//
// An Error is one sentence for a person: it names the object, the value and the way out. Outcomes that a
// guest or a peer can cause are no Errors but enumerated protocol results (see verbs/status.h,
// device/command_executor.h). Thread: values, any thread.
#pragma once

#include <string>
#include <system_error>
#include <tl/expected.hpp>
#include <utility>

namespace pvrdma {

struct [[nodiscard]] Error {
  int code = 0;         // errno-like; 0 where none applies
  std::string message;  // complete sentence without a final full stop

  // Puts what the caller was doing in front: "CONTEXT: MESSAGE".
  Error in(std::string_view context) && {
    message.insert(0, ": ").insert(0, context);
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

// "DOING: strerror(errno)".
inline Failure fail_errno(int code, std::string_view doing) {
  return Failure(Error{code, std::string(doing) + ": " + std::generic_category().message(code)});
}

}  // namespace pvrdma
