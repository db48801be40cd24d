// Records: an Inventory as keys and values of a store, and back. The values are JSON texts. Each version
// reads records of others: it ignores unknown members, and missing ones get their defaults.
//
// Keys, below a prefix that the store adds:
//   config                       {"revision", "next_dvs_id", "cluster_id"}: the guard that every edit
//   compares and rewrites config/host/NAME             Host config/dvs/NAME              Dvs config/vm/NAME
//   Vm live/host/NAME               LiveHost         (under the host's lease, as all of live/) live/power/VM
//   host name, plain text (not JSON) live/gid/DVS.VLAN/GID        GidHolder        (DVS: the switch's id)
//
// Thread: values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/model/inventory.h"
#include "control/store/store.h"

namespace pvrdma::control {

inline constexpr std::string_view kGuardKey = "config";

// Applies one change of the store. Error: this version does not understand the key or value; the inventory is
// unchanged then.
Result<void> apply(Inventory& inventory, const Change& change);

// What has to be written to get from one configuration to another: first what is deleted, then the guard and
// the objects that are new or different. Only these are made into text. Live records are not looked at.
std::vector<Change> difference(const Inventory& before, const Inventory& after);

// Live records.
std::string live_host_key(const std::string& host);
std::string live_host_value(const LiveHost& host);
std::string power_key(const std::string& vm);
std::string gid_key(const GidKey& key);
std::string gid_value(const GidHolder& holder);

}  // namespace pvrdma::control
