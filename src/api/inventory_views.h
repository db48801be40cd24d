// The inventory's objects as the API shows them: to a request, and to watchers.
//
// Thread: values.
#pragma once

#include <string>
#include <vector>

#include "adapters/adapter_trouble.h"
#include "control/model/views.h"

namespace pvrdma::api {

// `self` is the host that answers.
std::vector<control::HostView> host_views(const control::Inventory& inventory, const std::string& self);
std::vector<control::DvsView> switch_views(const control::Inventory& inventory);
// `troubles` are the adapters that the host `self` cannot serve.
control::VmView vm_view(const control::Inventory& inventory, const control::Vm& vm, const std::string& self,
                        const std::vector<adapters::AdapterTrouble>& troubles);
std::vector<control::VmView> vm_views(const control::Inventory& inventory, const std::string& self,
                                      const std::vector<adapters::AdapterTrouble>& troubles);

}  // namespace pvrdma::api
