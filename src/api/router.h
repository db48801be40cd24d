// Router: which function answers a request. Knows nothing of HTTP's bytes: the listeners hand in a Call and
// send the Reply. The same table makes the OpenAPI description, so what is served is what is described.
//
// Thread: built by one thread; answer() any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "schema/rules.h"

namespace pvrdma::api {

// What the API speaks of all day.
using schema::Components;
using schema::Json;
using schema::schema_for;
using schema::text_of;

inline constexpr std::size_t kPathBytesMax = 1024;
inline constexpr std::size_t kBodyBytesMax = 64 * 1024;
inline constexpr std::size_t kBinaryBodyBytesMax = 65u << 20;  // of any route's

struct Reply {
  int status = 200;
  std::string text;
  std::string type = "application/json";
  std::shared_ptr<ByteStream> stream = nullptr;  // comes instead of a text
};

// `json` without a final newline.
Reply ok(std::string json);
Reply refuse(int status, std::string_view sentence);
// The status is the code's: ENOENT 404; EEXIST, EBUSY, EPERM 409; EINVAL 400; EAGAIN, ETIMEDOUT 503; else
// 500.
Reply refuse(const Error& error);

struct Call {
  std::string method;
  std::string path;                               // decoded, without the query
  std::multimap<std::string, std::string> query;  // decoded
  std::string body;
  std::vector<std::string> names;  // of the path's variables, in order; the router fills them in

  std::string parameter(const std::string& name) const;  // empty: not given
};

// schema_for<T>, where T is what a body or an answer is.
using SchemaOf = Json (*)(Components&);

struct Route {
  std::string_view method;
  std::string_view path;  // "/v1/hosts/{host}"
  std::string_view summary;
  SchemaOf body;    // of the request; null: none
  SchemaOf answer;  // null: plain text
  std::function<Reply(const Call&)> handler;
  std::string_view query = {};  // the one parameter that the query may have
  bool query_required = false;
  bool of_cluster = false;           // answers only on a member of a cluster
  std::size_t binary_bytes_max = 0;  // of a body that is bytes; 0: it is JSON, of kBodyBytesMax at most
};

class Router {
 public:
  enum class Membership : bool { kAlone, kCluster };
  explicit Router(Membership membership) : membership_(membership) {}

  void add(Route route);
  Reply answer(Call call) const;
  // As the route of such a request has it; 0 also where there is none.
  std::size_t binary_bytes_max(std::string_view method, std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  const Route* find(std::string_view method, const std::vector<std::string_view>& path) const;

  const Membership membership_;
  std::vector<Route> routes_;
};

// The parts of a path between its slashes. "{host}" is a variable.
std::vector<std::string_view> segments(std::string_view path);
bool is_variable(std::string_view segment);

}  // namespace pvrdma::api
