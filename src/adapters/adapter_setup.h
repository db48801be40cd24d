// What an adapter is made of, from its configuration and from what its client was told.
//
// Thread: values.
#pragma once

#include "adapters/kept_record.h"
#include "adapters/served_adapter.h"
#include "adapters/wanted_adapter.h"
#include "control/config/config.h"
#include "verbs/host_account.h"
#include "vocabulary/budgets.h"

namespace pvrdma::adapters {

// `account` is borrowed and may be null.
AdapterSetup to_setup(const control::AdapterConfig& adapter, const Budgets& budgets,
                      verbs::HostAccount* account);

// Of a VM of the cluster, which maps no more than its memory needs.
AdapterSetup to_setup(const WantedAdapter& wanted, const Budgets& budgets, verbs::HostAccount* account);

// If the adapter has a kept client, it keeps the properties that this client was told, whatever is configured
// now. True: they differ from the configuration.
bool keep_to_client(AdapterSetup& setup, const GivenBack* given);

}  // namespace pvrdma::adapters
