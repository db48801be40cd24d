#include "control/plane/mirror.h"

#include "control/model/records.h"

namespace pvrdma::control {

std::vector<std::string> Mirror::replace(const std::vector<KeyValue>& records) {
  working_ = Inventory{};
  shown_.reset();
  guard_.reset();
  unreadable_.clear();
  std::vector<std::string> troubles;
  for (const KeyValue& record : records) take({record.key, record.value}, troubles);
  return troubles;
}

std::vector<std::string> Mirror::change(const std::vector<Change>& changes) {
  shown_.reset();
  std::vector<std::string> troubles;
  for (const Change& change : changes) take(change, troubles);
  return troubles;
}

std::shared_ptr<const Inventory> Mirror::inventory() {
  if (!shown_) shown_ = std::make_shared<const Inventory>(working_);
  return shown_;
}

void Mirror::take(const Change& change, std::vector<std::string>& troubles) {
  if (change.key == kGuardKey) guard_ = change.value;
  auto applied = apply(working_, change);
  if (applied) {
    unreadable_.erase(change.key);
    return;
  }
  if (change.value) {
    unreadable_.insert(change.key);
  } else {
    unreadable_.erase(change.key);
  }
  troubles.push_back(std::move(applied).error().message);
}

}  // namespace pvrdma::control
