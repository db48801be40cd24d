// Whom a request was meant for, and who made its sender send it: what keeps web pages away that somebody
// visits whose browser reaches the API, through a forwarded port for instance. A page whose name was made to
// lead here (DNS rebinding) gives itself away by its Host, any other page by its Origin; and without a
// Content-Type that pages may not send unasked, no page that hides both can change anything.
//
// Thread: any.
#pragma once

#include <functional>
#include <httplib.h>
#include <optional>
#include <string>

#include "api/router.h"

namespace pvrdma::api {

// Whether the API goes by that name, a Host without its port, in lower case.
using KnowsName = std::function<bool(const std::string& name)>;

// A numeric address, "localhost", or nothing: no name of the DNS, so none that can be made to lead here.
bool is_no_dns_name(const std::string& name);

// A refusal, or none.
std::optional<Reply> refuse_foreign(const httplib::Request& request, const KnowsName& knows);

// Keeps what the library acts upon by itself out of its sight: see the dispatcher.
void hide_content_type(httplib::Request& request);
// Whether the body, which there is, is said to be of that type, in lower case.
bool says(const httplib::Request& request, std::string_view type);

}  // namespace pvrdma::api
