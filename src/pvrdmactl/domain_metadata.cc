#include "pvrdmactl/domain_metadata.h"

#include <fmt/core.h>

#include "pvrdmactl/xml_document.h"
#include "vocabulary/libvirt_metadata.h"
#include "vocabulary/name.h"

namespace pvrdma::ctl {
namespace {

Failure refuse(const std::string& domain, const std::string& why) {
  return fail(ErrorKind::kConflict,
              fmt::format("the metadata of domain {} {}: add the VM to the domain again with pvrdmactl vm "
                          "libvirt-xml --merge",
                          domain, why));
}

}  // namespace

Result<std::optional<DomainVm>> vm_of_domain(const std::string& domain) {
  if (domain.find(kLibvirtMetadata) == std::string::npos) return std::nullopt;
  const auto document = xml::parse(domain);
  if (!document) return fail(ErrorKind::kConflict, "the domain: " + document.error().message);
  const xmlNode* const root = xmlDocGetRootElement(document->get());
  const xmlNode* const element =
      xml::child_of_namespace(xml::child(root, "metadata"), "vm", kLibvirtMetadata);
  if (element == nullptr) return std::nullopt;
  DomainVm vm{.name = xml::text_of(xml::child(root, "name")),
              .definition = Json::parse(xml::text_of(element), nullptr, /*allow_exceptions=*/false),
              .macs = {}};
  const bool is_definition = vm.definition.is_object() && vm.definition.contains("name") &&
                             vm.definition["name"].is_string() && vm.definition.contains("adapter") &&
                             vm.definition["adapter"].is_object();
  if (!is_definition) return refuse(vm.name, "defines no VM with an adapter");
  const auto name = vm.definition["name"].get<std::string>();
  if (!is_name(name)) return refuse(vm.name, fmt::format("names a VM otherwise than by {}", kNameRule));
  if (name != vm.name) return refuse(vm.name, fmt::format("is that of VM {}", name));
  for (const xmlNode* each : xml::children(xml::child(root, "devices"), "interface"))
    vm.macs.push_back(xml::mac_of(each));
  return vm;
}

}  // namespace pvrdma::ctl
