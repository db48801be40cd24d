// The forms of esxcli's --formatter: a table for programs. A field's name is its title without blanks
// ("MAC Address" is MACAddress). A cell of a right-aligned column that is a number or a truth value has that
// type; every other cell is a string.
//
// Thread: values.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {

// What key_values_of() and xml_of() call a row of the command: "Nic" for "network nic list", and "VersionGet"
// for "system version get".
std::string structure_name(std::string_view words);

// A line with the fields' names, then a line for each row. Fields are in the order of their names, and each
// is followed by a comma.
std::string csv_of(const Table& table);
// A list of objects, or one object.
Json json_of(const Table& table);
// "Nic.MTU.integer=1500", a line for each field of each row.
std::string key_values_of(const Table& table, std::string_view structure);
std::string xml_of(const Table& table, std::string_view structure);

}  // namespace pvrdma::ctl
