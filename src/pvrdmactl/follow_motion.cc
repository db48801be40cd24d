#include "pvrdmactl/follow_motion.h"

#include <chrono>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "pvrdmactl/virsh.h"

namespace pvrdma::ctl {
namespace {

constexpr std::chrono::milliseconds kFollowPause(100);

// The arguments of virsh. A domain that has a definition moves with it.
Result<std::vector<std::string>> migrate_arguments(const Values& values) {
  const std::string& name = values.at("NAME");
  const auto info = Virsh::ask({"dominfo", name});
  if (!info) return Failure(info.error());
  std::vector<std::string> arguments{"migrate", "--live", "--suspend"};
  const auto persistent = info->find("Persistent:");
  if (persistent != std::string::npos && info->find_first_not_of(' ', persistent + 11) != std::string::npos &&
      info->substr(info->find_first_not_of(' ', persistent + 11), 3) == "yes")
    arguments.insert(arguments.end(), {"--persistent", "--undefinesource"});
  arguments.insert(arguments.end(), {name, values.at("libvirt")});
  if (const auto uri = values.find("migrateuri"); uri != values.end())
    arguments.insert(arguments.end(), {"--migrateuri", uri->second});
  return arguments;
}

// The sentence of a motion that failed.
Error why_failed(const Json& motion, const std::optional<int>& virsh) {
  std::string why = motion.value("error", "without a reason");
  if (virsh && *virsh != 0) why = fmt::format("virsh migrate ended with {}: {}", *virsh, why);
  return {0, why};
}

Error is_lost(const Json& motion) {
  return {0, fmt::format("VM {} has left host {}, and its connections are lost: let libvirt resume it on "
                         "host {}, and reload its driver there (the log of pvrdmad says why)",
                         motion.value("vm", ""), motion.value("from", ""), motion.value("to", ""))};
}

Error is_left_standing(const Json& motion) {
  return {0, fmt::format("VM {} does not go to host {}, and is paused on host {} until libvirt resumes it: "
                         "virsh resume {}",
                         motion.value("vm", ""), motion.value("to", ""), motion.value("from", ""),
                         motion.value("vm", ""))};
}

}  // namespace

std::string progress_of(const Json& state) {
  const std::string phase = state.value("phase", "");
  const auto total = state.value("ram_bytes", std::uint64_t{0});
  if (phase == "waits for QEMU") return fmt::format("{} on host {}", phase, state.value("to", ""));
  if (total == 0) return phase;
  return fmt::format("{}{}{} of {} MiB", phase, phase.empty() ? "" : ": ",
                     (total - state.value("remaining_bytes", total)) >> 20, total >> 20);
}

Result<std::string> follow_motion(const SendRequest& send, const Command& command, const Values& values,
                                  const std::function<void(const Json& motion)>& show) {
  Request request = make_request(command, values);
  const Request look{Method::kGet, request.path.substr(0, request.path.find('?')), ""};
  const Request cancel{Method::kDelete, look.path, ""};
  if (values.contains("cancel")) return send(cancel);
  std::vector<std::string> for_virsh;
  if (values.contains("libvirt")) {
    Json body = Json::parse(request.body);
    body["leader"] = "libvirt";
    request.body = body.dump();
  }
  if (values.contains("check")) return send(request);
  if (values.contains("libvirt")) {
    auto arguments = migrate_arguments(values);
    if (!arguments) return Failure(std::move(arguments).error());
    for_virsh = *std::move(arguments);
  }
  std::optional<Virsh> virsh;
  bool cancelled = false;
  auto answer = send(request);
  while (answer) {
    const Json motion = Json::parse(*answer, nullptr, /*allow_exceptions=*/false);
    const std::string state = motion.is_object() ? motion.value("state", "") : "";
    const std::string phase = motion.is_object() ? motion.value("phase", "") : "";
    const std::optional<int> ended = virsh ? virsh->ended() : std::nullopt;
    if (state == "failed") {
      if (virsh) virsh->interrupt();  // otherwise libvirt would move it without its adapter
      return Failure(why_failed(motion, ended));
    }
    if (state != "runs") break;
    if (phase == "lost" || phase == "stands") {
      if (virsh) virsh->leave();  // virsh may wait for a libvirt that does not answer
      return Failure(phase == "lost" ? is_lost(motion) : is_left_standing(motion));
    }
    if (!virsh && !for_virsh.empty() && phase == "waits for QEMU") {
      auto started = Virsh::start(for_virsh);
      if (!started) {
        static_cast<void>(send(cancel));
        return Failure(std::move(started).error());
      }
      virsh.emplace(*std::move(started));
    }
    if ((ended && *ended != 0) && !std::exchange(cancelled, true)) static_cast<void>(send(cancel));
    show(motion);
    std::this_thread::sleep_for(kFollowPause);
    answer = send(look);
  }
  return answer;
}

}  // namespace pvrdma::ctl
