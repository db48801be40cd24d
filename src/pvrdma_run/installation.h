// Where the programs and the library are: beside this program, installed or in a build folder. Thread:
// main().
#pragma once

#include <string>

#include "base/result.h"

namespace pvrdma::run {

struct Installation {
  std::string daemon;   // pvrdmad
  std::string standin;  // pvrdma-standin
  std::string library;  // libpvrdma-preload.so, as LD_PRELOAD names it
};

// Errors: a file is missing, with the places where it was looked for.
Result<Installation> find_installation();

}  // namespace pvrdma::run
