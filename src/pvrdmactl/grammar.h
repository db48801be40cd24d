// Grammar: the table of everything pvrdmactl can do. One Command holds all there is to know of it: its words,
// its arguments, the request to the daemon's API and how the answer is shown. The command line's parser, the
// help texts, the shell completion and the requests are made from it.
//
// The words, options and columns of what VMware's esxcli has are esxcli's.
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

namespace pvrdma::ctl {

using Json = nlohmann::ordered_json;

// What was given, or an argument's fallback, by the argument's name. Checked against the argument's kind.
using Values = std::map<std::string, std::string, std::less<>>;

enum class Kind : std::uint8_t {
  kText,         // visible ASCII and blanks; the daemon judges it
  kName,         // may become part of a request's path: 1 to 64 of A-Z a-z 0-9 . _ -
  kNumber,       // 0 ... 2^32-1
  kMemory,       // a number, or "all"
  kProbability,  // 0 ... 1, in decimals
  kTexts,        // as kText, several with commas between, or "any": an empty list in the body
  kBool,         // "true" or "false"; 1, 0, yes and no are understood too
  kUpDown,       // up or down; true or false in the body
  kOnOff,        // on or off; true or false in the body
  kChoice,       // one of `choices`
  kFile,         // a path on this machine
  kFlag,         // takes no value; has `constant` when given
};

struct Argument {
  char letter = 0;   // 'r' for -r; 0: none
  std::string name;  // "ruleset-id" for --ruleset-id; "NAME" of a positional
  bool positional = false;
  Kind kind = Kind::kName;
  std::string help;
  std::string shows;  // what the help calls the value; empty: by the kind
  bool required = false;
  std::string fallback;              // the value when it is not given; empty: none
  std::vector<std::string> choices;  // kChoice
  std::string constant;              // kFlag
  std::string member;                // where the value goes in the request's body, as a JSON pointer
  std::string needs;                 // another argument that must be given with this one
};

enum class Method : std::uint8_t { kGet, kPost, kPut, kPatch, kDelete };

// Asks the daemon for one more object on the way (GET of a path).
using Ask = std::function<Result<Json>(const std::string& path)>;

enum class Transfer : std::uint8_t {
  kNone,
  kCapture,     // the answer goes to the file as it comes
  kCheckpoint,  // the end of the answer goes to the end of the file, which a QEMU wrote
  kRestore,     // the end of the file goes behind the body
  kState,       // the end of the file is the body
  kMotion,      // no file: what was begun is followed to its end
};

struct Command {
  std::string words;  // "rdma device list"
  std::string help;
  std::vector<Argument> arguments;
  Method method = Method::kGet;
  // "/v1/hosts/{host}?adapter={adapter}": {x} is the value of the argument x; a member of the query whose
  // argument has no value is left out.
  std::string path;
  std::uint32_t answer_seconds = 15;  // how long the answer may take; a change waits for the store
  // Works out values that need the daemon, before the request.
  Result<void> (*complete)(Values& values, const Ask& ask) = nullptr;
  // The part of the answer that is shown, as text or JSON; null: all of it. May throw Json::exception.
  Result<Json> (*select)(Json answer, const Values& values) = nullptr;
  // The answer for people; null: nothing, as esxcli does after a change. May throw Json::exception.
  std::string (*text)(const Json& answer) = nullptr;
  // Makes the answer of what the daemon is asked, in place of one request; null: there is a `path`. May throw
  // Json::exception.
  Result<Json> (*compose)(const Values& values, const Ask& ask) = nullptr;
  // Where more than JSON goes between a file, which the argument `file` names, and the daemon.
  Transfer transfer = Transfer::kNone;
  std::string file;
};

struct Namespace {
  std::string words;  // "rdma device"
  std::string help;
};

// A part of the table: one file each.
struct Section {
  std::vector<Namespace> namespaces;
  std::vector<Command> commands;
};
Section rdma_commands();
Section network_commands();
Section system_commands();
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
Command migrate_command();

struct Grammar {
  std::vector<Argument> globals;  // options that every command takes
  std::vector<Namespace> namespaces;
  std::vector<Command> commands;

  const Command* command(std::string_view words) const;       // null: none
  const Namespace* name_space(std::string_view words) const;  // null: none
};
const Grammar& grammar();

// "NAME" or "--ruleset-id".
std::string written(const Argument& argument);
// "-r|--ruleset-id=<str>", as esxcli's help has it.
std::string described(const Argument& argument);
// Null: none.
const Argument* find_argument(const std::vector<Argument>& arguments, std::string_view name);

// The host an esxcli command speaks of; the daemon's own when not given.
Argument host_option();
// The object a command is about, a word of its own that must be given.
Argument named(std::string name, std::string help);

}  // namespace pvrdma::ctl
