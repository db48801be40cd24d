// pvrdmactl: turns a command line into a request, and the answer into text on the terminal. It knows the
// daemon only through its HTTP API (api/api_server.h).
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/core.h>
#include <functional>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/clean_text.h"
#include "base/result.h"
#include "pvrdmactl/api_client.h"
#include "pvrdmactl/apply_command.h"
#include "pvrdmactl/capture_file.h"
#include "pvrdmactl/checkpoint_file.h"
#include "pvrdmactl/checkpoint_stream.h"
#include "pvrdmactl/completion.h"
#include "pvrdmactl/endpoint.h"
#include "pvrdmactl/event_commands.h"
#include "pvrdmactl/event_lines.h"
#include "pvrdmactl/follow_motion.h"
#include "pvrdmactl/libvirt_hook.h"
#include "pvrdmactl/output.h"
#include "pvrdmactl/parser.h"
#include "pvrdmactl/request.h"
#include "pvrdmactl/support_bundle.h"

namespace pvrdma::ctl {
namespace {

// As documented in pvrdmactl(1).
constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;  // the daemon refuses or cannot be reached
constexpr int kExitUsage = 2;

int fail_with(const Error& error, int code) {
  fmt::print(stderr, "pvrdmactl: {}\n", clean_text(error.message));
  return code;
}

// For errors after parsing: some mistakes on the command line are found only with the daemon's help.
int fail_with(const Command& command, Error error) {
  error.message = in_users_words(command, std::move(error.message));
  if (error.kind != ErrorKind::kInvalid) return fail_with(error, kExitFailed);
  return fail_with({0, fmt::format("{}: see pvrdmactl {} --help", error.message, command.words)}, kExitUsage);
}

int print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return kExitDone;
  return fail_with({errno, "cannot write to standard output: " + std::generic_category().message(errno)},
                   kExitFailed);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

volatile std::sig_atomic_t interrupted = 0;

void note_interrupts() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { interrupted = 1; });
}

// Prints what `shown` makes of the lines of a watch, until a signal or the output's reader ends it. The
// daemon ends it only when it stops.
int watch(const Endpoint& endpoint, const Command& command, const Values& values,
          const std::function<Result<std::string>(std::string lines)>& shown) {
  // At once, also while the output waits for its reader.
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { ::_exit(kExitDone); });
  EventLines lines;
  int code = kExitDone;
  const auto done =
      send(endpoint, make_request(command, values), [&](std::string_view piece) -> Result<void> {
        auto told = lines.take(piece);
        if (!told) return Failure(told.error());
        const auto text = shown(*std::move(told));
        if (!text) return Failure(text.error());
        code = print(*text);
        if (code != kExitDone) return fail(EPIPE, "the output's reader has left");
        return {};
      });
  if (code != kExitDone) return code;
  return done ? fail_with({0, "the daemon has ended the stream: is it being stopped?"}, kExitFailed)
              : fail_with(done.error(), kExitFailed);
}

// Captures until the daemon, a signal or the file's reader ends it.
int capture(const Endpoint& endpoint, const Command& command, const Values& values) {
  note_interrupts();
  CaptureFile file(values.at(command.file));
  const auto done = send(endpoint, make_request(command, values), [&file](std::string_view piece) {
    auto taken = file.take(piece);
    if (taken && interrupted != 0) return Result<void>(fail(EINTR, "interrupted"));
    return taken;
  });
  if (!done && interrupted == 0 && done.error().code != EPIPE) return fail_with(done.error(), kExitFailed);
  fmt::print(stderr, "{} frames captured, {} dropped{}\n", file.frames(), file.lost_frames(),
             file.lost_frames() == 0 ? "" : " because the ring was full");
  return kExitDone;
}

void show_progress(const Json& line) {
  if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K{}", clean_text(progress_of(line)));
}

void clear_progress() {
  if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K");
}

// When the VM is off, the complete file is on the disk. After any earlier failure the VM goes on.
Result<std::string> checkpoint(const Endpoint& endpoint, const Command& command, const Values& values) {
  const std::string& file = values.at(command.file);
  std::string answer;
  Result<void> finished;
  CheckpointStream stream(
      {.progress = show_progress, .keep = [&](const Json& line, std::string_view state) -> Result<void> {
         const std::chrono::seconds patience(line.at("patience_s").get<std::uint64_t>());
         if (const auto kept = append_state(file, state, patience); !kept)
           return fail(fmt::format("{}: no checkpoint; the VM goes on", kept.error().message));
         Request finish = make_request(command, values);
         finish.path += "/finish";
         finish.body = "{}";
         const auto done = send(endpoint, finish);
         if (!done) finished = Failure(done.error());  // it may have finished all the same, so read the rest
         answer = line.dump();
         return {};
       }});
  auto done = send(endpoint, make_request(command, values),
                   [&stream](std::string_view piece) { return stream.take(piece); });
  clear_progress();
  if (!done) {
    if (stream.kept() && done.error().code == ECANCELED) static_cast<void>(drop_state(file));
    return Failure(done.error());
  }
  if (!stream.kept()) {
    return fail(
        "the daemon ended the checkpoint: see its log; the VM goes on. If the daemon has died, send cont to "
        "the monitor of the VM's QEMU");
  }
  if (!finished) return Failure(finished.error());
  return answer;
}

Result<std::string> restore(const Endpoint& endpoint, const Command& command, const Values& values) {
  const std::string& file = values.at(command.file);
  if (auto whole = verify(file); !whole) return Failure(std::move(whole).error());
  const auto state = read_state(file);
  if (!state) return Failure(state.error());
  Request request = make_request(command, values);
  request.body += "\n" + *state;
  request.type = "application/octet-stream";
  return send(endpoint, request);
}

Result<std::string> send_state(const Endpoint& endpoint, const Command& command, const Values& values) {
  auto state = read_state(values.at(command.file));
  if (!state) return Failure(std::move(state).error());
  Request request = make_request(command, values);
  request.body = *std::move(state);
  request.type = "application/octet-stream";
  return send(endpoint, request);
}

Result<std::string> send_edits(const Endpoint& endpoint, const Command& command, const Values& values) {
  auto body = read_edits(values.at(command.file), values.contains("dry-run"));
  if (!body) return Failure(std::move(body).error());
  Request request = make_request(command, values);
  request.body = *std::move(body);
  return send(endpoint, request);
}

Result<std::string> prepare(const Endpoint& endpoint) {
  const std::string domain(std::istreambuf_iterator<char>(std::cin), {});
  const auto done =
      prepare_domain([&endpoint](const Request& request) { return send(endpoint, request); }, domain);
  if (!done) return Failure(done.error());
  return "{}";
}

Result<std::string> answer_of(const Endpoint& endpoint, const Command& command, Values& values,
                              const Get& get) {
  if (!command.file.empty()) {  // so the paths are not relative to this process's folder
    std::string& file = values.at(command.file);
    std::error_code error;
    file = std::filesystem::absolute(file, error);
  }
  switch (command.transfer) {
    case Transfer::kCheckpoint:
      return checkpoint(endpoint, command, values);
    case Transfer::kRestore:
      return restore(endpoint, command, values);
    case Transfer::kState:
      return send_state(endpoint, command, values);
    case Transfer::kEdits:
      return send_edits(endpoint, command, values);
    case Transfer::kSupport:
      return support_bundle(values, get);
    case Transfer::kMotion: {
      auto answer = follow_motion([&endpoint](const Request& request) { return send(endpoint, request); },
                                  command, values, show_progress);
      clear_progress();
      return answer;
    }
    case Transfer::kDomain:
      return prepare(endpoint);
    case Transfer::kNone:
    case Transfer::kWatch:
    case Transfer::kEvents:
    case Transfer::kCapture:
      break;
  }
  return command.compose != nullptr ? compose(command, values, get)
                                    : send(endpoint, make_request(command, values));
}

int execute(const Endpoint& endpoint, Invocation& invocation) {
  const Command& command = *invocation.command;
  const Get get = [&endpoint](const std::string& path) { return send(endpoint, {Method::kGet, path, ""}); };
  if (auto completed = complete(command, invocation.values, get); !completed) {
    return fail_with(command, completed.error());
  }
  if (command.transfer == Transfer::kWatch) {
    return watch(endpoint, command, invocation.values, [](std::string lines) { return lines; });
  }
  if (command.transfer == Transfer::kEvents && invocation.values.contains("follow")) {
    const bool as_json = format_of(invocation.globals) != Format::kText;
    return watch(endpoint, followed(command), invocation.values,
                 [as_json](const std::string& lines) { return followed_events(lines, as_json); });
  }
  if (command.transfer == Transfer::kCapture) return capture(endpoint, command, invocation.values);
  const auto answer = answer_of(endpoint, command, invocation.values, get);
  if (!answer) return fail_with(command, answer.error());
  const auto text = show(command, invocation.values, *answer, format_of(invocation.globals));
  if (!text) return fail_with(text.error(), kExitFailed);
  if (const int code = print(*text); code != kExitDone) return code;
  if (const std::string note = note_of(command, *answer); !note.empty()) {
    fmt::print(stderr, "pvrdmactl: {}\n", clean_text(note));
  }
  return command.is_good == nullptr || command.is_good(Json::parse(*answer)) ? kExitDone : kExitFailed;
}

// `words` are those of a command line that a shell completes (completion.h). Prints no errors: a line that is
// not complete is often wrong, and the daemon need not run.
int print_suggestions(std::span<const std::string> words) {
  const auto endpoint = choose_endpoint(given_globals(grammar(), words), environment);
  const Ask ask = [&endpoint](const std::string& path) -> Result<Json> {
    if (!endpoint) return Failure(endpoint.error());
    const auto answer = send(*endpoint, {.path = path, .answer_seconds = 1, .reach_seconds = 1});
    if (!answer) return Failure(answer.error());
    return Json::parse(*answer);
  };
  return print(suggestion_lines(suggest(grammar(), words, ask)));
}

int run(const std::string& program, const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments.front() == "--complete") {
    return print_suggestions(std::span(arguments).subspan(1));
  }
  auto invocation = parse(program, arguments);
  if (!invocation) return fail_with(invocation.error(), kExitUsage);
  if (invocation->incomplete) {
    fmt::print(stderr, "{}", invocation->text);
    return kExitUsage;
  }
  if (invocation->command == nullptr) return print(invocation->text);
  const auto endpoint = choose_endpoint(invocation->globals, environment);
  if (!endpoint) return fail_with({0, endpoint.error().message + ": see pvrdmactl --help"}, kExitUsage);
  return execute(*endpoint, *invocation);
}

}  // namespace
}  // namespace pvrdma::ctl

int main(int argc, char** argv) {
  // If a server, or a reader of our output, hangs up during a write, the program must go on to report it.
  std::signal(SIGPIPE, SIG_IGN);
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  return pvrdma::ctl::run(name == "esxcli" ? name : "pvrdmactl", {argv + (argc > 0 ? 1 : 0), argv + argc});
}
