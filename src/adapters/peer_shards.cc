#include "adapters/peer_shards.h"

namespace pvrdma::adapters {

Exchange exchange_of(const ServedAdapter& adapter, std::uint32_t first, std::size_t shards) {
  const verbs::Engine::QpPage page = adapter.list_qps_from(first);
  Exchange exchange{.bytes = std::vector<std::uint64_t>(shards), .next = page.next};
  for (const verbs::QpInfo& qp : page.qps) {
    const auto shard = adapter.port().fabric_switch().shard_of(qp.attributes.dgid);
    if (shard) exchange.bytes.at(shard->value) += qp.tx_bytes + qp.rx_bytes;
  }
  return exchange;
}

}  // namespace pvrdma::adapters
