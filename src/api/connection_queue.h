// ConnectionQueue: which of the waiting connections a thread serves next. Each client, an address or a user
// of this host, has a share: one that opens many connections and sends nothing holds up only itself.
//
// At most half of the threads serve one client. The next connection is the oldest one of the client that is
// served by the fewest threads. If kWaiting connections wait, the newest one of the client with the most is
// dropped.
//
// Thread: as its owner.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/fd.h"

namespace pvrdma::api {

class ConnectionQueue {
 public:
  static constexpr std::size_t kWaiting = 128;

  struct Connection {
    Fd socket;
    std::string client;
  };

  explicit ConnectionQueue(std::size_t threads) : served_max_(threads / 2) {}

  void put(Connection connection);
  // Nothing if no connection waits whose client may have a thread. Otherwise done() must follow.
  std::optional<Connection> take();
  void done(const std::string& client);

 private:
  struct Share {
    std::deque<Fd> waiting;
    std::size_t served = 0;  // how many threads serve it
  };
  void drop_one();

  const std::size_t served_max_;
  std::map<std::string, Share> shares_;  // of clients that wait or are served
  std::size_t waiting_ = 0;
};

// The other side of a connection: "uid 1000" of a UNIX socket, otherwise its address.
std::string address_of(int socket);
// The client that such an address belongs to: the address itself, but of an IPv6 address only the first 64
// bits ("fd00::/64"), because a host often has as many addresses as it likes below them.
std::string client_of(const std::string& address);

}  // namespace pvrdma::api
