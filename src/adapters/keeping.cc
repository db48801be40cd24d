#include "adapters/keeping.h"

#include "base/log.h"

namespace pvrdma::adapters {

void Keeping::give_back(std::map<std::string, GivenBack> given) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, record] : given)
    given_.emplace(name, std::make_shared<const GivenBack>(std::move(record)));
}

std::shared_ptr<const GivenBack> Keeping::given(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = given_.find(name);
  return found != given_.end() ? found->second : nullptr;
}

void Keeping::taken_back(const std::string& name) {
  Records::node_type record;  // destroyed without the lock, because it closes descriptors
  const std::lock_guard lock(mutex_);
  record = given_.extract(name);
}

void Keeping::drop_all_but(const std::set<std::string>& wanted) {
  Records dropped;
  {
    const std::lock_guard lock(mutex_);
    for (auto each = given_.begin(); each != given_.end();) {
      const auto next = std::next(each);
      if (!wanted.contains(each->first)) dropped.insert(given_.extract(each));
      each = next;
    }
  }
  for (const auto& [name, record] : dropped) {
    log::warn("adapter {}: it was kept, but this host no longer serves it: its client loses it", name);
    remove_files(*record);
  }
  if (!dropped.empty()) notice();
}

}  // namespace pvrdma::adapters
