// must(): the value of a Result in a test. If it is an Error, the test ends with its sentence. Thread: any.
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

// The code of a Result that must be an Error; 0 if it is not.
template <typename T>
int code_of(const Result<T>& result) {
  return result ? 0 : result.error().code;
}
// The kind of the Error that has to be there; kInternal when there is none.
template <typename T>
ErrorKind kind_of(const Result<T>& result) {
  return result ? ErrorKind::kInternal : result.error().kind;
}

}  // namespace pvrdma::test
