// must(): the value of a Result in a test; without one the test ends with the Error's sentence. Thread: any.
#pragma once

#include <stdexcept>
#include <utility>

#include "base/result.h"

namespace pvrdma::test {

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

inline void must(Result<> result) {
  if (!result) throw std::runtime_error(result.error().message);
}

// The code of the Error that has to be there; 0 when there is none.
template <typename T>
int code_of(const Result<T>& result) {
  return result ? 0 : result.error().code;
}

}  // namespace pvrdma::test
