// The values of records: objects of the model as JSON and back. Only records.cc and views.cc include this.
//
// Reading: a missing member has its default where the object has a use for one, an unknown member is ignored,
// and a member of the wrong type or outside its range is an Error that names it. Thread: any.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "control/model/inventory.h"

namespace pvrdma::control {

using Json = nlohmann::ordered_json;

// Text of devices and other versions may be no UTF-8: then it is mended, not refused.
std::string text_of(const Json& json);

Json to_json(const Ruleset& ruleset);  // without a name
Json to_json(const Host& host);        // likewise, and so on: the key has it
Json to_json(const Vmnic& vmnic);      // with its name, as it is in a list
Json to_json(const RdmaDevice& device);
Json to_json(const LiveHost& host);
Json to_json(const Dvs& dvs);
Json to_json(const VmAdapter& adapter);
Json to_json(const Vm& vm);
Json to_json(const GidHolder& holder);

// `name` is the key's, checked by the caller.
Result<Host> host_from(const std::string& name, std::string_view value);
Result<LiveHost> live_host_from(const std::string& name, std::string_view value);
Result<Dvs> dvs_from(const std::string& name, std::string_view value);
Result<Vm> vm_from(const std::string& name, std::string_view value);
Result<GidHolder> gid_holder_from(std::string_view value);

struct Guard {
  std::uint64_t revision = 0;
  std::uint32_t next_dvs_id = 1;
};
Json to_json(const Guard& guard);
Result<Guard> guard_from(std::string_view value);

}  // namespace pvrdma::control
