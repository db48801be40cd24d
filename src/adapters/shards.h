// Shards: the shards of this host, as other threads know them: which one serves an adapter, and questions to
// that one or to all.
//
// While an adapter moves from one shard to another, two shards have it, or none. So no question is asked
// then: it waits until the move is over (Standstill).
//
// Thread: any but a shard's. Nobody asks while it has a Standstill itself.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
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

// How long a question to all shards may wait.
struct Patience {
  Duration shards = kShardPatience;
  Duration ward = kShardPatience;
};

// One shard. All are borrowed. All but the loop are used on the shard only, except the fabric's transports,
// which other threads may read, because they do not change.
struct Shard {
  shard::Loop& loop;
  AdapterSet& adapters;
  fabric::Fabric& fabric;
  transport::Roce* roce = nullptr;          // null: no links to native endpoints
  transport::Siblings* siblings = nullptr;  // null: the host has no other shard
  bool is_ward = false;                     // only the last one may be

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
  std::size_t count() const { return shards_.size(); }
  auto begin() const { return shards_.begin(); }
  auto end() const { return shards_.end(); }

  // A shard that serves an adapter. The adapter stays there while this exists.
  class Serving {
   public:
    const Shard* operator->() const { return shard_; }

   private:
    friend class Shards;
    Serving(std::shared_lock<std::shared_mutex> stays, const Shard& shard)
        : stays_(std::move(stays)), shard_(&shard) {}
    std::shared_lock<std::shared_mutex> stays_;
    const Shard* shard_;
  };
  // The shard that serves the adapter. Asks them all if there are several, and does not wait for those after
  // the one that has it. A single shard is not asked, so whoever asks it next learns whether it has the
  // adapter. Errors: kNotFound; those of shard::ask().
  Result<Serving> of(const std::string& adapter) const;

  // As Shard::on(), on the shard that serves the adapter.
  template <typename Work>
  auto on(const std::string& adapter, Work work, const char* what) const
      -> std::invoke_result_t<Work, ServedAdapter&> {
    const auto shard = of(adapter);
    if (!shard) return Failure(shard.error());
    return (*shard)->on(adapter, std::move(work), what);
  }

  // The ward's index, the last one; empty: the host has no ward. The thread of the ward may sleep for
  // seconds, because of its adapters' memory.
  std::optional<std::uint32_t> ward() const {
    return shards_.back().is_ward ? std::optional(static_cast<std::uint32_t>(count() - 1)) : std::nullopt;
  }

  // For messages: "shard 1", "shard 2, the ward".
  std::string name_of(std::size_t index) const;

  // As shard::ask_all(): `question` takes the shard's index.
  template <typename Question>
  auto ask_all(const Question& question, const char* what, const Patience& patience = {}) const {
    const auto stays = share();
    std::optional<shard::Asked<std::invoke_result_t<Question, std::size_t>>> of_ward;
    if (const auto index = ward())
      of_ward.emplace(
          *loops_.back(), [question, i = *index]() mutable { return question(i); }, what);
    auto answers = shard::ask_all(without_ward(), patience.shards, question, what);
    if (of_ward) answers.push_back(of_ward->wait(patience.ward));
    return answers;
  }
  template <typename Question>
  auto ask_all_but_ward(const Question& question, const char* what) const {
    const auto stays = share();
    return shard::ask_all(without_ward(), kShardPatience, question, what);
  }

  // While it exists, no other thread asks the shards through this object.
  class Standstill {
   public:
    // The index of the shard that serves the adapter. Errors: as of().
    Result<std::size_t> shard_of(const std::string& adapter) const { return shards_.find(adapter); }

   private:
    friend class Shards;
    Standstill(const Shards& shards, std::unique_lock<std::shared_mutex> alone)
        : shards_(shards), alone_(std::move(alone)) {}
    const Shards& shards_;
    std::unique_lock<std::shared_mutex> alone_;
  };
  // Waits until all questions that were asked before have been answered, for a second at most: one that has
  // begun in the ward may sleep there. Error: kUnavailable.
  Result<Standstill> stand_still() const;

 private:
  // The caller shares or has moving_.
  Result<std::size_t> find(const std::string& adapter) const;
  std::shared_lock<std::shared_mutex> share() const;
  std::span<shard::Loop* const> without_ward() const {
    return std::span(loops_).first(count() - (ward() ? 1 : 0));
  }

  const std::vector<Shard> shards_;
  std::vector<shard::Loop*> loops_;  // in the same order
  // Had by a move, shared by each question. turn_ is held while waiting for it, so that questions that come
  // one after the other do not keep a move waiting.
  mutable std::mutex turn_;
  mutable std::shared_mutex moving_;
};

}  // namespace pvrdma::adapters
