// Grammar: the table of pvrdmactl's commands. One Command has all information about it: its words, its
// arguments, the request to the daemon's API, and the text of the answer. The parser, the help texts, the
// manual page's synopses, the shell completion and the requests are all made from this table.
//
// Commands that VMware's esxcli also has use esxcli's words, options and columns.
//
// Thread: immutable once made; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {

using Json = nlohmann::ordered_json;

// Given values or fallbacks, by the argument's name. Checked against the argument's kind.
using Values = std::map<std::string, std::string, std::less<>>;

enum class Kind : std::uint8_t {
  kText,         // visible ASCII and blanks; the daemon checks it
  kName,         // safe in a request's path: 1 to 64 of A-Z a-z 0-9 . _ -
  kNumber,       // 0 ... 2^32-1
  kMemory,       // a number, or "all"
  kProbability,  // 0 ... 1, in decimals
  kTexts,        // several kText separated by commas, or "any": an empty list in the body
  kBool,         // "true" or "false"; 1, 0, yes and no are accepted, too
  kUpDown,       // up or down; true or false in the body
  kOnOff,        // on or off; true or false in the body
  kChoice,       // one of `choices`
  kFile,         // a path on this machine
  kFlag,         // takes no value; has the value `constant` if given
};

// What a value names, for completion.
enum class Names : std::uint8_t { kNone, kHosts, kVms, kSwitches, kPortGroups, kAdapters };

struct Argument {
  char letter = 0;   // 'r' for -r; 0: no letter
  std::string name;  // "ruleset-id" for --ruleset-id; "NAME" of a positional argument
  bool positional = false;
  Kind kind = Kind::kName;
  std::string help;
  std::string shows;  // the value's name in the help; empty: depends on the kind
  bool required = false;
  std::string fallback;              // the value if the argument is not given; empty: no value
  std::vector<std::string> choices;  // kChoice
  std::string constant;              // kFlag
  std::string member;                // the value's place in the request's body, as a JSON pointer
  Names names = Names::kNone;        // an existing object of that kind
  std::string needs;                 // another argument that must be given together with this one
  bool unused = false;               // esxcli has it, and it changes nothing here
  bool hidden = false;               // for the build only: neither in the help nor completed
};

enum class Method : std::uint8_t { kGet, kPost, kPut, kPatch, kDelete };

// Asks the daemon for a further object (GET of a path).
using Ask = std::function<Result<Json>(const std::string& path)>;

enum class Transfer : std::uint8_t {
  kNone,
  kCapture,     // the answer is written to the file as it arrives
  kCheckpoint,  // the end of the answer is appended to the file, which a QEMU wrote
  kRestore,     // the end of the file follows the body
  kState,       // the end of the file is the body
  kSupport,     // the file is made from several answers
  kEdits,       // the file has the edits of a batch
  kWatch,       // no file: events are printed as they arrive
  kEvents,      // no file: one answer, or with --follow as kWatch
  kMotion,      // no file: the started motion is followed to its end
  kDomain,      // no file: standard input has a libvirt domain, whose adapter is made if necessary
};

struct Command {
  std::string words;  // "rdma device list"
  std::string help;
  std::vector<Argument> arguments;
  Method method = Method::kGet;
  // "/v1/hosts/{host}?adapter={adapter}": {x} is the value of the argument x. A member of the query is
  // omitted if its argument has no value.
  std::string path;
  std::uint32_t answer_seconds = 15;  // the longest wait for the answer; a change waits for the store
  // Completes values with the daemon's help, before the request. Its errors of the kind kInvalid are mistakes
  // on the command line.
  Result<void> (*complete)(Values& values, const Ask& ask) = nullptr;
  // Selects the part of the answer to show, as text or JSON; null: all of it. May throw Json::exception.
  Result<Json> (*select)(Json answer, const Values& values) = nullptr;
  // The answer for people, as rows of fields or as text. Both null: none, as in esxcli after a change. May
  // throw Json::exception.
  Table (*table)(const Json& answer) = nullptr;
  std::string (*text)(const Json& answer) = nullptr;
  bool has_multiline_text = false;  // a string of the answer has several lines, which are all shown
  // A sentence for standard error beside a successful answer, if the change has no effect yet; empty: none.
  // May throw Json::exception.
  std::string (*note)(const Json& answer) = nullptr;
  // Whether the program ends with 0 after this answer; null: it does. May throw Json::exception.
  bool (*is_good)(const Json& answer) = nullptr;
  // Makes the answer from several requests to the daemon, instead of one; null: there is a `path`. May throw
  // Json::exception.
  Result<Json> (*compose)(const Values& values, const Ask& ask) = nullptr;
  // Whether more than JSON travels between the daemon and the file that the argument `file` names.
  Transfer transfer = Transfer::kNone;
  std::string file;
};

struct Namespace {
  std::string words;  // "rdma device"
  std::string help;
};

// A part of the table; each has its own file.
struct Section {
  std::vector<Namespace> namespaces;
  std::vector<Command> commands;
};
Section rdma_commands();
Section network_commands();
Section system_commands();
Section shard_commands();
Section dvs_commands();
Command roce_rules_command();
Section vm_commands();
Section host_commands();
Section adapter_commands();
Section capture_commands();
Section fault_commands();
Command checkpoint_command();
Command restore_command();
Section motion_commands();
Section hca_commands();
Section doctor_commands();
Section support_commands();
Section apply_commands();
Section event_commands();
Command migrate_command();

struct Grammar {
  std::vector<Argument> globals;  // options that every command takes
  std::vector<Namespace> namespaces;
  std::vector<Command> commands;

  const Command* command(std::string_view words) const;       // null: not found
  const Namespace* name_space(std::string_view words) const;  // null: not found
};
const Grammar& grammar();

// "NAME" or "--ruleset-id".
std::string written(const Argument& argument);
// "-r|--ruleset-id=<str>", as in esxcli's help.
std::string described(const Argument& argument);
// The value's name in the help: "str", "on|off"; empty for a flag.
std::string placeholder(const Argument& argument);
// The arguments that set the same member of the request, in their order: only one of them may be given. Just
// `argument` if it has no alternative.
std::vector<const Argument*> rivals(const std::vector<Argument>& arguments, const Argument& argument);
// The argument's help with what the table knows besides: whether it is required, and what it needs.
std::string explained(const std::vector<Argument>& arguments, const Argument& argument);
// Null: not found.
const Argument* find_argument(const std::vector<Argument>& arguments, std::string_view name);

// The host that an esxcli command is about; by default the daemon's own.
Argument host_option();
// The host that a read of a daemon's own state is about. If it is given and the path does not contain {host},
// make_request() asks for the host's /v1/hosts/HOST/... instead of /v1/...; then the daemon asks that host.
Argument other_host();
// The object that a command is about: a required positional argument.
Argument named(std::string name, std::string help, Names names = Names::kNone);

}  // namespace pvrdma::ctl
