// Shards: the shards of this host, as other threads know them: which one serves an adapter, and questions to
// that one or to all.
//
// Thread: any but a shard's. Immutable.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "adapters/adapter_set.h"
#include "base/no_such.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/fabric.h"
#include "shard/ask.h"
#include "shard/loop.h"
#include "transport/roce/roce.h"
#include "transport/siblings/siblings.h"

namespace pvrdma::adapters {

inline constexpr Duration kShardPatience = std::chrono::seconds(2);

// One shard. All are borrowed. All but the loop are used on the shard only, except the fabric's transports,
// which other threads may read, because they do not change.
struct Shard {
  shard::Loop& loop;
  AdapterSet& adapters;
  fabric::Fabric& fabric;
  transport::Roce* roce = nullptr;          // null: no links to native endpoints
  transport::Siblings* siblings = nullptr;  // null: the host has no other shard

  // Runs `work` on the shard and returns what it returns, a Result. `work` takes the ServedAdapter&. Further
  // errors: kNotFound: the shard has no such adapter; those of shard::ask().
  template <typename Work>
  auto on(const std::string& adapter, Work work, const char* what) const
      -> std::invoke_result_t<Work, ServedAdapter&> {
    using Answer = std::invoke_result_t<Work, ServedAdapter&>;
    auto answer = shard::ask(
        loop, kShardPatience,
        [&adapters = adapters, adapter, work = std::move(work)]() mutable -> std::optional<Answer> {
          ServedAdapter* const served = adapters.find(adapter);
          if (served == nullptr) return std::nullopt;
          return work(*served);
        },
        what);
    if (!answer) return Failure(std::move(answer).error());
    if (!*answer) return Failure(no_such("adapter", adapter, "adapter"));
    return **std::move(answer);
  }
};

class Shards {
 public:
  // At least one. They outlive this.
  explicit Shards(std::vector<Shard> shards);

  const Shard& operator[](std::size_t index) const { return shards_[index]; }
  auto begin() const { return shards_.begin(); }
  auto end() const { return shards_.end(); }

  // The shard that serves the adapter. Asks them all if there are several. A single shard is not asked, so
  // whoever asks it next learns whether it has the adapter. Errors: kNotFound; those of shard::ask().
  Result<const Shard*> of(const std::string& adapter) const;

  // As Shard::on(), on the shard that serves the adapter.
  template <typename Work>
  auto on(const std::string& adapter, Work work, const char* what) const
      -> std::invoke_result_t<Work, ServedAdapter&> {
    const auto shard = of(adapter);
    if (!shard) return Failure(shard.error());
    return (*shard)->on(adapter, std::move(work), what);
  }

  // As shard::ask_all(): `question` takes the shard's index.
  template <typename Question>
  auto ask_all(const Question& question, const char* what, Duration patience = kShardPatience) const {
    return shard::ask_all(loops_, patience, question, what);
  }

 private:
  const std::vector<Shard> shards_;
  std::vector<shard::Loop*> loops_;  // in the same order
};

}  // namespace pvrdma::adapters
