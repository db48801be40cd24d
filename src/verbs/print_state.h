// A saved engine as text, for people. Thread: any; needs no engine and no guest.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "state/printer.h"

namespace pvrdma::verbs {

// Prints one record of an engine. Skips or refuses records of other kinds.
void print_record(state::Printer& printer, const state::Reader::Record& record);

// Prints one line per field. If the stream is invalid, it prints up to the error, which the last line names.
std::string print_state(std::span<const std::byte> stream);

}  // namespace pvrdma::verbs
