// ConfigTest: configurations from a file and from flags, and the sentences about mistakes in them.
#pragma once

#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <unistd.h>

#include "control/config/config.h"

namespace pvrdma::control {

inline constexpr const char* kVm01 = R"([[adapter]]
name = "VM-01"
socket = "/run/pvrdma/vm-01.sock"
mac = "52:54:00:12:34:51"
hardware_version = 14
)";

inline constexpr const char* kVm01Flag = "name=VM-01,socket=/a.sock,mac=52:54:00:12:34:51,hw=14";

// Each mistake is compared in full, because the sentence is all that an operator sees. FILE stands for the
// file's path.
class ConfigTest : public testing::Test {
 protected:
  Result<Config> load(const std::string& toml) {
    std::ofstream(path_) << toml;
    return load_config({.file = path_});
  }

  std::string mistake(const Result<Config>& config) {
    if (config) return "no mistake";
    std::string sentence = config.error().message;
    for (auto at = sentence.find(path_); at != std::string::npos; at = sentence.find(path_)) {
      sentence.replace(at, path_.size(), "FILE");
    }
    return sentence;
  }
  std::string mistake_in(const std::string& toml) { return mistake(load(toml)); }

  // The mistake in an adapter with one line replaced or added. Its five lines are 1 to 5.
  std::string mistake_with(const std::string& key, const std::string& line) {
    std::string toml;
    std::istringstream lines(kVm01);
    bool replaced = false;
    for (std::string each; std::getline(lines, each);) {
      const bool this_one = each.starts_with(key + " ");
      replaced = replaced || this_one;
      toml += (this_one ? line : each) + "\n";
    }
    return mistake_in(replaced ? toml : toml + line + "\n");
  }

  const std::string path_ = testing::TempDir() + "config_test_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
                            std::to_string(::getpid()) + ".toml";
  void TearDown() override { std::remove(path_.c_str()); }
};

}  // namespace pvrdma::control
