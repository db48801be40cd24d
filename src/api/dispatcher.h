// Dispatcher: a cpp-httplib server whose every request goes to a Router. What the library leaves open to a
// client is closed here: the length of paths (it matches them with std::regex, which recurses) and of bodies,
// however they are encoded.
//
// Thread: configured by one thread; requests on whatever threads hand them in.
#pragma once

#include <atomic>
#include <functional>
#include <httplib.h>
#include <optional>

#include "api/client_stream.h"
#include "api/router.h"
#include "api/same_site.h"

namespace pvrdma::api {

// Of a body that is refused, so much is read before the connection ends.
inline constexpr std::size_t kSkippedBytesMax = 1024 * 1024;

// Where a stream's bytes meet the router: the library's own sockets are not used.
class Dispatcher : public httplib::Server {
 public:
  // A refusal, or none: the request may go on. Asked before anything of the body is kept.
  using Gate = std::function<std::optional<Reply>(const httplib::Request&, httplib::Response&)>;

  // `router` is borrowed. `knows`: which names the API goes by (same_site.h).
  Dispatcher(const Router& router, KnowsName knows, Gate gate = nullptr);

  // One request of a connection, and its end. What a client wrote beyond it is never taken for the next.
  void answer_one(ClientStream& client);  // an answer that is a stream lasts until either end ends it

 private:
  std::optional<Reply> refuse_unread(const httplib::Request& request, httplib::Response& response) const;
  void answer(const httplib::Request& request, httplib::Response& response, std::string body) const;
  void answer_with_body(const httplib::Request& request, httplib::Response& response,
                        const httplib::ContentReader& read) const;

  const Router& router_;
  const KnowsName knows_;
  const Gate gate_;
  mutable std::atomic<int> large_bodies_{0};  // on their way
};

}  // namespace pvrdma::api
