// EachStoreWay: a test that runs once for each way in which this CPU can copy, and once more ("string") with
// string instructions also for short copies. Use INSTANTIATE_STORE_WAYS(Suite) once for each suite.
#pragma once

#include <gtest/gtest.h>
#include <ostream>
#include <string>
#include <vector>

#include "guestmem/store_way.h"

namespace pvrdma::guestmem {

struct NamedStoreWay {
  StoreWay way;
  std::string name;
};

inline std::vector<NamedStoreWay> store_ways_to_test() {
  std::vector<NamedStoreWay> out;
  for (const StoreWay& way : store_ways()) out.push_back({way, way.name});
  StoreWay early = store_ways().back();
  if (early.long_copy == early.lines) return out;
  early.long_above = kLineBytes;
  out.push_back({early, "string"});
  return out;
}

inline std::ostream& operator<<(std::ostream& out, const NamedStoreWay& named) {
  return out << named.name;
}

class EachStoreWay : public ::testing::TestWithParam<NamedStoreWay> {
 protected:
  EachStoreWay() { set_store_way(GetParam().way); }
  ~EachStoreWay() override { set_store_way(usual_); }

  const StoreWay usual_ = store_way();
};

}  // namespace pvrdma::guestmem

#define INSTANTIATE_STORE_WAYS(suite)                                                                  \
  INSTANTIATE_TEST_SUITE_P(Ways, suite, ::testing::ValuesIn(::pvrdma::guestmem::store_ways_to_test()), \
                           [](const auto& info) { return info.param.name; })
