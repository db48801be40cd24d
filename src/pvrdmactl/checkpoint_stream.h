// CheckpointStream: takes the daemon's answer to a checkpoint request, in pieces cut anywhere: lines of JSON,
// and after the line with the state's size the bytes of the adapter's state.
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
    // Called once, when the state is complete. It is stored when this returns.
    std::function<Result<void>(const Json& line, std::string_view state)> keep;
  };

  explicit CheckpointStream(Handlers handlers) : handlers_(std::move(handlers)) {}

  // Errors: ECANCELED (the daemon's error, in its words; the VM goes on), an answer that this version does
  // not expect, or keep()'s error.
  Result<void> take(std::string_view bytes);

  bool kept() const { return kept_; }

 private:
  Result<void> take_line(std::string_view text);

  const Handlers handlers_;
  std::string rest_;
  Json line_;                    // the line before the state
  std::size_t state_bytes_ = 0;  // 0: expects lines
  bool kept_ = false;
};

}  // namespace pvrdma::ctl
