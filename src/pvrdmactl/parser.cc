#include "pvrdmactl/parser.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fmt/core.h>
#include <optional>
#include <utility>
#include <vector>

#include "base/whole_number.h"
#include "pvrdmactl/completion.h"
#include "pvrdmactl/help.h"
#include "pvrdmactl/manual.h"
#include "vocabulary/name.h"

namespace pvrdma::ctl {
namespace {

// Decimals without sign or exponent.
bool is_probability(const std::string& text) {
  const bool is_decimal = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos &&
                          std::ranges::count(text, '.') <= 1 && text != ".";
  return is_decimal && std::strtod(text.c_str(), nullptr) <= 1;
}

bool is_visible(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

Failure wrong(const Argument& argument, const std::string& value, std::string_view takes) {
  return fail(fmt::format("{}: \"{}\" is {}", written(argument), is_visible(value) ? value : "...", takes));
}

// One option of the command line, not yet looked up.
struct Option {
  std::string name;  // "r" or "ruleset-id"
  bool is_long = false;
  std::optional<std::string> value;  // attached to it: --x=value, -xvalue
  std::string written() const { return (is_long ? "--" : "-") + name; }
};

Option split_option(const std::string& word) {
  if (!word.starts_with("--")) {
    return {word.substr(1, 1), false, word.size() > 2 ? std::optional(word.substr(2)) : std::nullopt};
  }
  const auto equals = word.find('=');
  if (equals == std::string::npos) return {word.substr(2), true, std::nullopt};
  return {word.substr(2, equals - 2), true, word.substr(equals + 1)};
}

const Argument* find_option(const std::vector<Argument>& arguments, const Option& option) {
  const auto found = std::ranges::find_if(arguments, [&](const Argument& argument) {
    if (argument.positional) return false;
    return option.is_long ? argument.name == option.name
                          : argument.letter != 0 && argument.letter == option.name.front();
  });
  return found == arguments.end() ? nullptr : &*found;
}

class Parser {
 public:
  Parser(std::string_view program, std::span<const std::string> arguments)
      : program_(program), left_(arguments) {}

  Result<Invocation> run() {
    bool options_over = false;
    while (!left_.empty()) {
      const std::string& word = next();
      if (!options_over && word == "--") {
        options_over = true;
      } else if (!options_over && word.size() > 1 && word.front() == '-') {
        if (auto taken = take_option(word); !taken) return Failure(std::move(taken).error());
      } else if (auto taken = take_word(word); !taken) {
        return Failure(std::move(taken).error());
      }
    }
    return finish();
  }

 private:
  const std::string& next() {
    const std::string& word = left_.front();
    left_ = left_.subspan(1);
    return word;
  }

  // "pvrdmactl rdma device"
  std::string spoken() const { return words_.empty() ? program_ : program_ + " " + words_; }

  Failure mistake(const std::string& sentence) const {
    return fail(fmt::format("{}: see {} --help", sentence, spoken()));
  }

  Result<void> take_word(const std::string& word) {
    if (result_.command != nullptr) return take_positional(word);
    const std::string words = words_.empty() ? word : words_ + " " + word;
    if (const Command* command = grammar().command(words)) {
      result_.command = command;
    } else if (grammar().name_space(words) == nullptr) {
      return mistake(fmt::format("there is no command \"{} {}\"", spoken(), is_visible(word) ? word : "..."));
    }
    words_ = words;
    return {};
  }

  Result<void> take_positional(const std::string& word) {
    for (const Argument& argument : result_.command->arguments) {
      if (argument.positional && !result_.values.contains(argument.name)) {
        return put(result_.values, argument, word);
      }
    }
    return mistake(fmt::format("{} takes no \"{}\"", spoken(), is_visible(word) ? word : "..."));
  }

  Result<void> take_option(const std::string& word) {
    const Option option = split_option(word);
    // esxcli also accepts the host before the command's words. The command decides which of its arguments
    // that is.
    static const std::vector<Argument> kEarly{host_option()};
    const Argument* own =
        result_.command != nullptr ? find_option(result_.command->arguments, option) : nullptr;
    const Argument* global = own == nullptr ? find_option(grammar().globals, option) : nullptr;
    const Argument* early = result_.command == nullptr ? find_option(kEarly, option) : nullptr;
    const Argument* argument = own != nullptr ? own : global != nullptr ? global : early;
    if (argument == nullptr) {
      const std::string name = is_visible(option.written()) ? option.written() : "...";
      return mistake(fmt::format("\"{}\" is not an option of {}", name, spoken()));
    }
    if (argument->kind == Kind::kFlag) {
      if (option.value) return mistake(fmt::format("{} takes no value", option.written()));
      return put(argument == global ? result_.globals : result_.values, *argument, argument->constant);
    }
    if (!option.value && left_.empty()) return mistake(fmt::format("{} needs a value", option.written()));
    return put(argument == global ? result_.globals : result_.values, *argument,
               option.value ? *option.value : next());
  }

  Result<void> put(Values& values, const Argument& argument, const std::string& given) {
    auto value = checked_value(argument, given);
    if (!value) return mistake(value.error().message);
    if (!values.emplace(argument.name, *std::move(value)).second) {
      return mistake(fmt::format("{} is given twice", written(argument)));
    }
    return {};
  }

  Result<Invocation> finish() {
    if (result_.globals.contains("version")) {
      return printed(fmt::format("pvrdmactl {}\n", PVRDMA_VERSION));
    }
    if (const auto shell = result_.globals.find("completion"); shell != result_.globals.end()) {
      return printed(std::string(completion_script(shell->second)));
    }
    if (result_.globals.contains("manual")) return printed(manual(grammar()));
    if (result_.globals.contains("help")) return printed(help(grammar(), program_, words_));
    if (result_.command == nullptr) {
      result_.incomplete = true;
      return printed(help(grammar(), program_, words_));
    }
    if (auto complete = check_complete(); !complete) return Failure(std::move(complete).error());
    if (auto fits = check_formatter(); !fits) return Failure(std::move(fits).error());
    for (const Argument& argument : result_.command->arguments) {
      if (!argument.fallback.empty()) result_.values.emplace(argument.name, argument.fallback);
    }
    return std::move(result_);
  }

  Result<Invocation> printed(std::string text) {
    result_.command = nullptr;
    result_.text = std::move(text);
    return std::move(result_);
  }

  Result<void> check_complete() const {
    const Command& command = *result_.command;
    bool changes = false;
    std::string members;
    for (const Argument& argument : command.arguments) {
      const auto given = [this](const Argument* one) { return result_.values.contains(one->name); };
      std::string names;
      const auto choices = rivals(command.arguments, argument);
      for (const Argument* one : choices) names += (names.empty() ? "" : " or ") + written(*one);
      const auto count = std::ranges::count_if(choices, given);
      if (argument.required && count == 0) return mistake(fmt::format("{} needs {}", spoken(), names));
      if (count > 1) return mistake(fmt::format("give only one of {}", names));
      if (given(&argument) && !argument.needs.empty() && !result_.values.contains(argument.needs)) {
        return mistake(fmt::format("{} needs --{} too", written(argument), argument.needs));
      }
      if (argument.member.empty()) continue;
      changes = changes || given(&argument);
      members += (members.empty() ? "" : ", ") + written(argument);
    }
    if (command.method == Method::kPatch && !changes) {
      return mistake(fmt::format("{} has nothing to change, give at least one of {}", spoken(), members));
    }
    // The host was given before the words, but the command has no host.
    if (result_.values.contains("host") && find_argument(command.arguments, "host") == nullptr) {
      return mistake(fmt::format("\"--host\" is not an option of {}", spoken()));
    }
    return {};
  }

  Result<void> check_formatter() const {
    const auto formatter = result_.globals.find("formatter");
    if (formatter == result_.globals.end()) return {};
    if (result_.globals.contains("json")) return mistake("give only one of --json or --formatter");
    const bool is_text = result_.command->table == nullptr && result_.command->text != nullptr;
    if (!is_text || formatter->second == "json") return {};
    return mistake(fmt::format("{} prints no list of fields, so it has no {}: give --formatter json",
                               spoken(), formatter->second));
  }

  std::string program_;
  std::span<const std::string> left_;
  std::string words_;
  Invocation result_;
};

}  // namespace

Result<std::string> checked_value(const Argument& argument, const std::string& value) {
  switch (argument.kind) {
    case Kind::kName:
      if (is_name(value)) return value;
      return wrong(argument, value, fmt::format("not a name: it takes {}", kNameRule));
    case Kind::kNumber:
      if (whole_number<std::uint32_t>(value)) return value;
      return wrong(argument, value, "not a number from 0 to 4294967295");
    case Kind::kMemory:
      if (value == "all" || whole_number<std::uint32_t>(value)) return value;
      return wrong(argument, value, "neither a number of MiB nor \"all\"");
    case Kind::kProbability:
      if (is_probability(value)) return value;
      return wrong(argument, value, "not a probability: it takes 0 to 1, such as 0.01");
    case Kind::kBool:
      if (value == "true" || value == "1" || value == "yes") return "true";
      if (value == "false" || value == "0" || value == "no") return "false";
      return wrong(argument, value, "neither true nor false");
    case Kind::kUpDown:
      if (value == "up" || value == "down") return value;
      return wrong(argument, value, "neither up nor down");
    case Kind::kOnOff:
      if (value == "on" || value == "off") return value;
      return wrong(argument, value, "neither on nor off");
    case Kind::kChoice: {
      if (std::ranges::find(argument.choices, value) != argument.choices.end()) return value;
      std::string allowed;
      for (const std::string& choice : argument.choices) allowed += (allowed.empty() ? "" : ", ") + choice;
      return wrong(argument, value, "not allowed: it takes " + allowed);
    }
    case Kind::kText:
    case Kind::kTexts:
      if (is_visible(value)) return value;
      return wrong(argument, value, "not printable ASCII");
    case Kind::kFile:
    case Kind::kFlag:
      break;
  }
  return value;
}

Result<Invocation> parse(std::string_view program, std::span<const std::string> arguments) {
  return Parser(program, arguments).run();
}

}  // namespace pvrdma::ctl
