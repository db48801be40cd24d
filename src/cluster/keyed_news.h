// KeyedNews: how each of many keys is now, told to one reader who was told before.
//
// Only the newest counts: a change that the reader has not taken is replaced by a later one of its key, and a
// key that is again as the reader knows it is no news. So it holds at most the keys that are set and those
// that the reader knows as set, however often they change: whoever tells never waits for room, and nothing
// that still counts is dropped.
//
// Thread: as its owner.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace pvrdma::cluster {

template <typename Key, typename Value>
class KeyedNews {
 public:
  using Changes = std::map<Key, std::optional<Value>>;  // none: the key is not set any more

  void set(const Key& key, Value value) { change(key, std::move(value)); }
  void clear(const Key& key) { change(key, std::nullopt); }

  bool empty() const { return changes_.empty(); }

  // `count` changes at most: what is left is still news.
  Changes take(std::size_t count) {
    Changes taken;
    while (!changes_.empty() && taken.size() < count) {
      auto change = changes_.extract(changes_.begin());
      if (change.mapped()) {
        known_.insert_or_assign(change.key(), *change.mapped());
      } else {
        known_.erase(change.key());
      }
      taken.insert(std::move(change));
    }
    return taken;
  }

 private:
  void change(const Key& key, std::optional<Value> now) {
    const auto known = known_.find(key);
    const bool is_known = known == known_.end() ? !now : now == known->second;
    if (is_known) {
      changes_.erase(key);
    } else {
      changes_.insert_or_assign(key, std::move(now));
    }
  }

  std::map<Key, Value> known_;  // to the reader
  Changes changes_;             // what is otherwise than known_
};

}  // namespace pvrdma::cluster
