// "vm checkpoint" and "vm restore": a VM in a file, with its adapter.
#include <fmt/core.h>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"

namespace pvrdma::ctl {
namespace {

Argument the_file(std::string help) {
  Argument file = named("FILE", std::move(help));
  file.kind = Kind::kFile;
  file.member = "/file";
  return file;
}

Argument monitor(std::string help) {
  return {
      .name = "monitor", .kind = Kind::kText, .help = std::move(help), .shows = "path", .member = "/monitor"};
}

std::string seconds_text(const Json& answer) {
  return fmt::format("{:.2f} s", static_cast<double>(answer.at("took_us").get<std::uint64_t>()) / 1e6);
}

std::string qemu_text(const Json& answer) {
  const Json& qemu = answer.at("qemu");
  return fmt::format("QEMU {} (pid {})", text_at(qemu, "version"), digits_at(qemu, "pid"));
}

std::string written_text(const Json& answer) {
  return fmt::format("{}: written in {} by {}, and off\n  memory  {} MiB\n  state   {} bytes\n",
                     text_at(answer, "vm"), seconds_text(answer), qemu_text(answer),
                     answer.at("ram_bytes").get<std::uint64_t>() >> 20, digits_at(answer, "state_bytes"));
}

std::string restored_text(const Json& answer) {
  return fmt::format("{}: goes on in {}, after {}\n", text_at(answer, "vm"), qemu_text(answer),
                     seconds_text(answer));
}

}  // namespace

Command checkpoint_command() {
  return {.words = "vm checkpoint",
          .help = "write a VM with its connections to a file on its host, and power it off",
          .arguments = {named("NAME", "the VM", Names::kVms),
                        the_file("the file, which its QEMU makes or replaces"),
                        monitor("QMP socket of its QEMU; default: that of vm qemu-args")},
          .method = Method::kPost,
          .path = "/v1/adapters/{NAME}/checkpoint",
          .answer_seconds = 60,
          .text = written_text,
          .transfer = Transfer::kCheckpoint,
          .file = "FILE"};
}

Command restore_command() {
  return {.words = "vm restore",
          .help = "resume a VM from a file of vm checkpoint, in a QEMU that waits for it",
          .arguments = {named("NAME", "the VM", Names::kVms), the_file("the file; it stays as it is"),
                        monitor("QMP socket of that QEMU; default: that of vm qemu-args --restore")},
          .method = Method::kPost,
          .path = "/v1/adapters/{NAME}/restore",
          .answer_seconds = 660,
          .text = restored_text,
          .transfer = Transfer::kRestore,
          .file = "FILE"};
}

}  // namespace pvrdma::ctl
