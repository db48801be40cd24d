#include "api/connection_queue.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/socket.h>
#include <utility>

#include "base/ip_address.h"
#include "base/peer.h"

namespace pvrdma::api {

void ConnectionQueue::put(Connection connection) {
  shares_[connection.client].waiting.push_back(std::move(connection.socket));
  if (++waiting_ > kWaiting) drop_one();
}

std::optional<ConnectionQueue::Connection> ConnectionQueue::take() {
  auto next = shares_.end();
  for (auto each = shares_.begin(); each != shares_.end(); ++each) {
    if (each->second.waiting.empty() || each->second.served >= served_max_) continue;
    if (next == shares_.end() || each->second.served < next->second.served) next = each;
  }
  if (next == shares_.end()) return std::nullopt;
  Share& share = next->second;
  Connection out{std::move(share.waiting.front()), next->first};
  share.waiting.pop_front();
  ++share.served;
  --waiting_;
  return out;
}

void ConnectionQueue::done(const std::string& client) {
  const auto found = shares_.find(client);
  --found->second.served;
  if (found->second.served == 0 && found->second.waiting.empty()) shares_.erase(found);
}

void ConnectionQueue::drop_one() {
  const auto most =
      std::ranges::max_element(shares_, {}, [](const auto& share) { return share.second.waiting.size(); });
  most->second.waiting.pop_back();
  --waiting_;
  if (most->second.served == 0 && most->second.waiting.empty()) shares_.erase(most);
}

std::string address_of(int socket) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return "unknown";
  if (const auto address = IpAddress::from(peer)) return address->to_string();
  const auto user = peer_of(socket);
  return user ? fmt::format("uid {}", user->uid) : "unknown";
}

std::string client_of(const std::string& address) {
  const auto parsed = IpAddress::parse(address);
  if (!parsed || !parsed->is_v6()) return address;
  return IpNetwork::parse(address + "/64").value().to_string();
}

}  // namespace pvrdma::api
