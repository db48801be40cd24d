#include "fabric/lenders.h"

#include <new>
#include <utility>

namespace pvrdma::fabric {

class Lenders::Lender final : public Blame::Party {
 public:
  Lender(Blame& blame, std::string name, const Tell& tell)
      : Party(blame), name_(std::move(name)), tell_(tell) {}

  void on_blamed(Duration took) override { tell_(name_, took); }
  std::string what() const override { return "adapter " + name_; }

 private:
  const std::string name_;
  const Tell& tell_;
};

Lenders::Lenders(Blame& blame, HostGids& host, Tell tell)
    : blame_(blame), host_(host), tell_(std::move(tell)) {}

Lenders::~Lenders() = default;

Blame::Party* Lenders::find(HostGids::PortNumber port) {
  if (const auto known = by_port_.find(port.value); known != by_port_.end()) return known->second.get();
  try {
    std::string name = host_.name_of(port);
    if (name.empty()) return nullptr;
    if (by_port_.size() == kMax) by_port_.clear();
    auto lender = std::make_unique<Lender>(blame_, std::move(name), tell_);
    return by_port_.emplace(port.value, std::move(lender)).first->second.get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace pvrdma::fabric
