// ObjectTable<T>: owns at most `limit` objects, each known by its slot number.
//
// It assigns slots round robin, so that a freed number is reused as late as possible. Thread: shard-owned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace pvrdma::verbs {

// Destroys objects from the end, `budget` at most, and takes them off it. Empty places cost nothing. Objects
// vanish at once for their guest and its peers, in one command however many there are; their memory is given
// back in slices, as that takes far longer (Engine::run).
template <typename T>
void bury(std::vector<std::unique_ptr<T>>& dead, std::uint32_t& budget) {
  while (!dead.empty() && budget != 0) {
    if (dead.back() != nullptr) --budget;
    dead.pop_back();
  }
}

template <typename T>
class ObjectTable {
 public:
  // Assigns the slots first_slot … limit-1.
  ObjectTable(std::uint32_t first_slot, std::uint32_t limit)
      : first_(first_slot), limit_(limit), next_(first_slot) {}

  // The slot for the next insert_at(); nothing if the table is full.
  std::optional<std::uint32_t> free_slot() {
    if (limit_ <= first_) return std::nullopt;
    for (std::uint32_t tried = first_; tried < limit_; ++tried) {
      const std::uint32_t slot = next_;
      next_ = next_ + 1 == limit_ ? first_ : next_ + 1;
      if (find(slot) == nullptr) return slot;
    }
    return std::nullopt;
  }

  // Continues assigning slots where `before`, a table of the same size, stopped.
  void follow(const ObjectTable& before) { next_ = before.next_; }

  // The slot at which assignment continues. go_on_at() returns false if the table has no such slot.
  std::uint32_t next_slot() const { return next_; }
  bool go_on_at(std::uint32_t slot) {
    if (slot < first_ || slot >= std::max(limit_, first_ + 1)) return false;
    next_ = slot;
    return true;
  }
  // Whether free_slot() could return it.
  bool may_hand_out(std::uint32_t slot) const { return slot >= first_ && slot < limit_; }

  // `slot` must be free and below the limit.
  T& insert_at(std::uint32_t slot, std::unique_ptr<T> object) {
    if (slot >= slots_.size()) slots_.resize(slot + 1);
    slots_[slot] = std::move(object);
    ++count_;
    return *slots_[slot];
  }

  T* find(std::uint32_t slot) const { return slot < slots_.size() ? slots_[slot].get() : nullptr; }

  // Returns null if the slot is empty.
  std::unique_ptr<T> remove(std::uint32_t slot) {
    if (find(slot) == nullptr) return nullptr;
    --count_;
    return std::move(slots_[slot]);
  }

  // Moves the objects that `gone` selects to the end of `to`, in one pass.
  template <typename Gone>
  void move_if(Gone&& gone, std::vector<std::unique_ptr<T>>& to) {
    constexpr std::size_t kAhead = 8;  // prefetch distance
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slot + kAhead < slots_.size()) __builtin_prefetch(slots_[slot + kAhead].get());
      std::unique_ptr<T>& object = slots_[slot];
      if (object == nullptr || !gone(*object)) continue;
      to.push_back(std::move(object));
      --count_;
    }
  }

  // Destroys up to `budget` objects of a table that is no longer used.
  void bury_all(std::uint32_t& budget) { bury(slots_, budget); }

  void clear() {
    for (std::unique_ptr<T>& object : slots_) object.reset();
    count_ = 0;
  }

  std::uint32_t count() const { return count_; }

  template <typename F>
  void for_each(F&& visit) const {
    for (std::uint32_t slot = 0; slot < end(); ++slot) {
      if (slots_[slot]) visit(slot, *slots_[slot]);
    }
  }
  // One past the last slot ever used.
  std::uint32_t end() const { return static_cast<std::uint32_t>(slots_.size()); }

 private:
  std::uint32_t first_;
  std::uint32_t limit_;
  std::uint32_t next_;
  std::uint32_t count_ = 0;
  std::vector<std::unique_ptr<T>> slots_;
};

}  // namespace pvrdma::verbs
