// How log lines look. Callers of the log (base/log.h) need not know.
//
// Thread: any.
#pragma once

#include <cstdint>

namespace pvrdma::log {

enum class Format : std::uint8_t {
  kText,     // time in UTC, level, message
  kJournal,  // priority and message: the journal has the time
  kJson,     // one object a line
};

// kJournal if standard error leads to systemd's journal, otherwise kText.
Format default_format();

// For later lines; until then, default_format() applies.
void set_format(Format format);

}  // namespace pvrdma::log
