// Strong<Tag, Int>: an integer that does not mix with other integers. Thread: values.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>

namespace pvrdma {

template <typename Tag, typename Int>
struct Strong {
  using Underlying = Int;
  Int value{};

  constexpr Strong() = default;
  constexpr explicit Strong(Int v) : value(v) {}
  friend constexpr auto operator<=>(Strong, Strong) = default;
};

}  // namespace pvrdma

template <typename Tag, typename Int>
struct std::hash<pvrdma::Strong<Tag, Int>> {
  std::size_t operator()(pvrdma::Strong<Tag, Int> s) const noexcept { return std::hash<Int>{}(s.value); }
};
