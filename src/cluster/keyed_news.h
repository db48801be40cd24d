// KeyedNews: passes the current values of many keys to one reader.
//
// Only the newest value of a key counts. It replaces a change that the reader has not taken yet, and a key
// that again has the value known to the reader is no change. So the memory is bounded by the keys that are
// set and the keys that the reader knows as set, however often they change. A writer never waits for room,
// and no current change is dropped.
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
  using Changes = std::map<Key, std::optional<Value>>;  // empty: the key is no longer set

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

  // Changes the value of a key that is set: `change` gets it and must not throw. Allocates nothing.
  template <typename Change>
  void update(const Key& key, Change change) noexcept {
    auto node = find(key);
    if (node.empty()) return;
    if (node.mapped().now) change(*node.mapped().now);
    put_back(std::move(node));
  }

  // Allocates nothing, because the event that it reports cannot be refused.
  void clear(const Key& key) noexcept {
    auto node = find(key);
    if (node.empty()) return;
    node.mapped().now.reset();
    put_back(std::move(node));
  }

  bool empty() const { return changed_.empty(); }

  // Takes at most `count` changes, or as many as there is memory for. The others can be taken later.
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
    std::optional<Value> known;  // by the reader; empty: known as not set
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

  Keys settled_;  // set, and the reader knows that
  Keys changed_;
};

}  // namespace pvrdma::cluster
