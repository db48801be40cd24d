#include "pvrdmad/shard_control.h"

#include <algorithm>
#include <cerrno>

#include "shard/ask.h"

namespace pvrdma::daemon {
namespace {

constexpr Duration kPatience = std::chrono::seconds(2);

}  // namespace

Result<void> ShardControl::set_link(const std::string& adapter, control::Link link) {
  const auto found = shard::ask(
      loop_, kPatience,
      [this, adapter, link] {
        const auto& all = adapters_.adapters();
        const auto it = std::find_if(all.begin(), all.end(),
                                     [&](const auto& each) { return each->port().name() == adapter; });
        if (it == all.end()) return false;
        (*it)->set_link(link == control::Link::kUp);
        return true;
      },
      "setting a link");
  if (!found) return Failure(found.error());
  if (!*found) return fail(ENOENT, "there is no adapter " + adapter + ": see the list of adapters");
  return {};
}

}  // namespace pvrdma::daemon
