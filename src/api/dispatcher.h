// Dispatcher: a cpp-httplib server that passes every request to a Router. It sets limits that the library
// does not set: for the length of paths (the library matches them with std::regex, which recurses) and for
// the length of bodies, in any encoding.
//
// Thread: one thread configures it; any thread may pass in requests.
#pragma once

#include <atomic>
#include <functional>
#include <httplib.h>
#include <variant>

#include "api/client_stream.h"
#include "api/places.h"
#include "api/router.h"
#include "api/same_site.h"

namespace pvrdma::api {

// At most this much of a refused body is read before the connection ends.
inline constexpr std::size_t kSkippedBytesMax = 1024 * 1024;

// Connects a stream's bytes with the router. The library's own sockets are not used.
class Dispatcher : public httplib::Server {
 public:
  // What the client of a request may do, or the refusal of the request.
  using Admission = std::variant<Role, Reply>;
  // Decides about a request of `client` before any byte of its body is kept.
  using Gate = std::function<Admission(const httplib::Request&, std::string_view client, httplib::Response&)>;

  // `router` is borrowed. `knows` says which names the API has (same_site.h). Without a gate each client is
  // an administrator.
  Dispatcher(const Router& router, KnowsName knows, Gate gate = nullptr);

  // Answers one request of a connection of `client` (Call::client) and ends the connection. Further bytes of
  // the client are never taken for a second request. If the answer is a stream, it lasts until either end
  // closes it.
  void answer_one(ClientStream& stream, const std::string& client);

 protected:
  // Answers the next request of `stream`. Sets `closed` if the client asks to end the connection. Returns
  // false if there is no request or its answer cannot be written.
  bool process(httplib::Stream& stream, bool close_connection, bool& closed);

 private:
  Admission admit(const httplib::Request& request, httplib::Response& response) const;
  void answer(Role role, const httplib::Request& request, httplib::Response& response,
              std::string body) const;
  void answer_with_body(const httplib::Request& request, httplib::Response& response,
                        const httplib::ContentReader& read) const;

  const Router& router_;
  const KnowsName knows_;
  const Gate gate_;
  mutable std::atomic<int> large_bodies_{0};  // that are arriving now
  mutable Places watchers_;                   // by client (connection_queue.h)
};

}  // namespace pvrdma::api
