#include "api/openapi.h"

#include <algorithm>
#include <cctype>

#include "api/answers.h"
#include "api/requests.h"

namespace pvrdma::api {
namespace {

Json content_of(SchemaOf answer, Components& components) {
  if (answer == capture_schema) return {{"application/x-pcapng", {{"schema", capture_schema(components)}}}};
  if (answer == file_schema) return {{"*/*", {{"schema", file_schema(components)}}}};
  if (answer == events_schema) return {{"text/event-stream", {{"schema", events_schema(components)}}}};
  if (answer == bytes_schema) return {{"application/octet-stream", {{"schema", bytes_schema(components)}}}};
  if (answer == nullptr) return {{"text/plain", {{"schema", {{"type", "string"}}}}}};
  return {{"application/json", {{"schema", answer(components)}}}};
}

Json parameters_of(const Route& route, Components& components) {
  Json parameters = Json::array();
  for (const std::string_view segment : segments(route.path)) {
    if (!is_variable(segment)) continue;
    parameters.push_back({{"name", segment.substr(1, segment.size() - 2)},
                          {"in", "path"},
                          {"required", true},
                          {"schema", schema::kName.schema(components)}});
  }
  const Json value = route.query_numbers ? schema::NumberRule{}.schema(components) : Json{{"type", "string"}};
  for (const std::string_view name : route.query) {
    parameters.push_back(
        {{"name", name}, {"in", "query"}, {"required", route.query_required}, {"schema", value}});
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

Json operation(const Route& route, Components& components) {
  Json object{{"operationId", operation_id(route)}, {"summary", route.summary}};
  if (route.is_open) object["security"] = Json::array();
  if (Json parameters = parameters_of(route, components); !parameters.empty())
    object["parameters"] = parameters;
  if (route.body != nullptr) {
    object["requestBody"] = {{"required", route.body != schema_for<Nothing>},
                             {"content", content_of(route.body, components)}};
  }
  object["responses"] = {
      {"200", {{"description", "Done"}, {"content", content_of(route.answer, components)}}},
      {"default", {{"$ref", "#/components/responses/Refusal"}}}};
  return object;
}

}  // namespace

std::string openapi_json(const std::vector<Route>& routes, std::string_view version) {
  Components components;
  Json paths = Json::object();
  for (const Route& route : routes) {
    std::string method(route.method);
    std::transform(method.begin(), method.end(), method.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    paths[std::string(route.path)][method] = operation(route, components);
  }
  const Json refusal{{"description",
                      "Refused: 400 a mistake in the request, for instance an unknown parameter, 401 no "
                      "token, 403 a token for reading only, or a foreign Host "
                      "or Origin, 404 no "
                      "such thing or no cluster, 405 HEAD of a stream, 409 a rule or the state forbids it, "
                      "415 the body's type is not "
                      "application/json, 503 the store or the daemon is busy or cannot be reached"},
                     {"content", {{"application/json", {{"schema", schema_for<ErrorAnswer>(components)}}}}}};
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
       {{"schemas", components},
        {"responses", {{"Refusal", refusal}}},
        {"securitySchemes",
         {{"token",
           {{"type", "http"},
            {"scheme", "bearer"},
            {"description", "Over TCP only: [api] token_file, or read_token_file for GET"}}}}}}}};
  return document.dump() + "\n";
}

}  // namespace pvrdma::api
