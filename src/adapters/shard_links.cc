#include "adapters/shard_links.h"

#include "adapters/shard_question.h"
#include "shard/ask.h"

namespace pvrdma::adapters {

Result<void> ShardLinks::set(const std::string& adapter, Link link) {
  const auto found = shard::ask(
      loop_, kShardPatience,
      [&adapters = adapters_, adapter, link] {
        ServedAdapter* const served = find(adapters, adapter);
        if (served == nullptr) return false;
        served->set_link(link == Link::kUp);
        return true;
      },
      "setting a link");
  if (!found) return Failure(found.error());
  if (!*found) return no_adapter(adapter);
  return {};
}

}  // namespace pvrdma::adapters
