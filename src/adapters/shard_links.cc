#include "adapters/shard_links.h"

namespace pvrdma::adapters {

Result<void> ShardLinks::set(const std::string& adapter, Link link) {
  return shards_.on(
      adapter,
      [link](ServedAdapter& served) -> Result<void> {
        served.set_link(link == Link::kUp);
        return {};
      },
      "setting a link");
}

}  // namespace pvrdma::adapters
