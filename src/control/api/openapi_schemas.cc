#include "control/api/openapi.h"

namespace pvrdma::control {

// Answers may get more members in later versions; requests take no others than these.
std::string_view openapi_schemas() {
  return R"json({
"Name": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
"Count": {"type": "integer", "format": "int64", "minimum": 0},
"Mac": {"type": "string", "pattern": "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"},
"Protocol": {"type": "string", "enum": ["v1", "v2"]},
"Profile": {"type": "string", "enum": ["open", "esxi"]},
"Counters": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Count"}},
"CounterGroups": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Counters"}},
"Nothing": {"type": "object", "maxProperties": 0},
"Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
"OpenApi": {"type": "object"},
"Version": {"type": "object", "required": ["version", "api"], "properties": {
  "version": {"type": "string"}, "api": {"type": "string"}}},

"Link": {"type": "object", "additionalProperties": false, "required": ["up"], "properties": {
  "up": {"type": "boolean"}}},
"Adapter": {"type": "object", "properties": {
  "name": {"type": "string"},
  "state": {"type": "string", "enum": ["off", "detached", "attached", "active", "failed"]},
  "mac": {"$ref": "#/components/schemas/Mac"},
  "hardware_version": {"type": "integer"},
  "roce": {"$ref": "#/components/schemas/Protocol"},
  "socket": {"type": "string"},
  "link_up": {"type": "boolean"},
  "device_version": {"type": "integer"},
  "driver_version": {"type": "integer"},
  "guest_os": {"type": "string"},
  "memory_bytes": {"$ref": "#/components/schemas/Count"},
  "tx_messages": {"$ref": "#/components/schemas/Count"},
  "tx_bytes": {"$ref": "#/components/schemas/Count"},
  "rx_messages": {"$ref": "#/components/schemas/Count"},
  "rx_bytes": {"$ref": "#/components/schemas/Count"},
  "gids": {"type": "array", "items": {"type": "object", "properties": {
    "index": {"type": "integer"}, "gid": {"type": "string"},
    "roce": {"$ref": "#/components/schemas/Protocol"}}}},
  "objects": {"$ref": "#/components/schemas/Counters"},
  "paths": {"$ref": "#/components/schemas/CounterGroups"}}},
"Qp": {"type": "object", "properties": {
  "adapter": {"type": "string"},
  "qpn": {"type": "integer"},
  "type": {"type": "string"},
  "state": {"type": "string"},
  "local_gid": {"type": "string"},
  "remote_gid": {"type": "string"},
  "remote_qpn": {"type": "integer"},
  "peer_host": {"type": "string"},
  "path": {"type": "string"},
  "path_reason": {"type": "string"},
  "tx_messages": {"$ref": "#/components/schemas/Count"},
  "tx_bytes": {"$ref": "#/components/schemas/Count"},
  "rx_messages": {"$ref": "#/components/schemas/Count"},
  "rx_bytes": {"$ref": "#/components/schemas/Count"},
  "retransmits": {"$ref": "#/components/schemas/Count"}}},
"Stats": {"type": "object", "properties": {
  "adapters": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
  "host": {"$ref": "#/components/schemas/CounterGroups"}}},
"Path": {"type": "object", "properties": {
  "adapter": {"type": "string"},
  "qpn": {"type": "integer"},
  "local_gid": {"type": "string"},
  "remote_gid": {"type": "string"},
  "remote_qpn": {"type": "integer"},
  "peer_host": {"type": "string"},
  "path": {"type": "string"},
  "reason": {"type": "string"}}},

"Cluster": {"type": "object", "properties": {
  "host": {"$ref": "#/components/schemas/Name"},
  "store": {"type": "object", "properties": {
    "description": {"type": "string"},
    "connected": {"type": "boolean"},
    "trouble": {"type": "string"},
    "edits": {"$ref": "#/components/schemas/Count"},
    "conflicts": {"$ref": "#/components/schemas/Count"},
    "live_conflicts": {"$ref": "#/components/schemas/Count"},
    "bad_records": {"$ref": "#/components/schemas/Count"},
    "resyncs": {"$ref": "#/components/schemas/Count"}}},
  "tcp": {"type": "object", "properties": {
    "listening": {"type": "boolean"},
    "trouble": {"type": "string"},
    "peers": {"type": "array", "items": {"type": "object", "properties": {
      "host": {"$ref": "#/components/schemas/Name"},
      "lanes_up": {"type": "integer"},
      "sessions_up": {"type": "integer"},
      "reconnects": {"$ref": "#/components/schemas/Count"},
      "trouble": {"type": "string"}}}}}}}},

"Host": {"type": "object", "properties": {
  "name": {"$ref": "#/components/schemas/Name"},
  "self": {"type": "boolean"},
  "alive": {"type": "boolean"},
  "version": {"type": "string"},
  "vmks": {"type": "array", "items": {"type": "object", "properties": {
    "name": {"type": "string"}, "address": {"type": "string"}, "tagged": {"type": "boolean"}}}},
  "pvrdma_vmknic": {"type": "string"},
  "ruleset": {"$ref": "#/components/schemas/Ruleset"},
  "vmnics": {"type": "array", "items": {"type": "object", "properties": {
    "name": {"type": "string"}, "netdev": {"type": "string"}, "pci_address": {"type": "string"},
    "driver": {"type": "string"}, "mac": {"type": "string"}, "description": {"type": "string"},
    "link_up": {"type": "boolean"}, "mtu": {"type": "integer"}, "speed_mbps": {"type": "integer"},
    "full_duplex": {"type": "boolean"}}}},
  "rdma_devices": {"type": "array", "items": {"type": "object", "properties": {
    "name": {"type": "string"}, "device": {"type": "string"}, "driver": {"type": "string"},
    "active": {"type": "boolean"}, "mtu": {"type": "integer"}, "speed_mbps": {"type": "integer"},
    "paired_uplink": {"type": "string"}, "description": {"type": "string"},
    "roce_v1": {"type": "boolean"}, "roce_v2": {"type": "boolean"}, "iwarp": {"type": "boolean"},
    "vmknic": {"type": "string"}}}},
  "socket_folder": {"type": "string"}}},
"NewVmk": {"type": "object", "additionalProperties": false, "required": ["name", "address"], "properties": {
  "name": {"type": "string", "example": "vmk2"}, "address": {"type": "string", "example": "10.0.0.1"}}},
"AdvancedSetting": {"type": "object", "properties": {
  "path": {"type": "string"}, "type": {"type": "string"}, "value": {"type": "string"},
  "default": {"type": "string"}, "description": {"type": "string"}}},
"AdvancedValue": {"type": "object", "additionalProperties": false, "required": ["path", "value"],
  "properties": {"path": {"type": "string", "example": "/Net/PVRDMAVmknic"}, "value": {"type": "string"}}},
"Ruleset": {"type": "object", "properties": {
  "name": {"type": "string"}, "enabled": {"type": "boolean"}, "allow_all": {"type": "boolean"},
  "allowed": {"type": "array", "items": {"type": "string"}}}},
"RulesetChange": {"type": "object", "additionalProperties": false, "properties": {
  "enabled": {"type": "boolean"}, "allow_all": {"type": "boolean"}}},
"Rule": {"type": "object", "properties": {
  "ruleset": {"type": "string"}, "direction": {"type": "string", "enum": ["Inbound", "Outbound"]},
  "protocol": {"type": "string"}, "port_type": {"type": "string"}, "port_begin": {"type": "integer"},
  "port_end": {"type": "integer"}}},
"Network": {"type": "object", "additionalProperties": false, "required": ["network"], "properties": {
  "network": {"type": "string", "example": "10.0.0.0/24"}}},
"RdmaStats": {"type": "object", "properties": {
  "device": {"type": "string"}, "stats": {"$ref": "#/components/schemas/Counters"}}},

"Dvs": {"type": "object", "properties": {
  "name": {"$ref": "#/components/schemas/Name"},
  "id": {"type": "integer"},
  "version": {"type": "string"},
  "uplinks": {"type": "array", "items": {"type": "string"}},
  "portgroups": {"type": "array", "items": {"type": "object", "properties": {
    "name": {"type": "string"}, "vlan": {"type": "integer"}}}},
  "members": {"type": "array", "items": {"type": "object", "properties": {
    "host": {"type": "string"},
    "uplinks": {"type": "object", "additionalProperties": {"type": "string"}}}}}}},
"NewDvs": {"type": "object", "additionalProperties": false, "required": ["name"], "properties": {
  "name": {"$ref": "#/components/schemas/Name"},
  "version": {"type": "string", "default": "8.0.0"},
  "uplinks": {"type": "integer", "minimum": 1, "maximum": 32, "default": 2}}},
"Uplink": {"type": "object", "additionalProperties": false, "required": ["vmnic"], "properties": {
  "vmnic": {"type": "string", "example": "vmnic0"}}},
"NewPortGroup": {"type": "object", "additionalProperties": false, "properties": {
  "vlan": {"type": "integer", "minimum": 0, "maximum": 4094, "default": 0}}},

"Vm": {"type": "object", "properties": {
  "name": {"$ref": "#/components/schemas/Name"},
  "host": {"type": "string"},
  "hardware_version": {"type": "integer"},
  "memory_mib": {"type": "integer"},
  "memory_reserved_mib": {"type": "integer"},
  "power": {"type": "string", "enum": ["on", "off"]},
  "adapter": {"type": "object", "nullable": true, "properties": {
    "mac": {"$ref": "#/components/schemas/Mac"}, "dvs": {"type": "string"},
    "portgroup": {"type": "string"}, "protocol": {"$ref": "#/components/schemas/Protocol"},
    "profile": {"$ref": "#/components/schemas/Profile"}, "socket": {"type": "string"}}},
  "power_on_refusal": {"type": "string"},
  "not_served": {"type": "string",
    "description": "Why the host that answers cannot serve its adapter; empty when it is another's"}}},
"NewAdapter": {"type": "object", "additionalProperties": false, "required": ["portgroup"], "properties": {
  "mac": {"$ref": "#/components/schemas/Mac"},
  "dvs": {"type": "string"},
  "portgroup": {"type": "string"},
  "protocol": {"$ref": "#/components/schemas/Protocol"},
  "profile": {"$ref": "#/components/schemas/Profile"}}},
"NewVm": {"type": "object", "additionalProperties": false,
  "required": ["name", "hardware_version", "memory_mib"], "properties": {
  "name": {"$ref": "#/components/schemas/Name"},
  "host": {"type": "string", "default": "self"},
  "hardware_version": {"type": "integer", "minimum": 7, "maximum": 21},
  "memory_mib": {"type": "integer", "minimum": 1},
  "memory_reserved_mib": {"type": "integer", "minimum": 0, "default": 0},
  "adapter": {"$ref": "#/components/schemas/NewAdapter"}}},
"VmChange": {"type": "object", "additionalProperties": false, "properties": {
  "host": {"type": "string"},
  "memory_mib": {"type": "integer", "minimum": 1},
  "memory_reserved_mib": {"type": "integer", "minimum": 0},
  "protocol": {"$ref": "#/components/schemas/Protocol"},
  "portgroup": {"type": "string"},
  "dvs": {"type": "string"}}},
"Upgrade": {"type": "object", "additionalProperties": false, "required": ["hardware_version"],
  "properties": {"hardware_version": {"type": "integer", "minimum": 7, "maximum": 21}}},
"QemuArgs": {"type": "object", "properties": {"arguments": {"type": "array", "items": {"type": "string"}}}},
"LibvirtXml": {"type": "object", "properties": {"xml": {"type": "string"}}}
})json";
}

}  // namespace pvrdma::control
