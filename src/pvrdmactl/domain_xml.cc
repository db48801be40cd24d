#include "pvrdmactl/domain_xml.h"

#include <cstdlib>
#include <fmt/core.h>
#include <string_view>
#include <utility>
#include <vector>

#include "pvrdmactl/xml_document.h"
#include "vocabulary/libvirt_metadata.h"

namespace pvrdma::ctl {
namespace {

using namespace xml;

constexpr const char* kQemuNamespace = "http://libvirt.org/schemas/domain/qemu/1.0";
constexpr std::string_view kAdapterDriver = "\"vfio-user-pci\"";

xmlNode* ensure_child(xmlNode* parent, const char* name) {
  xmlNode* const found = child(parent, name);
  return found != nullptr ? found : xmlNewChild(parent, nullptr, raw(name), nullptr);
}

void remove(xmlNode* node) {
  xmlUnlinkNode(node);
  xmlFreeNode(node);
}

void remove_children(const xmlNode* parent, const char* name) {
  for (xmlNode* each : children(parent, name)) remove(each);
}

// Puts a copy of the fragment's element in the place of those of that name, or at the end.
void put_child(xmlNode* parent, const xmlNode* original) {
  const char* const name = reinterpret_cast<const char*>(original->name);
  xmlNode* const copy = xmlDocCopyNode(const_cast<xmlNode*>(original), parent->doc, 1);
  xmlNode* const place = child(parent, name);
  if (place == nullptr) {
    xmlAddChild(parent, copy);
    return;
  }
  xmlFreeNode(xmlReplaceNode(place, copy));
  for (xmlNode* each : children(parent, name)) {
    if (each != copy) remove(each);
  }
}

// Whether both name the same slot of a PCI bus, whatever the function. The numbers may be decimal or
// hexadecimal.
bool same_slot(const xmlNode* a, const xmlNode* b) {
  const auto number = [](const xmlNode* address, const char* name) {
    return std::strtoul(attribute(address, name).c_str(), nullptr, 0);
  };
  return attribute(a, "type") == "pci" && attribute(b, "type") == "pci" &&
         number(a, "domain") == number(b, "domain") && number(a, "bus") == number(b, "bus") &&
         number(a, "slot") == number(b, "slot");
}

Result<void> check_domain(const xmlNode* domain, const xmlNode* fragment) {
  if (!is_named(domain, "domain") || children(domain, "os").size() != 1)
    return refuse("the XML is not that of a domain: give the output of virsh dumpxml");
  const std::string type = attribute(domain, "type");
  if (type != "kvm" && type != "qemu")
    return refuse(
        "the domain has the type \"{}\", and the adapter needs QEMU: give a domain of type kvm or qemu",
        type);
  const std::string name = text_of(child(domain, "name"));
  const std::string vm = text_of(child(fragment, "name"));
  if (!name.empty() && name != vm)
    return refuse("the domain is called {} and the VM {}: they must have the same name, rename one of them",
                  name, vm);
  const std::string machine = attribute(child(child(domain, "os"), "type"), "machine");
  if (!machine.empty() && machine.find("q35") == std::string::npos)
    return refuse(
        "the domain has the machine {}, and the adapter needs q35: set it in <os><type machine='q35'>",
        machine);
  if (child(domain, "maxMemory") != nullptr)
    return refuse("the domain has <maxMemory>, but all memory of VM {} is reserved: remove that element", vm);
  return {};
}

xmlNode* vm_metadata(const xmlNode* domain) {
  return child_of_namespace(child(domain, "metadata"), "vm", kLibvirtMetadata);
}

void add_metadata(xmlNode* domain, const xmlNode* fragment) {
  xmlNode* const metadata = ensure_child(domain, "metadata");
  while (xmlNode* const old = vm_metadata(domain)) remove(old);
  xmlAddChild(metadata, xmlDocCopyNode(vm_metadata(fragment), domain->doc, 1));
}

void add_memory(xmlNode* domain, const xmlNode* fragment) {
  remove_children(domain, "currentMemory");
  put_child(domain, child(fragment, "memory"));
  xmlNode* const backing = ensure_child(domain, "memoryBacking");
  for (const char* name : {"source", "access"})
    put_child(backing, child(child(fragment, "memoryBacking"), name));
  xmlNode* const balloon = ensure_child(ensure_child(domain, "devices"), "memballoon");
  while (balloon->children != nullptr) remove(balloon->children);
  while (balloon->properties != nullptr) xmlRemoveProp(balloon->properties);
  xmlSetProp(balloon, raw("model"), raw("none"));
}

void add_machine(xmlNode* domain, const xmlNode* fragment) {
  xmlNode* const type = ensure_child(child(domain, "os"), "type");
  if (attribute(type, "machine").empty()) xmlSetProp(type, raw("machine"), raw("q35"));
  xmlNode* const features = ensure_child(domain, "features");
  for (const xmlNode* each = child(fragment, "features")->children; each != nullptr; each = each->next) {
    if (each->type == XML_ELEMENT_NODE) ensure_child(features, reinterpret_cast<const char*>(each->name));
  }
}

Result<void> add_interface(xmlNode* domain, const xmlNode* fragment) {
  xmlNode* const devices = child(domain, "devices");
  const xmlNode* const wanted = child(child(fragment, "devices"), "interface");
  const xmlNode* const place = child(wanted, "address");
  xmlNode* own = nullptr;
  for (xmlNode* each : children(devices, "interface")) {
    if (mac_of(each) == mac_of(wanted)) own = each;
  }
  for (const xmlNode* each = devices->children; each != nullptr; each = each->next) {
    if (each != own && each->type == XML_ELEMENT_NODE && same_slot(child(each, "address"), place))
      return refuse(
          "a device of the domain, <{}>, is in the adapter's PCI slot {}: give it another <address>",
          reinterpret_cast<const char*>(each->name), attribute(place, "slot"));
  }
  if (own == nullptr) {
    xmlAddChild(devices, xmlDocCopyNode(const_cast<xmlNode*>(wanted), domain->doc, 1));
    return {};
  }
  remove_children(own, "driver");  // it is virtio's
  for (const char* name : {"model", "address"}) put_child(own, child(wanted, name));
  return {};
}

// The values of <qemu:arg>, each with its element.
std::vector<std::pair<std::string, xmlNode*>> arguments_of(const xmlNode* domain) {
  std::vector<std::pair<std::string, xmlNode*>> found;
  for (xmlNode* each : children(child(domain, "commandline"), "arg"))
    found.emplace_back(attribute(each, "value"), each);
  return found;
}

// An option and its value are two elements.
void remove_own_arguments(const xmlNode* domain, const xmlNode* fragment) {
  const auto wanted = arguments_of(fragment);
  const auto present = arguments_of(domain);
  for (std::size_t i = 0; i + 1 < present.size(); ++i) {
    const auto& [option, first] = present[i];
    const auto& [value, second] = present[i + 1];
    bool is_own = option == "-device" && value.find(kAdapterDriver) != std::string::npos;
    for (std::size_t j = 0; j + 1 < wanted.size(); j += 2)
      is_own = is_own || (wanted[j].first == option && wanted[j + 1].first == value);
    if (!is_own) continue;
    remove(first);
    remove(second);
    ++i;
  }
}

void add_arguments(xmlNode* domain, const xmlNode* fragment) {
  remove_own_arguments(domain, fragment);
  xmlNs* space = xmlSearchNsByHref(domain->doc, domain, raw(kQemuNamespace));
  if (space == nullptr) space = xmlNewNs(domain, raw(kQemuNamespace), raw("qemu"));
  xmlNode* line = child(domain, "commandline");
  if (line == nullptr) line = xmlNewChild(domain, space, raw("commandline"), nullptr);
  for (const auto& [value, element] : arguments_of(fragment))
    xmlSetProp(xmlNewChild(line, space, raw("arg"), nullptr), raw("value"), raw(value.c_str()));
}

// Checks that the daemon's XML has what the functions above look for.
Result<void> check_fragment(const xmlNode* fragment) {
  const xmlNode* const devices = child(fragment, "devices");
  const xmlNode* const interface = devices == nullptr ? nullptr : child(devices, "interface");
  if (child(fragment, "name") != nullptr && vm_metadata(fragment) != nullptr &&
      child(fragment, "memory") != nullptr && child(fragment, "memoryBacking") != nullptr &&
      child(fragment, "features") != nullptr && child(fragment, "commandline") != nullptr &&
      interface != nullptr && child(interface, "model") != nullptr && child(interface, "address") != nullptr)
    return {};
  return refuse("the daemon's XML lacks an element: does the daemon have the version of pvrdmactl?");
}

}  // namespace

Result<std::string> merge_domain(const std::string& domain, const std::string& fragment) {
  const auto document = parse(domain);
  if (!document) return Failure(document.error());
  const auto wanted = parse(fragment);
  if (!wanted) return Failure(wanted.error());
  xmlNode* const root = xmlDocGetRootElement(document->get());
  const xmlNode* const added = xmlDocGetRootElement(wanted->get());
  if (auto checked = check_fragment(added); !checked) return Failure(std::move(checked).error());
  if (auto checked = check_domain(root, added); !checked) return Failure(std::move(checked).error());
  if (child(root, "name") == nullptr) put_child(root, child(added, "name"));
  add_metadata(root, added);
  add_memory(root, added);
  add_machine(root, added);
  if (auto put = add_interface(root, added); !put) return Failure(std::move(put).error());
  add_arguments(root, added);
  return xml::print(*document);
}

}  // namespace pvrdma::ctl
