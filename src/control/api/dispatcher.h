// Dispatcher: a cpp-httplib server whose every request goes to a Router. What the library leaves open to a
// client is closed here: the length of paths (it matches them with std::regex, which recurses) and of bodies,
// however they are encoded.
//
// Thread: configured by one thread; requests on whatever threads hand them in.
#pragma once

#include <functional>
#include <httplib.h>
#include <optional>

#include "control/api/router.h"
#include "control/api/same_site.h"

namespace pvrdma::control {

class Dispatcher : public httplib::Server {
 public:
  // A refusal, or none: the request may go on. Asked before anything of the body is kept.
  using Gate = std::function<std::optional<Reply>(const httplib::Request&, httplib::Response&)>;

  // `router` is borrowed. `knows`: which names the API goes by (same_site.h).
  Dispatcher(const Router& router, KnowsName knows, Gate gate = nullptr);

 private:
  std::optional<Reply> refuse_unread(const httplib::Request& request, httplib::Response& response) const;
  void answer(const httplib::Request& request, httplib::Response& response, std::string body) const;
  void answer_with_body(const httplib::Request& request, httplib::Response& response,
                        const httplib::ContentReader& read) const;

  const Router& router_;
  const KnowsName knows_;
  const Gate gate_;
};

}  // namespace pvrdma::control
