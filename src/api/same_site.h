// Keeps out requests that a foreign web page makes a visitor's browser send. The browser may reach the API,
// for instance through a forwarded port. If a page's DNS name was made to point here (DNS rebinding), the
// request's Host header shows it. Requests of any other page show a foreign Origin header. A page may also
// hide both from an old browser; then it cannot send the required Content-Type without asking first, so it
// cannot change anything.
//
// Thread: any.
#pragma once

#include <functional>
#include <httplib.h>
#include <optional>
#include <string>

#include "api/router.h"

namespace pvrdma::api {

// Returns true if the API has this name: a Host header without its port, in lower case.
using KnowsName = std::function<bool(const std::string& name)>;

// True for a numeric address or "localhost". These are not DNS names, so no DNS record can make them point
// here.
bool is_no_dns_name(const std::string& name);

// Returns a refusal, or nothing if the request may go on.
std::optional<Reply> refuse_foreign(const httplib::Request& request, const KnowsName& knows);

// Like refuse_foreign(), but by what a browser says about the page that asks (Sec-Fetch-Site). Do not call it
// for the files of the web client: a link on another site's page may lead to them.
std::optional<Reply> refuse_cross_site(const httplib::Request& request);

// Hides the Content-Type from the library, which would act on it by itself (see the dispatcher).
void hide_content_type(httplib::Request& request);
// True if the request says that its body has the type `type`, given in lower case.
bool says(const httplib::Request& request, std::string_view type);

}  // namespace pvrdma::api
