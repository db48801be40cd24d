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
#include <new>
#include <optional>
#include <utility>

namespace pvrdma::cluster {

template <typename Key, typename Value>
class KeyedNews {
 public:
  using Changes = std::map<Key, std::optional<Value>>;  // none: the key is not set any more

  // Without memory (bad_alloc) it changes nothing.
  void set(const Key& key, Value value) {
    auto node = find(key);
    if (node.empty()) {
      changed_.emplace(key, State{std::nullopt, std::move(value)});
    } else {
      node.mapped().now = std::move(value);
      put_back(std::move(node));
    }
  }

  // Allocates nothing: it tells of what cannot be refused.
  void clear(const Key& key) noexcept {
    auto node = find(key);
    if (node.empty()) return;
    node.mapped().now.reset();
    put_back(std::move(node));
  }

  bool empty() const { return changed_.empty(); }

  // `count` changes at most, or as many as there is memory for: what is left is still news.
  Changes take(std::size_t count) {
    Changes taken;
    try {
      while (!changed_.empty() && taken.size() < count) {
        const auto first = changed_.begin();
        std::optional<Value> known = first->second.now;
        taken.emplace(first->first, first->second.now);
        first->second.known = std::move(known);
        put_back(changed_.extract(first));
      }
    } catch (const std::bad_alloc&) {
    }
    return taken;
  }

 private:
  struct State {
    std::optional<Value> known;  // to the reader; none: as not set
    std::optional<Value> now;
  };
  using Keys = std::map<Key, State>;

  typename Keys::node_type find(const Key& key) noexcept {
    auto node = changed_.extract(key);
    return node.empty() ? settled_.extract(key) : std::move(node);
  }

  void put_back(typename Keys::node_type node) noexcept {
    const State& state = node.mapped();
    if (state.now != state.known) {
      changed_.insert(std::move(node));
    } else if (state.now) {
      settled_.insert(std::move(node));
    }
  }

  Keys settled_;  // set, and known as such
  Keys changed_;
};

}  // namespace pvrdma::cluster
