// no_such(): the one sentence for an object that a request names and that does not exist. Thread: values.
#pragma once

#include <fmt/core.h>
#include <string_view>

#include "base/result.h"

namespace pvrdma {

// "there is no VM "x": pvrdmactl vm list shows them". `command` is the list's: "vm".
inline Error no_such(std::string_view kind, std::string_view name, std::string_view command) {
  return {.message = fmt::format("there is no {} \"{}\": pvrdmactl {} list shows them", kind, name, command),
          .kind = ErrorKind::kNotFound};
}

}  // namespace pvrdma
