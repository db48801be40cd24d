// Router: finds the function that answers a request. It knows nothing of HTTP's bytes: the listeners pass in
// a Call and send the Reply. The OpenAPI description is made from the same table, so it describes exactly the
// routes that are served.
//
// Thread: built by one thread; answer() any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "base/words.h"
#include "schema/rules.h"

namespace pvrdma {
namespace api {

// What a client may do. kReadOnly: GET of each route, and nothing else.
enum class Role : std::uint8_t { kReadOnly, kAdministrator };

}  // namespace api

template <>
inline constexpr std::array kWords<api::Role>{Word{"read-only", api::Role::kReadOnly},
                                              Word{"administrator", api::Role::kAdministrator}};

}  // namespace pvrdma

namespace pvrdma::api {

// Names that the whole API uses.
using schema::Components;
using schema::Json;
using schema::schema_for;
using schema::text_of;

inline constexpr std::size_t kPathBytesMax = 1024;
inline constexpr std::size_t kBodyBytesMax = 64 * 1024;
inline constexpr std::size_t kBinaryBodyBytesMax = 65u << 20;  // the largest limit of any route

struct Reply {
  int status = 200;
  std::string text;
  std::string type = "application/json";
  std::shared_ptr<ByteStream> stream = nullptr;  // sent instead of `text`
  std::map<std::string, std::string_view> headers =
      {};                      // besides those of each answer; they outlive the reply
  std::string_view gzip = {};  // `text`, packed; outlives the reply; empty: not packed
};

// `json` has no final newline.
Reply ok(std::string json);
// The status depends on the kind.
Reply refuse(ErrorKind kind, std::string_view sentence);
// The same, and says which member of the body is wrong, if the error does.
Reply refuse(const Error& error);
// For statuses that only HTTP knows: 401, 403, 413 ...
Reply refuse(int status, std::string_view sentence);
// The refusal of an edit of a batch, with its place, from 0. `edit` is "PUT /v1/dvs/DSwitch".
Reply refuse_edit(const Reply& refusal, std::size_t index, std::string_view edit);

struct Draft;  // configuration.h
class Places;  // places.h

struct Call {
  Role role = Role::kAdministrator;
  std::string client = "this daemon";  // connection_queue.h: "uid 1000", or an address
  std::string method;
  std::string path;                               // decoded, without the query
  std::multimap<std::string, std::string> query;  // decoded
  std::string body;
  Places* watchers = nullptr;      // of the listener (watch.h); null: there is no limit
  std::vector<std::string> names;  // the values of the path's variables, in order; set by the router
  const Draft* draft = nullptr;    // of the batch of this edit; null: it is alone

  std::string parameter(const std::string& name) const;  // empty if it was not given
};

// The value of a parameter; nullopt: it was not given.
Result<std::optional<std::uint64_t>> number_of(const Call& call, const std::string& parameter);

// schema_for<T>, where T is the type of a body or an answer.
using SchemaOf = Json (*)(Components&);

struct Route {
  std::string_view method;
  std::string_view path;  // "/v1/hosts/{host}"
  std::string_view summary;
  SchemaOf body;    // of the request; null: it has no body
  SchemaOf answer;  // null: plain text
  std::function<Reply(const Call&)> handler;
  std::vector<std::string_view> query = {};  // the parameters that it may have
  bool query_required = false;               // all of them
  bool of_cluster = false;                   // only a member of a cluster answers
  std::size_t binary_bytes_max = 0;          // of a body of bytes; 0: the body is JSON, at most kBodyBytesMax
  bool streams = false;                      // the answer is a stream
  bool is_open = false;                      // needs no token
  bool query_numbers = false;                // all parameters are whole numbers
};

class Router {
 public:
  enum class Membership : bool { kAlone, kCluster };
  explicit Router(Membership membership) : membership_(membership) {}

  void add(Route route);
  bool has(std::string_view method, std::string_view path) const;
  // HEAD is answered as GET; the caller leaves out the body.
  Reply answer(Call call) const;
  // The refusal of a request that the role does not permit. answer() makes it, too; a caller that asks before
  // saves reading the body.
  static std::optional<Reply> refuse_role(Role role, std::string_view method, std::string_view path);
  // True if the request is answered without a token.
  bool is_open(std::string_view method, std::string_view path) const;
  // The limit of the route for such a request. 0 if there is no such route.
  std::size_t binary_bytes_max(std::string_view method, std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  const Route* find(std::string_view method, const std::vector<std::string_view>& path) const;
  const Route* find_stream(const std::vector<std::string_view>& path) const;

  const Membership membership_;
  std::vector<Route> routes_;
};

// Splits a path at its slashes. A part such as "{host}" is a variable.
std::vector<std::string_view> segments(std::string_view path);
bool is_variable(std::string_view segment);
// Whether `path`, split, is one of a route's path, where a variable stands for any text.
bool matches(std::string_view pattern, const std::vector<std::string_view>& path);

}  // namespace pvrdma::api
