// A saved engine as text, for people. Thread: any; needs no engine and no guest.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "state/printer.h"

namespace pvrdma::verbs {

// One record of an engine; another is skipped, or refused.
void print_record(state::Printer& printer, const state::Reader::Record& record);

// A line for each field, up to what is wrong with the stream, which the last line says.
std::string print_state(std::span<const std::byte> stream);

}  // namespace pvrdma::verbs
