// BoundedVec<T, N>: a vector of at most N elements stored in place; never allocates. Thread: a value.
#pragma once

#include <array>
#include <cstddef>

#include "base/check.h"

namespace pvrdma {

template <typename T, std::size_t N>
class BoundedVec {
 public:
  // False (and no change) when full.
  [[nodiscard]] bool push_back(const T& item) {
    if (count_ == N) return false;
    items_[count_++] = item;
    return true;
  }
  void clear() { count_ = 0; }
  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  static constexpr std::size_t capacity() { return N; }

  T& operator[](std::size_t i) { return items_[checked(i)]; }
  const T& operator[](std::size_t i) const { return items_[checked(i)]; }
  T& back() { return items_[checked(count_ - 1)]; }
  const T* begin() const { return items_.data(); }
  const T* end() const { return items_.data() + count_; }
  T* begin() { return items_.data(); }
  T* end() { return items_.data() + count_; }

 private:
  std::size_t checked(std::size_t i) const {
    PVRDMA_CHECK(i < count_, "index beyond the bounded vector's size");
    return i;
  }

  std::array<T, N> items_{};
  std::size_t count_ = 0;
};

}  // namespace pvrdma
