#include "pvrdmactl/support_bundle.h"

#include <archive.h>
#include <archive_entry.h>
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <fmt/core.h>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/program_output.h"

namespace pvrdma::ctl {
namespace {

constexpr std::size_t kLogBytesMax = 16 * 1024 * 1024;
constexpr Duration kLogPatience = std::chrono::seconds(60);
constexpr int kIndent = 2;

struct BundleFile {
  std::string name;
  std::string text;
};

struct Bundle {
  std::vector<BundleFile> files;
  std::vector<std::string> missing;

  void add(std::string name, Result<std::string> text) {
    if (text) {
      files.push_back({std::move(name), *std::move(text)});
    } else {
      missing.push_back(fmt::format("{}: {}", name, text.error().message));
    }
  }
};

std::string versions() {
  utsname system{};
  ::uname(&system);
  return fmt::format("pvrdmactl {}\n{} {} {} {}\n", PVRDMA_VERSION, system.sysname, system.release,
                     system.version, system.machine);
}

Result<std::string> text_of_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail_errno(errno, "cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string indented(const std::string& answer) {
  const Json json = Json::parse(answer, nullptr, false);
  return json.is_discarded() ? answer : json.dump(kIndent, ' ', true, Json::error_handler_t::replace) + "\n";
}

// Whether the answer is a stream of events, which does not end by itself.
bool is_stream(const Json& operation) {
  return operation.contains(Json::json_pointer("/responses/200/content/text~1event-stream"));
}

// Each object of the API that needs no name, as the API itself lists them.
void add_answers(Bundle& bundle, const Get& get) {
  const auto description = get("/openapi.json");
  if (!description) {
    bundle.missing.push_back("api: " + description.error().message);
    return;
  }
  const Json api = Json::parse(*description, nullptr, false);
  if (!api.is_object() || !api.contains("paths")) {
    bundle.missing.emplace_back("api: the daemon's /openapi.json lists no paths");
    return;
  }
  for (const auto& [path, methods] : api.at("paths").items()) {
    if (path == "/openapi.json" || path.find('{') != std::string::npos || !methods.contains("get") ||
        is_stream(methods.at("get")))
      continue;
    auto answer = get(path);
    if (path == "/metrics") {
      bundle.add("metrics.txt", std::move(answer));
    } else {
      bundle.add(fmt::format("api{}.json", path), answer ? indented(*answer) : std::move(answer));
    }
  }
}

Result<std::string> doctor(const Get& get) {
  const Command& command = *grammar().command("doctor");
  auto said = compose(command, {{"qemu", find_argument(command.arguments, "qemu")->fallback}}, get);
  if (!said) return said;
  return indented(*said);
}

Bundle collect(const std::string& configuration, const Get& get) {
  Bundle bundle;
  bundle.add("versions.txt", versions());
  bundle.add("doctor.json", doctor(get));
  add_answers(bundle, get);
  // Passwords, tokens and keys have files of their own, which the configuration only names.
  bundle.add("pvrdmad.toml", text_of_file(configuration));
  bundle.add("log.txt",
             printed_by({"journalctl", "--unit=pvrdmad", "--lines=20000", "--output=short-iso", "--no-pager"},
                        kLogBytesMax, kLogPatience));
  std::string missing;
  for (const std::string& sentence : bundle.missing) missing += sentence + "\n";
  bundle.add("missing.txt", std::move(missing));
  return bundle;
}

struct Freed {
  void operator()(archive* of) const { ::archive_write_free(of); }
  void operator()(archive_entry* of) const { ::archive_entry_free(of); }
};

Result<void> write_tar(int fd, const std::vector<BundleFile>& files) {
  const std::unique_ptr<archive, Freed> tar(::archive_write_new());
  const std::unique_ptr<archive_entry, Freed> entry(::archive_entry_new());
  if (tar == nullptr || entry == nullptr) return fail_errno(ENOMEM, "making the tar");
  const auto wrong = [&tar] {
    const char* said = ::archive_error_string(tar.get());
    return fail(::archive_errno(tar.get()), said == nullptr ? "cannot be written" : said);
  };
  if (::archive_write_set_format_pax_restricted(tar.get()) != ARCHIVE_OK ||
      ::archive_write_open_fd(tar.get(), fd) != ARCHIVE_OK)
    return wrong();
  for (const BundleFile& file : files) {
    ::archive_entry_clear(entry.get());
    ::archive_entry_set_pathname(entry.get(), ("pvrdma-support/" + file.name).c_str());
    ::archive_entry_set_size(entry.get(), static_cast<la_int64_t>(file.text.size()));
    ::archive_entry_set_filetype(entry.get(), AE_IFREG);
    ::archive_entry_set_perm(entry.get(), 0600);
    ::archive_entry_set_mtime(entry.get(), std::time(nullptr), 0);
    if (::archive_write_header(tar.get(), entry.get()) != ARCHIVE_OK) return wrong();
    const auto written = ::archive_write_data(tar.get(), file.text.data(), file.text.size());
    if (written != static_cast<la_ssize_t>(file.text.size())) return wrong();
  }
  if (::archive_write_close(tar.get()) != ARCHIVE_OK) return wrong();
  return {};
}

std::string summary_text(const Json& summary) {
  std::string text = fmt::format("{}: {} files\n", text_at(summary, "file"), summary.at("files").size());
  for (const Json& sentence : summary.at("missing"))
    text += fmt::format("left out: {}\n", sentence.get<std::string>());
  return text;
}

}  // namespace

Result<std::string> support_bundle(const Values& values, const Get& get) {
  const std::string& path = values.at("FILE");
  const Bundle bundle = collect(values.at("config"), get);
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    if (errno == EEXIST) return fail(EEXIST, fmt::format("{} exists already: name another file", path));
    return fail_errno(errno, "cannot make " + path);
  }
  if (const auto written = write_tar(fd.get(), bundle.files); !written) {
    ::unlink(path.c_str());
    return fail(written.error().code, fmt::format("cannot write {}: {}", path, written.error().message));
  }
  Json summary = {{"file", path}, {"files", Json::array()}, {"missing", bundle.missing}};
  for (const BundleFile& file : bundle.files) summary["files"].push_back(file.name);
  return summary.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Section support_commands() {
  return {.namespaces = {},
          .commands = {{.words = "support-bundle",
                        .help = "write a tar with what a report about a fault needs",
                        .arguments = {{.name = "FILE",
                                       .positional = true,
                                       .kind = Kind::kFile,
                                       .help = "the tar, which must not exist yet",
                                       .required = true},
                                      {.name = "config",
                                       .kind = Kind::kFile,
                                       .help = "the daemon's configuration",
                                       .shows = "file",
                                       .fallback = "/etc/pvrdma/pvrdmad.toml"}},
                        .text = summary_text,
                        .has_multiline_text = true,
                        .transfer = Transfer::kSupport,
                        .file = "FILE"}}};
}

}  // namespace pvrdma::ctl
