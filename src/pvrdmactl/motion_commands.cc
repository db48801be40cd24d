// "vm migrate" and "motion": VMs in motion to another host.
#include <fmt/core.h>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

double ms_at(const Json& object, const char* key) {
  return static_cast<double>(object.at(key).get<std::uint64_t>()) / 1000;
}

std::uint64_t mib_at(const Json& object, const char* key) {
  return object.at(key).get<std::uint64_t>() >> 20;
}

std::string motion_text(const Json& motion) {
  if (!motion.contains("state")) return "The VM may move to that host. Nothing was moved.\n";  // --check
  const std::string state = text_at(motion, "state");
  std::string text =
      fmt::format("{}: {} -> {}\n", text_at(motion, "vm"), text_at(motion, "from"), text_at(motion, "to"));
  if (state == "failed") return text + fmt::format("  failed  {}\n", text_at(motion, "error"));
  if (state == "runs") {
    text += "  " + text_at(motion, "phase");
    // Not known before QEMU begins to send it.
    if (motion.at("ram_bytes") != 0) {
      text += fmt::format("  {} of {} MiB are left", mib_at(motion, "remaining_bytes"),
                          mib_at(motion, "ram_bytes"));
    }
    return text + "\n";
  }
  const std::string left_to_do = text_at(motion, "error");
  if (!left_to_do.empty()) text += fmt::format("  to do   {}\n", left_to_do);
  return text + fmt::format(
                    "  memory  {} MiB, of which the adapter wrote {}; {} bytes of state\n"
                    "  pause   {:.1f} ms (freeze {:.1f}, pages {:.1f}, state {:.1f}, rest of memory {:.1f}, "
                    "commit {:.1f}, go on {:.1f})\n"
                    "  done    in {:.2f} s\n",
                    mib_at(motion, "ram_bytes"), mib_at(motion, "page_bytes"),
                    digits_at(motion, "state_bytes"), ms_at(motion, "pause_us"), ms_at(motion, "freeze_us"),
                    ms_at(motion, "pages_us"), ms_at(motion, "state_us"), ms_at(motion, "memory_us"),
                    ms_at(motion, "commit_us"), ms_at(motion, "go_on_us"), ms_at(motion, "took_us") / 1000);
}

Table list_table(const Json& motions) {
  Table table({{"VM"}, {"From"}, {"To"}, {"State"}, {"Since"}, {"Pause", Align::kRight}});
  for (const Json& motion : motions) {
    const bool done = text_at(motion, "state") == "done";
    table.add({text_at(motion, "vm"), text_at(motion, "from"), text_at(motion, "to"),
               text_at(motion, "state"), text_at(motion, "since"),
               done ? fmt::format("{:.1f} ms", ms_at(motion, "pause_us")) : ""});
  }
  return table;
}

std::string dumped_text(const Json& answer) {
  return text_at(answer, "text");
}

Argument dumped_file() {
  Argument file = named("FILE", "the file of vm checkpoint");
  file.kind = Kind::kFile;
  return file;
}

}  // namespace

Command migrate_command() {
  return {.words = "vm migrate",
          .help = "move a running VM from the daemon's host to another one, with its connections (vMotion)",
          .arguments = {named("NAME", "the VM", Names::kVms),
                        {.name = "to",
                         .help = "the host that it moves to",
                         .shows = "host",
                         .required = true,
                         .member = "/to",
                         .names = Names::kHosts},
                        {.name = "max-pause",
                         .kind = Kind::kNumber,
                         .help = "the longest pause of the VM that QEMU may plan; default: 500",
                         .shows = "ms",
                         .member = "/max_pause_ms"},
                        {.name = "patience",
                         .kind = Kind::kNumber,
                         .help = "time limit for a QEMU on the other host and for its memory; default: 600",
                         .shows = "s",
                         .member = "/patience_s"},
                        {.name = "monitor",
                         .kind = Kind::kText,
                         .help = "QMP socket of its QEMU; default: that of vm qemu-args",
                         .shows = "path",
                         .member = "/monitor"},
                        {.name = "libvirt",
                         .kind = Kind::kText,
                         .help = "libvirt moves the domain of that name, by virsh migrate to this libvirt",
                         .shows = "URI"},
                        {.name = "migrateuri",
                         .kind = Kind::kText,
                         .help = "passed to virsh migrate",
                         .shows = "URI",
                         .needs = "libvirt"},
                        {.name = "check",
                         .kind = Kind::kFlag,
                         .help = "check whether the VM may move, and move nothing",
                         .constant = "true",
                         .needs = "to"},
                        {.name = "cancel",
                         .kind = Kind::kFlag,
                         .help = "cancel the motion that is under way, unless it is too late",
                         .required = true,
                         .constant = "true",
                         .member = "/to"}},
          .method = Method::kPost,
          .path = "/v1/vms/{NAME}/motion?check={check}",
          .answer_seconds = 30,
          .text = motion_text,
          .transfer = Transfer::kMotion};
}

Section motion_commands() {
  return {.namespaces = {{"motion", "VMs in motion from this host to another one"}},
          .commands = {{.words = "motion list",
                        .help = "list the newest motion of each VM that left this host",
                        .arguments = {other_host()},
                        .path = "/v1/motions",
                        .table = list_table},
                       {.words = "motion get",
                        .help = "show the newest motion of a VM that left this host",
                        .arguments = {named("NAME", "the VM", Names::kVms), other_host()},
                        .path = "/v1/vms/{NAME}/motion",
                        .text = motion_text},
                       {.words = "motion dump",
                        .help = "print the saved state of an adapter in a file of vm checkpoint",
                        .arguments = {dumped_file()},
                        .method = Method::kPost,
                        .path = "/v1/state/print",
                        .text = dumped_text,
                        .has_multiline_text = true,
                        .transfer = Transfer::kState,
                        .file = "FILE"}}};
}

}  // namespace pvrdma::ctl
