#include "pvrdmactl/completion.h"

#include <algorithm>
#include <fmt/core.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "pvrdmactl/json_fields.h"
#include "vocabulary/name.h"

namespace pvrdma::ctl {
namespace {

// How far the words before the current one got.
struct Place {
  std::string words;  // of namespaces and the command
  const Command* command = nullptr;
  const Argument* expects = nullptr;  // the option whose value the current word is
  Values values;                      // of the command's arguments
  Values globals;
};

class Walk {
 public:
  explicit Walk(const Grammar& grammar) : grammar_(grammar) {}

  void over(std::span<const std::string> words) {
    for (const std::string& word : words) step(word);
  }
  const Place& place() const { return place_; }

  // Null: no option of this place has that name.
  const Argument* option(const std::string& word) const {
    if (place_.command != nullptr) {
      if (const Argument* own = find(place_.command->arguments, word)) return own;
    }
    if (const Argument* global = find(grammar_.globals, word)) return global;
    static const std::vector<Argument> kEarly{host_option()};  // esxcli takes it before the words, too
    return place_.command == nullptr ? find(kEarly, word) : nullptr;
  }

 private:
  static const Argument* find(const std::vector<Argument>& arguments, const std::string& word) {
    const auto found = std::ranges::find_if(arguments, [&](const Argument& argument) {
      return !argument.positional && (word == "--" + argument.name ||
                                      (argument.letter != 0 && word == std::string{'-', argument.letter}));
    });
    return found == arguments.end() ? nullptr : &*found;
  }

  void step(const std::string& word) {
    if (word == "=") return;  // bash's
    if (place_.expects != nullptr) {
      take(*place_.expects, word);
      place_.expects = nullptr;
    } else if (word.size() > 1 && word.front() == '-') {
      const auto equals = word.find('=');
      const Argument* found = option(word.substr(0, equals));
      if (found == nullptr || found->kind == Kind::kFlag) return;
      if (equals == std::string::npos) {
        place_.expects = found;
      } else {
        take(*found, word.substr(equals + 1));
      }
    } else if (place_.command != nullptr) {
      for (const Argument& argument : place_.command->arguments) {
        if (argument.positional && place_.values.try_emplace(argument.name, word).second) return;
      }
    } else {
      const std::string words = place_.words.empty() ? word : place_.words + " " + word;
      place_.command = grammar_.command(words);
      if (place_.command != nullptr || grammar_.name_space(words) != nullptr) place_.words = words;
    }
  }

  void take(const Argument& argument, const std::string& value) {
    const bool is_global = find_argument(grammar_.globals, argument.name) == &argument;
    (is_global ? place_.globals : place_.values).try_emplace(argument.name, value);
  }

  const Grammar& grammar_;
  Place place_;
};

std::vector<Suggestion> next_words(const Grammar& grammar, const std::string& words) {
  const std::string before = words.empty() ? "" : words + " ";
  std::vector<Suggestion> found;
  const auto add = [&](const std::string& whole, const std::string& help) {
    if (!whole.starts_with(before)) return;
    const std::string word = whole.substr(before.size());
    if (!word.empty() && word.find(' ') == std::string::npos) found.push_back({word, help});
  };
  for (const Namespace& name : grammar.namespaces) add(name.words, name.help);
  for (const Command& command : grammar.commands) add(command.words, command.help);
  return found;
}

std::vector<Suggestion> options(const std::vector<Argument>& arguments) {
  std::vector<Suggestion> found;
  for (const Argument& argument : arguments) {
    if (argument.positional || argument.hidden) continue;
    if (argument.letter != 0) found.push_back({std::string{'-', argument.letter}, argument.help});
    found.push_back({"--" + argument.name, argument.help});
  }
  return found;
}

std::vector<std::string> fixed_values(const Argument& argument) {
  switch (argument.kind) {
    case Kind::kBool:
      return {"true", "false"};
    case Kind::kUpDown:
      return {"up", "down"};
    case Kind::kOnOff:
      return {"on", "off"};
    case Kind::kMemory:
      return {"all"};
    case Kind::kChoice:
    case Kind::kText:
    case Kind::kTexts:
    case Kind::kName:
    case Kind::kNumber:
    case Kind::kProbability:
    case Kind::kFile:
    case Kind::kFlag:
      break;
  }
  return argument.choices;
}

std::string_view list_of(Names names) {
  switch (names) {
    case Names::kHosts:
      return "/v1/hosts";
    case Names::kVms:
      return "/v1/vms";
    case Names::kSwitches:
    case Names::kPortGroups:
      return "/v1/dvs";
    case Names::kAdapters:
      return "/v1/adapters";
    case Names::kNone:
      break;
  }
  return "";
}

// Only names are taken: they have no character that means something to a shell.
void add_names(const Json& list, std::vector<std::string>& to) {
  for (const Json& each : list) {
    if (std::string name = text_at(each, "name"); is_name(name)) to.push_back(std::move(name));
  }
}

std::vector<std::string> known_names(const Argument& argument, const Values& values, const Ask& ask) {
  std::vector<std::string> found;
  if (argument.names == Names::kNone) return found;
  try {
    const auto list = ask(std::string(list_of(argument.names)));
    if (!list) return found;
    if (argument.names != Names::kPortGroups) {
      add_names(*list, found);
      return found;
    }
    const auto dvs = std::ranges::find_if(
        values, [](const auto& value) { return value.first == "DVS" || value.first == "dvs"; });
    for (const Json& each : *list) {
      if (dvs == values.end() || text_at(each, "name") == dvs->second)
        add_names(each.at("portgroups"), found);
    }
  } catch (const Json::exception&) {
    found.clear();  // a daemon of another version
  }
  return found;
}

// The positional argument that the current word is. Null: none is left.
const Argument* next_positional(const Place& place) {
  const auto found = std::ranges::find_if(place.command->arguments, [&](const Argument& argument) {
    return argument.positional && !place.values.contains(argument.name);
  });
  return found == place.command->arguments.end() ? nullptr : &*found;
}

}  // namespace

Suggestions suggest(const Grammar& grammar, std::span<const std::string> words, const Ask& ask) {
  if (words.empty()) return {};
  const std::string current = words.back() == "=" ? "" : words.back();  // bash's
  Walk walk(grammar);
  walk.over(words.first(words.size() - 1));
  const Place& place = walk.place();
  Suggestions found;
  const auto add_values = [&](const Argument& argument, const std::string& before) {
    found.files = argument.kind == Kind::kFile;
    std::vector<std::string> values = fixed_values(argument);
    std::ranges::move(known_names(argument, place.values, ask), std::back_inserter(values));
    for (const std::string& value : values) found.words.push_back({before + value, ""});
  };
  const auto equals = current.find('=');
  if (place.expects != nullptr) {
    add_values(*place.expects, "");
  } else if (current.starts_with("--") && equals != std::string::npos) {
    if (const Argument* option = walk.option(current.substr(0, equals))) {
      add_values(*option, current.substr(0, equals + 1));
    }
  } else if (current.starts_with('-')) {
    if (place.command != nullptr) found.words = options(place.command->arguments);
    std::ranges::move(options(grammar.globals), std::back_inserter(found.words));
  } else if (place.command == nullptr) {
    found.words = next_words(grammar, place.words);
  } else if (const Argument* argument = next_positional(place)) {
    add_values(*argument, "");
  }
  std::erase_if(found.words, [&](const Suggestion& each) { return !each.word.starts_with(current); });
  return found;
}

Values given_globals(const Grammar& grammar, std::span<const std::string> words) {
  Walk walk(grammar);
  walk.over(words);
  return walk.place().globals;
}

std::string suggestion_lines(const Suggestions& suggestions) {
  std::string lines;
  for (const Suggestion& each : suggestions.words) {
    lines += each.help.empty() ? each.word + "\n" : fmt::format("{}\t{}\n", each.word, each.help);
  }
  return suggestions.files ? lines + ":files\n" : lines;
}

}  // namespace pvrdma::ctl
