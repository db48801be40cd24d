// CheckpointStream: takes what the daemon sends of a checkpoint, in pieces cut anywhere: lines of JSON, and
// behind the one that says how many, the bytes of the adapter's state.
//
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

class CheckpointStream {
 public:
  struct Handlers {
    std::function<void(const Json& line)> progress;
    // Once, when all of it is there: it is kept when this returns.
    std::function<Result<void>(const Json& line, std::string_view state)> keep;
  };

  explicit CheckpointStream(Handlers handlers) : handlers_(std::move(handlers)) {}

  // Errors: ECANCELED: the daemon's, in its words, and the VM goes on; this is not what this version expects;
  // what keep() says.
  Result<void> take(std::string_view bytes);

  bool kept() const { return kept_; }

 private:
  Result<void> take_line(std::string_view text);

  const Handlers handlers_;
  std::string rest_;
  Json line_;                    // the one that the state follows
  std::size_t state_bytes_ = 0;  // 0: lines are taken
  bool kept_ = false;
};

}  // namespace pvrdma::ctl
