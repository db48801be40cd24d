#include "api/router.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/api_fixture.h"
#include "api/requests.h"
#include "api/routes.h"
#include "api/vm_launch.h"
#include "base/unix_listener.h"
#include "web/assets.h"

namespace pvrdma {

enum class Sort : std::uint8_t { kA, kB };
template <>
inline constexpr std::array kWords<Sort>{Word{"a", Sort::kA}, Word{"b", Sort::kB}};

namespace api {

struct Inner {
  std::string x;
};

struct Thing {
  std::string name;
  std::uint32_t vlan = 1;
  std::optional<bool> on;
  std::optional<Sort> kind;
  std::optional<Inner> inner;
};

}  // namespace api

template <>
inline constexpr auto schema::kObject<api::Inner> =
    schema::request("Inner", schema::field("x", &api::Inner::x).required());
template <>
inline constexpr auto schema::kObject<api::Thing> =
    schema::request("Thing", schema::field("name", &api::Thing::name).required(),
                    schema::field("vlan", &api::Thing::vlan, schema::NumberRule{0, 4094}),
                    schema::field("on", &api::Thing::on), schema::field("kind", &api::Thing::kind),
                    schema::field("inner", &api::Thing::inner));

namespace api {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

template <typename Body = Thing>
std::string mistake(const std::string& text) {
  Call call;
  call.body = text;
  const auto body = body_of<Body>(call);
  if (body) return "";
  EXPECT_EQ(body.error().kind, ErrorKind::kInvalid);
  return body.error().message;
}

TEST(Body, TakesWhatItKnows) {
  EXPECT_EQ(mistake(R"({"name": "n"})"), "");
  EXPECT_EQ(mistake(R"({"name": "n", "vlan": 4094, "on": false, "kind": "b", "inner": {"x": ""}})"), "");
  EXPECT_EQ(mistake(R"({"name": "n", "inner": null})"), "");
  Call call;
  call.body = R"({"name": "n", "kind": "b", "vlan": 7, "inner": {"x": "y"}})";
  const auto thing = body_of<Thing>(call);
  ASSERT_TRUE(thing) << thing.error().message;
  EXPECT_EQ(thing->name, "n");
  EXPECT_EQ(thing->kind, Sort::kB);
  EXPECT_EQ(thing->vlan, 7U);
  EXPECT_EQ(thing->on, std::nullopt);
  EXPECT_EQ(thing->inner->x, "y");
  call.body = R"({"name": "n"})";
  EXPECT_EQ(body_of<Thing>(call)->vlan, 1U) << "what is absent keeps its value";
}

TEST(Body, NamesTheMistake) {
  EXPECT_EQ(mistake(""), "the body lacks \"name\"");
  EXPECT_EQ(mistake("{}"), "the body lacks \"name\"");
  EXPECT_EQ(mistake(R"({"name": 7})"), "the body's \"name\" must be a string, not 7");
  EXPECT_EQ(mistake(R"({"name": "n", "vlan": 4095})"),
            "the body's \"vlan\" must be a whole number from 0 to 4094, not 4095");
  for (const char* number : {"-1", "1.0", "1e3", "\"1\"", "null", "99999999999999999999"}) {
    EXPECT_THAT(mistake(R"({"name": "n", "vlan": )" + std::string(number) + "}"),
                HasSubstr("must be a whole number"))
        << number;
  }
  EXPECT_EQ(mistake(R"({"name": "n", "on": 1})"), "the body's \"on\" must be true or false, not 1");
  EXPECT_EQ(mistake(R"({"name": "n", "kind": "c"})"),
            "the body's \"kind\" must be one of \"a\", \"b\", not \"c\"");
  EXPECT_EQ(mistake(R"({"name": "n", "inner": []})"), "the body's \"inner\" must be an object, not []");
  EXPECT_EQ(mistake(R"({"name": "n", "inner": {}})"), "the body lacks \"inner.x\"");
  EXPECT_EQ(mistake(R"({"name": "n", "foo": 1, "bar": 2})"),
            "the body has unknown members (bar, foo): allowed are name, vlan, on, kind, inner");
  EXPECT_EQ(mistake(R"({"name": "n", "inner": {"x": "", "y": 1}})"),
            "the body has unknown members (inner.y): allowed are inner.x");
  EXPECT_EQ(mistake<Nothing>(R"({"a": 1})"), "the body has unknown members (a): it must have no members");
}

TEST(Body, RefusesWhatIsNoObject) {
  for (const char* text : {"[]", "7", "nul", "{", "{\"name\": \"\xff\"}", "{} {}", "{\"name\": }"}) {
    EXPECT_THAT(mistake(text), HasSubstr("the body must be a JSON object")) << text;
  }
  EXPECT_EQ(mistake(R"({"name": "n", "name": "m"})"), "the body must be a JSON object: it has name twice");
  EXPECT_EQ(mistake(R"({"name": [[[[[[[]]]]]]]})"),
            "the body must be a JSON object: it nests more than 4 levels deep");
  EXPECT_THAT(mistake(std::string(60'000, '[')), HasSubstr("the body must be a JSON object"));
}

TEST(Refusal, HasTheStatusOfItsKind) {
  using enum ErrorKind;
  for (const auto& [kind, status] :
       {std::pair(kInternal, 500), std::pair(kInvalid, 400), std::pair(kNotFound, 404),
        std::pair(kConflict, 409), std::pair(kUnavailable, 503)}) {
    EXPECT_EQ(refuse(Error{ENOENT, "x", kind}).status, status) << "whatever the system's errno is";
  }
  EXPECT_EQ(refuse(ErrorKind::kNotFound, "x").text, "{\"error\":\"x\"}\n");
}

Call call(std::string method, std::string path) {
  return {.method = std::move(method), .path = std::move(path), .query = {}, .body = {}, .names = {}};
}

TEST(Router, FindsTheRouteAndItsNames) {
  Router router(Router::Membership::kAlone);
  router.add(
      {"GET", "/v1/things/{thing}", "", nullptr, nullptr, [](const Call& c) { return ok(c.names.at(0)); }});
  router.add({"GET",
              "/v1/things",
              "",
              nullptr,
              nullptr,
              [](const Call& c) { return ok(c.parameter("q")); },
              {"q"},
              true});
  EXPECT_EQ(router.answer(call("GET", "/v1/things/a.b_c-1")).text, "a.b_c-1\n");
  EXPECT_EQ(router.answer(call("GET", "/v1/things/a b")).status, 400);
  EXPECT_EQ(router.answer(call("GET", "/v1/things/..")).status, 400);
  EXPECT_EQ(router.answer(call("GET", "/v1/things/" + std::string(65, 'a'))).status, 400);
  for (const char* path : {"/v1/things/", "/v1/things/a/", "/v1//things", "v1/things", "", "/"}) {
    EXPECT_EQ(router.answer(call("GET", path)).status, 404) << path;
  }
  EXPECT_EQ(router.answer(call("POST", "/v1/things/a")).status, 404);
  EXPECT_EQ(router.answer(call("GET", "/v1/things")).text,
            "{\"error\":\"GET /v1/things needs the parameter q: add ?q=VALUE\"}\n");
  Call with_query = call("GET", "/v1/things");
  with_query.query = {{"q", "x"}};
  EXPECT_EQ(router.answer(with_query).text, "x\n");
}

// --- The description ---

const std::set<std::string> kRoutes{
    "GET /v1/version",
    "GET /v1/adapters",
    "GET /v1/adapters/{adapter}",
    "PUT /v1/adapters/{adapter}/link",
    "PUT /v1/adapters/{adapter}/shard",
    "POST /v1/adapters/{adapter}/upgrade-vmm",
    "POST /v1/adapters/{adapter}/checkpoint",
    "POST /v1/adapters/{adapter}/checkpoint/finish",
    "POST /v1/adapters/{adapter}/restore",
    "GET /v1/qps",
    "GET /v1/stats",
    "POST /v1/hca/check",
    "GET /v1/paths",
    "GET /v1/paths/summary",
    "GET /v1/process",
    "GET /metrics",
    "GET /openapi.json",
    "GET /v1/cluster",
    "GET /v1/hosts",
    "GET /v1/hosts/{host}",
    "DELETE /v1/hosts/{host}",
    "POST /v1/hosts/{host}/vmks",
    "DELETE /v1/hosts/{host}/vmks/{vmk}",
    "PATCH /v1/hosts/{host}/vmks/{vmk}",
    "PATCH /v1/hosts/{host}/firewall",
    "GET /v1/hosts/{host}/advanced",
    "PUT /v1/hosts/{host}/advanced",
    "GET /v1/hosts/{host}/rulesets",
    "PATCH /v1/hosts/{host}/rulesets/{ruleset}",
    "GET /v1/hosts/{host}/rulesets/{ruleset}/rules",
    "POST /v1/hosts/{host}/rulesets/{ruleset}/allowed",
    "DELETE /v1/hosts/{host}/rulesets/{ruleset}/allowed",
    "GET /v1/hosts/{host}/rdma/{device}/stats",
    "GET /v1/hosts/{host}/version",
    "GET /v1/hosts/{host}/process",
    "GET /v1/hosts/{host}/adapters",
    "GET /v1/hosts/{host}/adapters/{adapter}",
    "GET /v1/hosts/{host}/qps",
    "GET /v1/hosts/{host}/stats",
    "GET /v1/hosts/{host}/paths",
    "GET /v1/hosts/{host}/paths/summary",
    "GET /v1/hosts/{host}/shards",
    "GET /v1/hosts/{host}/budgets",
    "GET /v1/hosts/{host}/captures",
    "GET /v1/hosts/{host}/faults",
    "GET /v1/hosts/{host}/events",
    "GET /v1/hosts/{host}/cluster",
    "GET /v1/hosts/{host}/motions",
    "GET /v1/hosts/{host}/vms/{vm}/motion",
    "GET /v1/hosts/{host}/vms/{vm}/qemu-args",
    "GET /v1/dvs",
    "POST /v1/dvs",
    "GET /v1/dvs/{dvs}",
    "DELETE /v1/dvs/{dvs}",
    "PUT /v1/dvs/{dvs}/hosts/{host}",
    "DELETE /v1/dvs/{dvs}/hosts/{host}",
    "PUT /v1/dvs/{dvs}/hosts/{host}/uplinks/{slot}",
    "PUT /v1/dvs/{dvs}/portgroups/{portgroup}",
    "PATCH /v1/dvs/{dvs}/portgroups/{portgroup}",
    "DELETE /v1/dvs/{dvs}/portgroups/{portgroup}",
    "GET /v1/events",
    "GET /v1/watch",
    "POST /v1/batch",
    "GET /v1/vms",
    "POST /v1/vms",
    "GET /v1/vms/{vm}",
    "DELETE /v1/vms/{vm}",
    "PATCH /v1/vms/{vm}",
    "POST /v1/adapters/{adapter}/capture",
    "GET /v1/captures",
    "DELETE /v1/captures/{capture}",
    "GET /v1/budgets",
    "GET /v1/shards",
    "GET /v1/faults",
    "POST /v1/faults",
    "DELETE /v1/faults/{fault}",
    "PUT /v1/vms/{vm}/adapter",
    "DELETE /v1/vms/{vm}/adapter",
    "POST /v1/vms/{vm}/upgrade",
    "POST /v1/state/print",
    "GET /v1/motions",
    "GET /v1/vms/{vm}/motion",
    "POST /v1/vms/{vm}/motion",
    "DELETE /v1/vms/{vm}/motion",
    "GET /v1/vms/{vm}/qemu-args",
    "GET /v1/vms/{vm}/libvirt-xml",
};

void collect_references(const Json& json, std::set<std::string>& references) {
  if (json.is_object() && json.contains("$ref")) references.insert(json["$ref"]);
  if (json.is_structured()) {
    for (const Json& child : json) collect_references(child, references);
  }
}

class OpenApi : public testing::Test {
 protected:
  FakeHost host_;
  const Router router_ = make_router(host_.parts());
  const Json document_ = Json::parse(router_.answer(call("GET", "/openapi.json")).text);
};

TEST_F(OpenApi, DescribesEveryRouteAndNoOther) {
  std::set<std::string> served;
  for (const Route& route : router_.routes()) {
    EXPECT_TRUE(served.insert(std::string(route.method) + " " + std::string(route.path)).second)
        << route.path;
  }
  std::set<std::string> expected = kRoutes;
  if (!web::assets().empty())
    expected.merge(std::set<std::string>{"GET /", "GET /ui", "GET /ui/", "GET /ui/{file}"});
  EXPECT_EQ(served, expected);

  std::set<std::string> described;
  for (const auto& [path, operations] : document_["paths"].items()) {
    for (const auto& [method, operation] : operations.items()) {
      std::string upper = method;
      std::transform(upper.begin(), upper.end(), upper.begin(),
                     [](unsigned char c) { return std::toupper(c); });
      described.insert(upper + " " + path);
    }
  }
  EXPECT_EQ(described, expected);
}

TEST_F(OpenApi, IsWellFormed) {
  EXPECT_EQ(document_["openapi"], "3.0.3");
  EXPECT_EQ(document_["info"]["version"], "1.2.3");
  EXPECT_EQ(document_["servers"], Json::parse(R"([{"url": "/"}])"));
  EXPECT_EQ(document_["security"], Json::parse(R"([{}, {"token": []}])"));
  EXPECT_EQ(document_["components"]["securitySchemes"]["token"]["scheme"], "bearer");

  std::set<std::string> references;
  collect_references(document_, references);
  EXPECT_GT(references.size(), 30U);
  for (const std::string& reference : references) {
    ASSERT_TRUE(reference.starts_with("#/")) << reference;
    EXPECT_TRUE(document_.contains(Json::json_pointer(reference.substr(1)))) << reference;
  }
  for (const auto& [name, schema] : document_["components"]["schemas"].items()) {
    EXPECT_TRUE(references.contains("#/components/schemas/" + name)) << name << " is used nowhere";
    for (const Json& member : schema.value("required", Json::array())) {
      EXPECT_TRUE(schema["properties"].contains(member.get<std::string>())) << name << " " << member;
    }
  }

  std::set<std::string> ids;
  for (const auto& [path, operations] : document_["paths"].items()) {
    for (const auto& [method, operation] : operations.items()) {
      EXPECT_TRUE(ids.insert(operation["operationId"]).second) << path;
      EXPECT_TRUE(operation["responses"].contains("200")) << path;
      EXPECT_TRUE(operation["responses"]["default"].contains("$ref")) << path;
      std::set<std::string> names;
      for (const Json& parameter : operation.value("parameters", Json::array())) {
        if (parameter["in"] == "path") names.insert("{" + parameter["name"].get<std::string>() + "}");
      }
      std::set<std::string> variables;
      for (const std::string_view part : segments(path)) {
        if (is_variable(part)) variables.emplace(part);
      }
      EXPECT_EQ(names, variables) << path;
    }
  }
  const Json& put = document_["paths"]["/v1/dvs/{dvs}/portgroups/{portgroup}"]["put"];
  EXPECT_EQ(put["requestBody"]["content"]["application/json"]["schema"]["$ref"],
            "#/components/schemas/NewPortGroup");
  const Json& events = document_["paths"]["/v1/events"]["get"]["parameters"];
  for (const Json& parameter : events) EXPECT_EQ(parameter["schema"]["type"], "integer") << parameter;
  const Json& schemas = document_["components"]["schemas"];
  EXPECT_EQ(schemas["Version"]["properties"]["host"]["nullable"], true);
  EXPECT_EQ(schemas["Process"]["properties"]["open_files_max"]["nullable"], true);
  const Json& list = document_["paths"]["/v1/vms"]["get"];
  EXPECT_EQ(list["responses"]["200"]["content"]["application/json"]["schema"]["items"]["$ref"],
            "#/components/schemas/Vm");
}

// A path of the route: each variable is "x".
std::string some_path(const Route& route) {
  std::string path(route.path);
  for (std::size_t at = path.find('{'); at != std::string::npos; at = path.find('{')) {
    path.replace(at, path.find('}') - at + 1, "x");
  }
  return path;
}

TEST(Roles, ReadOnlyIsGetOfEachRouteAndNothingElse) {
  const FakeMember member;
  FakeHost host;
  const Router router = make_router(host.parts(member.plane.get()));
  for (const Route& route : router.routes()) {
    Call asked = call(std::string(route.method), some_path(route));
    asked.role = Role::kReadOnly;
    const Reply reply = router.answer(asked);
    if (route.method == "GET") {
      EXPECT_NE(reply.status, 403) << route.path;
    } else {
      EXPECT_EQ(reply.status, 403) << route.method << " " << route.path;
      EXPECT_THAT(reply.text, HasSubstr("[api] token_file")) << route.path;
    }
  }
  for (const char* method : {"POST", "PUT", "get", "OPTIONS", ""}) {
    Call asked = call(method, "/v1/version");
    asked.role = Role::kReadOnly;
    EXPECT_EQ(router.answer(asked).status, 403) << method;
  }
}

TEST(Parameters, EachRouteRefusesUnknownOnes) {
  const FakeMember member;
  FakeHost host;
  const Router router = make_router(host.parts(member.plane.get()));
  for (const Route& route : router.routes()) {
    for (const char* name : {"dry_run", "Adapter", ""}) {
      Call asked = call(std::string(route.method), some_path(route));
      asked.query = {{name, "true"}};
      for (const std::string_view known : route.query) asked.query.emplace(known, "true");
      const Reply reply = router.answer(asked);
      EXPECT_EQ(reply.status, 400) << route.method << " " << route.path;
      EXPECT_THAT(Json::parse(reply.text)["error"].get<std::string>(),
                  HasSubstr("has no parameter \"" + std::string(name) + "\": it "))
          << route.path;
    }
  }
  EXPECT_TRUE(member.plane->inventory()->switches.empty());
}

TEST(Parameters, TheRefusalNamesThemAndWhatTheRouteKnows) {
  FakeHost host;
  const Router router = make_router(host.parts());
  Call asked = call("GET", "/v1/qps");
  asked.query = {{"vm", "VM-01"}};
  EXPECT_EQ(
      router.answer(asked).text,
      "{\"error\":\"GET /v1/qps has no parameter \\\"vm\\\": it knows only adapter, path, after, limit\"}\n");
  asked.path = "/v1/adapters";
  EXPECT_EQ(
      router.answer(asked).text,
      "{\"error\":\"GET /v1/adapters has no parameter \\\"vm\\\": it has no parameters at all, leave it "
      "out\"}\n");
  asked.query = {{std::string(10'000, 'x'), ""}};
  EXPECT_LT(router.answer(asked).text.size(), 200U);
}

TEST(Head, IsGetExceptOfStreams) {
  FakeHost host;
  const Router router = make_router(host.parts());
  EXPECT_EQ(router.answer(call("HEAD", "/v1/version")).text, router.answer(call("GET", "/v1/version")).text);
  std::size_t streams = 0;
  for (const Route& route : router.routes()) {
    const Reply reply = router.answer(call("HEAD", some_path(route)));
    if (route.streams) {
      ++streams;
      EXPECT_EQ(reply.status, 405) << route.path;
      EXPECT_EQ(reply.headers.at("Allow"), route.method);
      EXPECT_EQ(reply.stream, nullptr);
    } else {
      EXPECT_NE(reply.status, 405) << route.path;
    }
  }
  EXPECT_EQ(streams, 3U) << "captures, checkpoints and watchers";
}

TEST(Version, TellsTheHostTheRoleAndTheFeatures) {
  const FakeMember member;
  FakeHost host;
  ApiParts parts = host.parts(member.plane.get());
  parts.injects_faults = true;
  const Router router = make_router(parts);
  Call asked = call("GET", "/v1/version");
  asked.role = Role::kReadOnly;
  const Json answer = Json::parse(router.answer(asked).text);
  EXPECT_EQ(answer["version"], "1.2.3");
  EXPECT_EQ(answer["api"], "v1");
  EXPECT_EQ(answer["host"], "esx-01");
  EXPECT_EQ(answer["role"], "read-only");
  Json features{"watch", "events", "batch", "faults"};
  if (!web::assets().empty()) features.push_back("web");
  EXPECT_EQ(answer["features"], features);
}

// --- Tests that need no socket ---

TEST(RdmaStats, AreReadOnTheHostThatHasTheDevice) {
  const FakeMember member;
  FakeHost host;
  const std::string sysfs = test_path(".sys");
  const std::string counters = sysfs + "/class/infiniband/mlx5_0/ports/1/counters";
  std::filesystem::create_directories(counters);
  std::ofstream(counters + "/port_xmit_data") << "77\n";
  const Router router = make_router(host.parts(member.plane.get(), sysfs));

  const Reply own = router.answer(call("GET", "/v1/hosts/self/rdma/vmrdma0/stats"));
  EXPECT_EQ(own.status, 200) << own.text;
  EXPECT_EQ(Json::parse(own.text), Json::parse(R"({"device": "vmrdma0", "stats": {"port_xmit_data": 77}})"));

  EXPECT_EQ(router.answer(call("GET", "/v1/hosts/esx-01/rdma/vmrdma1/stats")).status, 404);
  EXPECT_EQ(router.answer(call("GET", "/v1/hosts/esx-09/rdma/vmrdma0/stats")).status, 404);
  const Reply other = router.answer(call("GET", "/v1/hosts/esx-02/rdma/vmrdma0/stats"));
  EXPECT_EQ(other.status, 409) << "no certificates";
  EXPECT_THAT(other.text, HasSubstr("ask the pvrdmad of esx-02"));
  std::filesystem::remove_all(sysfs);
}

TEST(VmLaunch, WritesArgumentsForQemu) {
  const VmLaunch launch{"VM-01", "52:54:00:00:00:01", "/run/a \"b\"/VM-01.sock", 512};
  const Json arguments = Json::parse(qemu_args_json(launch))["arguments"];
  const std::vector<std::string> expected{
      "-object",
      "memory-backend-memfd,id=ram,size=512M,share=on",
      "-machine",
      "q35,memory-backend=ram,aux-ram-share=on",
      "-m",
      "512M",
      "-device",
      "vmxnet3,netdev=net0,mac=52:54:00:00:00:01,bus=pcie.0,addr=10.0,multifunction=on",
      "-device",
      R"({"driver":"vfio-user-pci","bus":"pcie.0","addr":"10.1",)"
      R"("socket":{"type":"unix","path":"/run/a \"b\"/VM-01.sock"}})",
      "-qmp",
      R"(unix:/run/a "b"/VM-01.vmm/qmp,server=on,wait=off)"};
  EXPECT_EQ(arguments.get<std::vector<std::string>>(), expected);
}

TEST(VmLaunch, WritesThoseOfAQemuThatWaits) {
  const std::string folder = testing::TempDir() + "a,b_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder + "/VM-01.vmm");
  const VmLaunch launch{"VM-01", "52:54:00:00:00:01", folder + "/VM-01.sock", 512};
  const auto last_arguments = [&launch] {
    const Json all = Json::parse(incoming_qemu_args_json(launch))["arguments"];
    return std::vector<std::string>(all.end() - 6, all.end());
  };
  const std::string quoted = testing::TempDir() + "a,,b_" + std::to_string(::getpid());
  std::vector<std::string> expected{
      "unix:" + quoted + "/VM-01.vmm/next.qmp,server=on,wait=off",
      "-S",
      "-incoming",
      "unix:" + quoted + "/VM-01.vmm/main",
      "-incoming",
      R"({"channel-type":"cpr","addr":{"transport":"socket","type":"unix","path":")" + folder +
          R"(/VM-01.vmm/cpr"}})"};
  EXPECT_EQ(last_arguments(), expected);
  {
    const auto second =
        UnixListener::listen(folder + "/VM-01.vmm/next.qmp", {.what = "QEMU", .mode = 0600, .backlog = 4})
            .value();
    expected[0] = "unix:" + quoted + "/VM-01.vmm/qmp,server=on,wait=off";
    EXPECT_EQ(last_arguments(), expected) << "the VM's QEMU has the second monitor";
  }
  std::filesystem::remove_all(folder);
}

TEST(Routes, AVmGoesOnInAnotherQemu) {
  FakeHost host;
  const Router router = make_router(host.parts());
  const auto post = [&router](const std::string& adapter, const std::string& body) {
    Call asked = call("POST", "/v1/adapters/" + adapter + "/upgrade-vmm");
    asked.body = body;
    return router.answer(std::move(asked));
  };
  const Reply upgraded = post("VM-01", "{}");
  EXPECT_EQ(upgraded.status, 200) << upgraded.text;
  EXPECT_EQ(Json::parse(upgraded.text), Json::parse(R"({
    "vm": "VM-01", "from": {"version": "10.0.2", "pid": 17}, "to": {"version": "11.1.3", "pid": 18}, "pause_us": 30000,
    "qemu_us": 20000, "restore_us": 8000, "adapter_us": 500, "state_bytes": 1234})"));
  EXPECT_EQ(post("VM-07", "{}").status, 404);
  const Reply refused = post("VM-01", R"({"monitor": "gone"})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.text, HasSubstr("QEMU's monitor cannot be reached at gone"));
  EXPECT_EQ(post("VM-01", R"({"monitr": "x"})").status, 400);
}

TEST(VmLaunch, WritesADomainForLibvirt) {
  const VmLaunch launch{"VM-01", "52:54:00:00:00:01", "/run/a'<&/VM-01.sock", 512, R"({"name":"<"})"};
  const std::string xml = Json::parse(libvirt_xml_json(launch))["xml"];
  EXPECT_THAT(xml, HasSubstr("<name>VM-01</name>"));
  EXPECT_THAT(xml, HasSubstr("<pvrdma:vm xmlns:pvrdma='https://pvrdma.invalid/libvirt/domain/1.0'>"
                             "{&quot;name&quot;:&quot;&lt;&quot;}</pvrdma:vm>"));
  EXPECT_THAT(xml, HasSubstr("<memory unit='MiB'>512</memory>"));
  EXPECT_THAT(xml, HasSubstr("<source type='memfd'/>"));
  EXPECT_THAT(xml, HasSubstr("<mac address='52:54:00:00:00:01'/>"));
  EXPECT_THAT(xml, HasSubstr("slot='0x10' function='0x0' multifunction='on'"));
  EXPECT_THAT(xml, HasSubstr("<qemu:arg value='{&quot;driver&quot;:&quot;vfio-user-pci&quot;"));
  EXPECT_THAT(xml, HasSubstr("/run/a&apos;&lt;&amp;/VM-01.sock"));
}

}  // namespace
}  // namespace api
}  // namespace pvrdma
