// "vm ...": virtual machines, their PVRDMA adapters, and the commands that start their VMM.
#include <algorithm>
#include <fmt/core.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "pvrdmactl/domain_xml.h"
#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"
#include "vocabulary/doorbell_mode.h"
#include "vocabulary/hardware_version.h"
#include "vocabulary/profile.h"

namespace pvrdma::ctl {
namespace {

constexpr std::size_t kDomainBytesMax = 1024 * 1024;

// --reserve all: the VM's memory, or the memory that the same command gives it.
Result<void> reserve_all(Values& values, const Ask& ask) {
  const auto reserve = values.find("reserve");
  if (reserve == values.end() || reserve->second != "all") return {};
  if (const auto memory = values.find("memory"); memory != values.end()) {
    reserve->second = memory->second;
    return {};
  }
  const auto vm = ask("/v1/vms/" + values.at("NAME"));
  if (!vm) return Failure(vm.error());
  reserve->second = digits_at(*vm, "memory_mib");
  return {};
}

Table vm_list(const Json& list) {
  Table table({{"Name"},
               {"Host"},
               {"Power"},
               {"HW", Align::kRight},
               {"Memory MiB", Align::kRight},
               {"Reserved MiB", Align::kRight},
               {"MAC"},
               {"DVS"},
               {"Port Group"},
               {"RoCE"}});
  for (const Json& vm : list) {
    const Json& adapter = vm.at("adapter");
    const auto of_adapter = [&](const char* key) { return adapter.is_null() ? "-" : text_at(adapter, key); };
    table.add({text_at(vm, "name"), text_at(vm, "host"), text_at(vm, "power"),
               digits_at(vm, "hardware_version"), digits_at(vm, "memory_mib"),
               digits_at(vm, "memory_reserved_mib"), of_adapter("mac"), of_adapter("dvs"),
               of_adapter("portgroup"), of_adapter("protocol")});
  }
  return table;
}

std::string addresses_text(const Json& addresses) {
  std::string text;
  for (const Json& address : addresses) text += (text.empty() ? "" : ", ") + address.get<std::string>();
  return text.empty() ? "any" : text;
}

std::string owner_text(const Json& adapter) {
  const std::string user = text_at(adapter, "owner");
  const std::string group = text_at(adapter, "group");
  return (user.empty() ? "the daemon's user" : user) + (group.empty() ? "" : ", group " + group);
}

std::string vm_text(const Json& vm) {
  Properties properties(text_at(vm, "name"));
  properties.add("Host", text_at(vm, "host"));
  properties.add("Power", text_at(vm, "power"));
  properties.add("Hardware Version", digits_at(vm, "hardware_version"));
  properties.add("Memory", digits_at(vm, "memory_mib") + " MiB");
  properties.add("Reserved Memory", digits_at(vm, "memory_reserved_mib") + " MiB");
  if (const Json& adapter = vm.at("adapter"); !adapter.is_null()) {
    properties.add("MAC", text_at(adapter, "mac"));
    properties.add("DVS", text_at(adapter, "dvs"));
    properties.add("Port Group", text_at(adapter, "portgroup"));
    properties.add("Protocol", "RoCE " + text_at(adapter, "protocol"));
    properties.add("Profile", text_at(adapter, "profile"));
    properties.add("Doorbells", text_at(adapter, "doorbells"));
    properties.add("Addresses", addresses_text(adapter.at("addresses")));
    properties.add("Socket", text_at(adapter, "socket"));
    properties.add("Socket Owner", owner_text(adapter));
  }
  if (const std::string why = text_at(vm, "power_on_refusal"); !why.empty()) {
    properties.add("Cannot Power On", why);
  }
  if (const std::string why = text_at(vm, "not_served"); !why.empty()) properties.add("Not Served", why);
  return properties.text();
}

// Quotes a word for a shell if necessary.
std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string qemu_args_text(const Json& answer) {
  std::string line;
  for (const Json& argument : answer.at("arguments")) {
    line += (line.empty() ? "" : " ") + shell_word(argument.get<std::string>());
  }
  return line + "\n";
}

std::string ms_text(const Json& object, const char* key) {
  return fmt::format("{:.1f}", static_cast<double>(object.at(key).get<std::uint64_t>()) / 1000);
}

std::string upgraded_text(const Json& answer) {
  const auto qemu = [&answer](const char* which) {
    const Json& process = answer.at(which);
    return fmt::format("QEMU {} (pid {})", text_at(process, "version"), digits_at(process, "pid"));
  };
  return fmt::format(
      "{}: {} -> {}\n"
      "  pause  {} ms (QEMU {}, PCI state {}, adapter {})\n"
      "  state  {} bytes\n",
      text_at(answer, "vm"), qemu("from"), qemu("to"), ms_text(answer, "pause_us"),
      ms_text(answer, "qemu_us"), ms_text(answer, "restore_us"), ms_text(answer, "adapter_us"),
      digits_at(answer, "state_bytes"));
}

// --restore and --incoming are one parameter of the request.
Result<void> choose_incoming(Values& values, const Ask& /*ask*/) {
  if (!values.contains("restore")) return {};
  values["incoming"] = "file";
  return {};
}

// --merge: a whole domain instead of the fragment.
Result<Json> merged_into_domain(Json answer, const Values& values) {
  const auto path = values.find("merge");
  if (path == values.end()) return answer;
  std::ifstream file(path->second);
  std::string domain;
  for (char c = 0; domain.size() <= kDomainBytesMax && file.get(c);) domain += c;
  if (!file.eof() || domain.size() > kDomainBytesMax) {
    return fail(ErrorKind::kInvalid,
                fmt::format("{} cannot be read as a domain's XML: name a readable file of at most {} KiB",
                            path->second, kDomainBytesMax / 1024));
  }
  auto merged = merge_domain(domain, text_at(answer, "xml"));
  if (!merged) return fail(merged.error().kind, fmt::format("{}: {}", path->second, merged.error().message));
  answer["xml"] = *std::move(merged);
  return answer;
}

std::string libvirt_xml_text(const Json& answer) {
  std::string xml = text_at(answer, "xml");
  if (!xml.ends_with('\n')) xml += '\n';
  return xml;
}

template <Worded Enum>
std::vector<std::string> choices_of() {
  const auto texts = texts_of<Enum>();
  return {texts.begin(), texts.end()};
}

Argument the_vm() {
  return named("NAME", "the VM", Names::kVms);
}

Argument hardware_version() {
  return {.name = "hw",
          .kind = Kind::kNumber,
          .help = fmt::format("the VM's hardware version; adapters need one of {}",
                              hardware_versions_with_adapter()),
          .required = true,
          .member = "/hardware_version"};
}

Argument memory() {
  return {
      .name = "memory", .kind = Kind::kNumber, .help = "its memory", .shows = "MiB", .member = "/memory_mib"};
}

Argument reserve() {
  return {.name = "reserve",
          .kind = Kind::kMemory,
          .help = "how much of it is reserved; a VM with an adapter needs all",
          .member = "/memory_reserved_mib"};
}

Argument vm_host(std::string help) {
  return {.letter = 'H', .name = "host", .help = std::move(help), .member = "/host", .names = Names::kHosts};
}

Argument doorbells(const std::string& object, const std::string& otherwise = "") {
  return {
      .name = "doorbells",
      .kind = Kind::kChoice,
      .help = "how its processes' doorbells reach the daemon: each trapped, or mapped and polled" + otherwise,
      .choices = choices_of<DoorbellMode>(),
      .member = object + "/doorbells"};
}

Argument addresses(const std::string& object) {
  return {.name = "addresses",
          .kind = Kind::kTexts,
          .help = "the only addresses that its guest may use, separated by commas, or any",
          .shows = "addresses",
          .member = object + "/addresses"};
}

Argument account(const std::string& object, const std::string& name, std::string help) {
  return {.name = name,
          .kind = Kind::kText,
          .help = std::move(help),
          .shows = name == "owner" ? "user" : "group",
          .member = object + "/" + name};
}
Argument owner(const std::string& object) {
  return account(object, "owner", "the owner of the adapter's socket on its host: the user its QEMU runs as");
}
Argument group(const std::string& object) {
  return account(object, "group", "a group that may also use the adapter's socket");
}

// `object` is the adapter's place in the body: "" or "/adapter".
std::vector<Argument> adapter_options(const std::string& object) {
  std::vector<Argument> options = {
      {.name = "portgroup",
       .help = "the port group of its PVRDMA adapter",
       .required = object.empty(),
       .member = object + "/portgroup",
       .names = Names::kPortGroups},
      {.name = "dvs",
       .help = "the switch of the port group; default: the one that has it",
       .member = object + "/dvs",
       .names = Names::kSwitches},
      {.name = "mac",
       .kind = Kind::kText,
       .help = "the MAC of its vmxnet3 adapter; default: made from the cluster and the name",
       .shows = "mac",
       .member = object + "/mac"},
      {.name = "protocol",
       .kind = Kind::kChoice,
       .help = fmt::format("RoCE v1 or v2; default: v1 before hardware version {}, v2 from there on",
                           number_of(kFirstWithRoceV2)),
       .choices = choices_of<RoceVersion>(),
       .member = object + "/protocol"},
      {.name = "profile",
       .kind = Kind::kChoice,
       .help = "the limits of ESXi's adapter, or what the driver can use; default: open",
       .choices = choices_of<Profile>(),
       .member = object + "/profile"},
      doorbells(object, "; default: mapped on x86-64 hosts, else trapped"),
      addresses(object),
      owner(object),
      group(object)};
  for (Argument& option : options) {
    if (option.name != "portgroup") option.needs = "portgroup";
  }
  return options;
}

Command create_command() {
  Argument name = named("NAME", "the VM");
  name.member = "/name";
  Argument whole = memory();
  whole.required = true;
  Command command{.words = "vm create",
                  .help = "define a VM, with or without a PVRDMA adapter",
                  .arguments = {name, vm_host("where it runs; default: the daemon's own host"),
                                hardware_version(), whole, reserve()},
                  .method = Method::kPost,
                  .path = "/v1/vms",
                  .complete = reserve_all,
                  .text = vm_text};
  std::ranges::move(adapter_options("/adapter"), std::back_inserter(command.arguments));
  return command;
}

Command set_command() {
  return {.words = "vm set",
          .help = "change a VM that is off",
          .arguments = {the_vm(),
                        vm_host("where it runs"),
                        memory(),
                        reserve(),
                        {.name = "portgroup",
                         .help = "the port group of its adapter",
                         .member = "/portgroup",
                         .names = Names::kPortGroups},
                        {.name = "dvs",
                         .help = "the switch of the port group",
                         .member = "/dvs",
                         .names = Names::kSwitches},
                        {.name = "protocol",
                         .kind = Kind::kChoice,
                         .help = "RoCE v1 or v2",
                         .choices = choices_of<RoceVersion>(),
                         .member = "/protocol"},
                        doorbells(""),
                        addresses(""),
                        owner(""),
                        group("")},
          .method = Method::kPatch,
          .path = "/v1/vms/{NAME}",
          .complete = reserve_all,
          .text = vm_text};
}

Command add_adapter_command() {
  Command command{.words = "vm adapter add",
                  .help = "give a VM that is off its PVRDMA adapter",
                  .arguments = {the_vm()},
                  .method = Method::kPut,
                  .path = "/v1/vms/{NAME}/adapter",
                  .text = vm_text};
  std::ranges::move(adapter_options(""), std::back_inserter(command.arguments));
  return command;
}

Command upgrade_vmm_command() {
  return {.words = "vm upgrade-vmm",
          .help = "move a running VM to a new QEMU on its host, which waits for it",
          .arguments = {the_vm(),
                        {.name = "monitor",
                         .kind = Kind::kText,
                         .help = "QMP socket of the QEMU that runs it; default: that of vm qemu-args",
                         .shows = "path",
                         .member = "/monitor"},
                        {.name = "new-monitor",
                         .kind = Kind::kText,
                         .help = "QMP socket of the new one; default: that of vm qemu-args --incoming",
                         .shows = "path",
                         .member = "/new_monitor"}},
          .method = Method::kPost,
          .path = "/v1/adapters/{NAME}/upgrade-vmm",
          .answer_seconds = 120,
          .text = upgraded_text};
}

Command libvirt_hook_command() {
  return {.words = "vm libvirt-hook",
          .help = "see to it that the adapter of the libvirt domain on standard input is served",
          .transfer = Transfer::kDomain};
}

}  // namespace

Section vm_commands() {
  return {
      .namespaces = {{"vm", "virtual machines"}, {"vm adapter", "PVRDMA adapters of VMs"}},
      .commands = {create_command(),
                   {.words = "vm list", .help = "list the VMs", .path = "/v1/vms", .table = vm_list},
                   {.words = "vm get",
                    .help = "show one VM",
                    .arguments = {the_vm()},
                    .path = "/v1/vms/{NAME}",
                    .text = vm_text},
                   set_command(),
                   {.words = "vm upgrade",
                    .help = "raise a VM's hardware version; its adapter keeps its protocol",
                    .arguments = {the_vm(), hardware_version()},
                    .method = Method::kPost,
                    .path = "/v1/vms/{NAME}/upgrade",
                    .text = vm_text},
                   {.words = "vm delete",
                    .help = "forget a VM that is off",
                    .arguments = {the_vm()},
                    .method = Method::kDelete,
                    .path = "/v1/vms/{NAME}"},
                   add_adapter_command(),
                   {.words = "vm adapter remove",
                    .help = "remove a VM's PVRDMA adapter",
                    .arguments = {the_vm()},
                    .method = Method::kDelete,
                    .path = "/v1/vms/{NAME}/adapter"},
                   {.words = "vm qemu-args",
                    .help = "print the arguments QEMU needs for the VM, quoted for a shell",
                    .arguments = {the_vm(),
                                  {.name = "incoming",
                                   .kind = Kind::kFlag,
                                   .help = "for a new QEMU that waits until vm upgrade-vmm gives it the VM",
                                   .constant = "true",
                                   .member = "/incoming"},
                                  {.name = "restore",
                                   .kind = Kind::kFlag,
                                   .help = "for a QEMU that waits until vm restore resumes the VM there",
                                   .constant = "true",
                                   .member = "/incoming"}},
                    .path = "/v1/vms/{NAME}/qemu-args?incoming={incoming}",
                    .complete = choose_incoming,
                    .text = qemu_args_text,
                    .has_multiline_text = true},
                   upgrade_vmm_command(),
                   migrate_command(),
                   checkpoint_command(),
                   restore_command(),
                   {.words = "vm libvirt-xml",
                    .help = "print the parts that libvirt's domain XML needs for the VM",
                    .arguments = {the_vm(),
                                  {.name = "merge",
                                   .kind = Kind::kFile,
                                   .help = "print this domain's XML with these parts added"}},
                    .path = "/v1/vms/{NAME}/libvirt-xml",
                    .select = merged_into_domain,
                    .text = libvirt_xml_text,
                    .has_multiline_text = true},
                   libvirt_hook_command()}};
}

}  // namespace pvrdma::ctl
