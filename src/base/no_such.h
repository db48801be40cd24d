// no_such(): the one sentence for an object that a request names and that does not exist. Thread: values.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace pvrdma {

// "there is no VM "x": pvrdmactl vm list shows them". `command` is the list's: "vm".
inline Error no_such(std::string_view kind, std::string_view name, std::string_view command) {
  std::string sentence = "there is no ";
  sentence.append(kind).append(" \"").append(name).append("\": pvrdmactl ");
  sentence.append(command).append(" list shows them");
  return {.message = std::move(sentence), .kind = ErrorKind::kNotFound};
}

}  // namespace pvrdma
