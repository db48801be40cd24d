#include "device/adapter_config.h"

#include <fmt/core.h>
#include <utility>

#include "device/capabilities.h"
#include "device/doorbell_memory.h"

namespace pvrdma::device {

Result<SavedIdentity> identity_of(const AdapterConfig& config) {
  const std::string who = fmt::format("adapter {}", config.name);
  if (!offers_roce(config.hardware_version, config.roce)) {
    return fail(fmt::format(
        "{}: hardware version {} offers RoCE v1 only; choose roce v1, or hardware version {} or later", who,
        number_of(config.hardware_version), number_of(kFirstWithRoceV2)));
  }
  if (auto checked = check_doorbells(config.doorbells); !checked) {
    return Failure(std::move(checked.error()).in(who));
  }
  verbs::Limits limits =
      within(config.budgets, config.limits.value_or(limits_of(config.hardware_version, config.profile)));
  limits.mtu = port_mtu(config.mtu);
  if (config.told) limits = *config.told;
  if (auto checked = check_limits(limits); !checked) return Failure(std::move(checked.error()).in(who));
  if (limits.max_srq != 0 && !offers_srq(config.hardware_version)) {
    return fail(fmt::format("{}: hardware version {} offers no shared receive queues; set max_srq to 0", who,
                            number_of(config.hardware_version)));
  }
  verbs::Rules rules = rules_of(config.hardware_version, config.roce, config.profile);
  rules.mapped_doorbells = config.doorbells == DoorbellMode::kMapped;
  return SavedIdentity{.name = config.name,
                       .mac = config.mac,
                       .hardware_version = config.hardware_version,
                       .roce = config.roce,
                       .profile = config.profile,
                       .doorbells = config.doorbells,
                       .limits = limits,
                       .rules = rules};
}

void keep_to(const SavedIdentity& identity, AdapterConfig& config) {
  config.mac = identity.mac;
  config.hardware_version = identity.hardware_version;
  config.roce = identity.roce;
  config.profile = identity.profile;
  config.doorbells = identity.doorbells;
  config.told = identity.limits;
  config.budgets.qps = identity.limits.max_qp;
  config.budgets.cqs = identity.limits.max_cq;
  config.budgets.srqs = identity.limits.max_srq;
  config.budgets.mrs = identity.limits.max_mr;
}

}  // namespace pvrdma::device
