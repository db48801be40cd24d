// "vm libvirt-hook" against a simulated daemon.
#include "pvrdmactl/libvirt_hook.h"

#include <cerrno>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <vector>

#include "pvrdmactl/domain_metadata.h"

namespace pvrdma::ctl {
namespace {

using testing::HasSubstr;

constexpr const char* kMac = "52:54:00:00:00:01";
const Json kDefinition{{"name", "VM-01"},
                       {"host", "esx-09"},
                       {"hardware_version", 14},
                       {"memory_mib", 256},
                       {"memory_reserved_mib", 256},
                       {"adapter", {{"mac", kMac}, {"dvs", "DSwitch"}, {"portgroup", "pg1"}}}};

std::string metadata(const std::string& text,
                     const std::string& space = "https://pvrdma.invalid/libvirt/domain/1.0") {
  return "<metadata><other:vm xmlns:other='urn:other'>{}</other:vm><p:vm xmlns:p='" + space + "'>" + text +
         "</p:vm></metadata>";
}
std::string domain_with(const std::string& inside, const std::string& name = "VM-01") {
  return "<domain type='kvm'><name>" + name + "</name>" + inside +
         "<devices><interface type='user'><mac address='52:54:00:00:00:01'/></interface></devices></domain>";
}

// A daemon of host esx-01.
class LibvirtHookTest : public testing::Test {
 protected:
  Result<void> prepare(const std::string& xml, std::chrono::milliseconds patience = {}) {
    return prepare_domain([this](const Request& request) { return answer(request); }, xml, patience);
  }
  std::string refusal(const std::string& xml) {
    const auto done = prepare(xml);
    EXPECT_FALSE(done);
    return done ? "" : done.error().message;
  }
  void add_vm(const std::string& host, const Json& change = Json::object()) {
    Json vm{{"name", "VM-01"},        {"host", host},    {"motion", nullptr}, {"adapter", {{"mac", kMac}}},
            {"power_on_refusal", ""}, {"not_served", ""}};
    vm.update(change);
    vms_ = Json::array({vm});
  }
  void serve(const std::string& mac = kMac) {
    adapters_ = Json::array({{{"name", "VM-00"}, {"mac", "x"}}, {{"name", "VM-01"}, {"mac", mac}}});
  }

  const std::string xml_ = domain_with(metadata(kDefinition.dump()));
  Json vms_ = Json::array();
  Json adapters_ = Json::array();
  bool serves_what_it_makes_ = true;
  std::string trouble_;
  std::vector<int> refused_connections_;  // errno of each, before the daemon answers
  std::vector<std::string> asked_;        // all
  std::vector<std::string> made_;         // changes, with their bodies

 private:
  Result<std::string> answer(const Request& request) {
    asked_.push_back(request.path);
    if (!trouble_.empty()) return fail(trouble_);
    if (asked_.size() <= refused_connections_.size()) {
      return fail(refused_connections_[asked_.size() - 1], "the daemon cannot be reached");
    }
    if (request.path == "/v1/hosts/self") return R"({"name": "esx-01"})";
    if (request.method != Method::kGet) {
      made_.push_back(std::string(to_string(request.method)) + " " + request.path + " " + request.body);
      add_vm("esx-01");
      if (serves_what_it_makes_) serve();
      return vms_.front().dump();
    }
    return (request.path == "/v1/vms" ? vms_ : adapters_).dump();
  }
};

TEST_F(LibvirtHookTest, LeavesOtherDomainsAlone) {
  for (const std::string& xml :
       {std::string("no XML"), std::string(), domain_with(""), domain_with(metadata("{}", "urn:mine")),
        domain_with("<title>https://pvrdma.invalid/libvirt/domain/1.0</title>")})
    EXPECT_TRUE(prepare(xml)) << xml;
  EXPECT_TRUE(asked_.empty());
}

TEST_F(LibvirtHookTest, AServedAdapterIsEnough) {
  serve();
  EXPECT_TRUE(prepare(xml_));
  EXPECT_EQ(asked_, std::vector<std::string>{"/v1/adapters"}) << "the daemon may be no member of a cluster";
}

TEST_F(LibvirtHookTest, MakesTheVmOnThisHost) {
  Json body = kDefinition;
  body.erase("host");
  serves_what_it_makes_ = false;
  EXPECT_EQ(refusal(xml_),
            "the daemon does not serve the adapter of VM VM-01 after 0 s: see journalctl -u pvrdmad");
  EXPECT_EQ(made_, std::vector<std::string>{"POST /v1/vms " + body.dump()});
  serve();
  EXPECT_TRUE(prepare(xml_)) << "it is served a little later";
  EXPECT_EQ(made_.size(), 1U);
}

TEST_F(LibvirtHookTest, MakesTheAdapterOfAVm) {
  add_vm("esx-01", {{"adapter", nullptr}, {"power_on_refusal", "no matter without an adapter"}});
  static_cast<void>(prepare(xml_));
  EXPECT_EQ(made_, std::vector<std::string>{"PUT /v1/vms/VM-01/adapter " + kDefinition["adapter"].dump()});
  EXPECT_TRUE(prepare(xml_));
}

TEST_F(LibvirtHookTest, RefusesAVmOfAnotherHost) {
  add_vm("esx-02");
  EXPECT_EQ(refusal(xml_),
            "VM VM-01 is on host esx-02, not on this host esx-01: start it there, or bring it here with "
            "pvrdmactl vm set VM-01 --host esx-01");
  add_vm("esx-02", {{"adapter", nullptr}});
  EXPECT_THAT(refusal(xml_), HasSubstr("is on host esx-02"));
  EXPECT_TRUE(made_.empty());
}

TEST_F(LibvirtHookTest, WaitsForTheAdapterOfAVmThatArrives) {
  add_vm("esx-02", {{"motion", {{"id", "1"}, {"to", "esx-01"}}}});
  EXPECT_THAT(refusal(xml_), HasSubstr("does not serve"));
  serve();
  EXPECT_TRUE(prepare(xml_));
}

TEST_F(LibvirtHookTest, SaysWhyAnAdapterIsNotServed) {
  add_vm("esx-01", {{"not_served", "this host has no user a: make it or name another"}});
  EXPECT_EQ(refusal(xml_),
            "the adapter of VM VM-01 is not served: this host has no user a: make it or name another");
  add_vm("esx-01", {{"power_on_refusal", "reserve all memory"}});
  EXPECT_EQ(refusal(xml_), "the adapter of VM VM-01 is not served: reserve all memory");
}

TEST_F(LibvirtHookTest, RefusesADomainWithoutTheAdaptersMac) {
  serve("52:54:00:00:00:02");
  EXPECT_EQ(
      refusal(xml_),
      "no interface of domain VM-01 has its adapter's MAC 52:54:00:00:00:02, so its driver would find no "
      "adapter: add the VM to the domain again with pvrdmactl vm libvirt-xml VM-01 --merge");
}

TEST_F(LibvirtHookTest, RefusesBadMetadata) {
  EXPECT_EQ(
      refusal(domain_with(metadata(kDefinition.dump()), "copy")),
      "the metadata of domain copy is that of VM VM-01: add the VM to the domain again with pvrdmactl vm "
      "libvirt-xml --merge");
  for (const char* text :
       {"", "{", "[]", "{\"name\": 1}", "{\"name\": \"VM-01\"}", "{\"name\": \"VM-01\", \"adapter\": null}"})
    EXPECT_THAT(refusal(domain_with(metadata(text))), HasSubstr("defines no VM with an adapter")) << text;
  Json named = kDefinition;
  named["name"] = "../hosts/self";
  EXPECT_THAT(refusal(domain_with(metadata(named.dump()), "../hosts/self")), HasSubstr("1 to 64 letters"));
  EXPECT_THAT(refusal(domain_with(metadata("<"))), HasSubstr("the domain: line 1: not XML: "));
  EXPECT_TRUE(asked_.empty());
}

TEST_F(LibvirtHookTest, WaitsForADaemonThatStarts) {
  serve();
  refused_connections_ = {ENOENT, ECONNREFUSED};
  EXPECT_TRUE(prepare(xml_, std::chrono::seconds(60)));
  EXPECT_EQ(asked_.size(), 3U);
}

TEST_F(LibvirtHookTest, DoesNotWaitForADaemonThatItMayNotAsk) {
  serve();
  refused_connections_ = {EACCES};
  const auto done = prepare(xml_, std::chrono::seconds(60));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "the daemon cannot be reached");
}

TEST_F(LibvirtHookTest, SaysWhatTheDaemonSays) {
  trouble_ = "the daemon cannot be reached at /run/pvrdma/api.sock";
  const auto done = prepare(xml_);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, trouble_);
  EXPECT_EQ(done.error().kind, ErrorKind::kConflict) << "it is no mistake on the command line";
  trouble_.clear();
  adapters_ = Json::array({1});
  EXPECT_THAT(refusal(xml_), HasSubstr("are they of the same version?"));
}

}  // namespace
}  // namespace pvrdma::ctl
