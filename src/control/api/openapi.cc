#include "control/api/openapi.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace pvrdma::control {
namespace {

using Json = nlohmann::ordered_json;

Json reference(std::string_view schema) {
  return {{"$ref", "#/components/schemas/" + std::string(schema)}};
}

Json schema_of(std::string_view answer) {
  if (answer == "{}") return reference("Nothing");
  if (!answer.starts_with('[')) return reference(answer);
  return {{"type", "array"}, {"items", reference(answer.substr(1, answer.size() - 2))}};
}

Json content_of(std::string_view answer) {
  if (answer == "text") return {{"text/plain", {{"schema", {{"type", "string"}}}}}};
  return {{"application/json", {{"schema", schema_of(answer)}}}};
}

Json parameters_of(const Route& route) {
  Json parameters = Json::array();
  for (const std::string_view segment : segments(route.path)) {
    if (!is_variable(segment)) continue;
    parameters.push_back({{"name", segment.substr(1, segment.size() - 2)},
                          {"in", "path"},
                          {"required", true},
                          {"schema", reference("Name")}});
  }
  if (!route.query.empty()) {
    parameters.push_back({{"name", route.query},
                          {"in", "query"},
                          {"required", route.query_required},
                          {"schema", {{"type", "string"}}}});
  }
  return parameters;
}

// "GET /v1/dvs/{dvs}" -> "get_v1_dvs_dvs".
std::string operation_id(const Route& route) {
  std::string id;
  for (const std::string_view part : {route.method, route.path}) {
    for (const char c : part) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isalnum(byte) != 0) {
        id += static_cast<char>(std::tolower(byte));
      } else if (id.back() != '_' && c != '}') {
        id += '_';
      }
    }
  }
  return id;
}

Json operation(const Route& route) {
  Json object{{"operationId", operation_id(route)}, {"summary", route.summary}};
  if (Json parameters = parameters_of(route); !parameters.empty()) object["parameters"] = parameters;
  if (!route.body.empty()) {
    object["requestBody"] = {{"required", route.body != "Nothing"},
                             {"content", {{"application/json", {{"schema", reference(route.body)}}}}}};
  }
  object["responses"] = {{"200", {{"description", "Done"}, {"content", content_of(route.answer)}}},
                         {"default", {{"$ref", "#/components/responses/Refusal"}}}};
  return object;
}

}  // namespace

std::string openapi_json(const std::vector<Route>& routes, std::string_view version) {
  Json paths = Json::object();
  for (const Route& route : routes) {
    std::string method(route.method);
    std::transform(method.begin(), method.end(), method.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    paths[std::string(route.path)][method] = operation(route);
  }
  const Json refusal{{"description",
                      "Refused: 400 a mistake in the request, 401 no token, 404 no such thing or no cluster, "
                      "409 a rule or the state forbids it, 503 the store or the daemon is busy or away"},
                     {"content", {{"application/json", {{"schema", reference("Error")}}}}}};
  const Json document{
      {"openapi", "3.0.3"},
      {"info",
       {{"title", "pvrdmad"},
        {"description", "PVRDMA adapters of this host, and the cluster it is a member of"},
        {"version", version}}},
      {"servers", Json::array({{{"url", "/"}}})},
      {"security", Json::array({Json::object(), {{"token", Json::array()}}})},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", Json::parse(openapi_schemas())},
        {"responses", {{"Refusal", refusal}}},
        {"securitySchemes",
         {{"token",
           {{"type", "http"}, {"scheme", "bearer"}, {"description", "Over TCP only: [api] token_file"}}}}}}}};
  return document.dump() + "\n";
}

}  // namespace pvrdma::control
