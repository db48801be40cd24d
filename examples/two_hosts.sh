#!/bin/bash
# Sets up PVRDMA between VMs on two hosts, step by step like VMware's deployment guide: distributed switch with two
# uplinks and a port group, hosts, tagged VMkernel adapters, firewall ruleset, VMs with PVRDMA adapters and reserved
# memory.
#
# Run it on either host when pvrdmad runs on both with one store (pvrdmad.toml(5), [host] and [store]). It can be run
# again: what is there already stays as it is.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: two_hosts.sh HOST1 ADDRESS1 HOST2 ADDRESS2
  HOST1, HOST2        the hosts' names, as in [host] of their pvrdmad.toml
  ADDRESS1, ADDRESS2  each host's address on the network that carries PVRDMA
environment: PVRDMACTL (pvrdmactl), PVRDMA_API (its API socket), SWITCH, PORTGROUP, VLAN;
  NICS=1 leaves the second uplink free: a NIC that is paired with an RDMA device must be a host's only uplink
TEXT
}
if (($# != 4)); then
  usage >&2
  exit 2
fi
host1=$1 address1=$2 host2=$3 address2=$4
ctl=${PVRDMACTL:-pvrdmactl}
switch=${SWITCH:-DSwitch}
portgroup=${PORTGROUP:-DPortGroup-PVRDMA}

step() {
  echo "\$ pvrdmactl $*"
  "$ctl" "$@"
}
# A step that makes an object. If the object is there, the daemon's refusal says "already".
make() {
  echo "\$ pvrdmactl $*"
  local said failed=
  { said=$("$ctl" "$@" 2>&1 >&3) || failed=yes; } 3>&1
  if [[ $said ]]; then echo "$said" >&2; fi
  [[ ! $failed || $said == *" already"* ]] || exit 1
}

echo "== 1. a distributed switch with two uplinks, and a port group"
make dvs create "$switch" --uplinks 2
make dvs portgroup add "$switch" "$portgroup" --vlan "${VLAN:-0}"

echo "== 2. the hosts and their physical NICs"
for host in "$host1" "$host2"; do
  make dvs add-host "$switch" "$host"
  step dvs uplink set "$switch" "$host" uplink1 vmnic0
  if ((${NICS:-2} > 1)); then step dvs uplink set "$switch" "$host" uplink2 vmnic1; fi
done

echo "== 3. a tagged VMkernel adapter and the firewall ruleset on each host"
tag() {
  local interfaces
  interfaces=$("$ctl" network ip interface list -H "$1")
  if ! grep -qx " *IP Address: $2" <<<"$interfaces"; then
    step network ip interface add -H "$1" -i vmk2 --address "$2"
  fi
  step system settings advanced set -H "$1" -o /Net/PVRDMAVmknic -s vmk2
  step network firewall ruleset set -H "$1" -e true -r pvrdma
}
tag "$host1" "$address1"
tag "$host2" "$address2"

echo "== 4. VMs with PVRDMA adapters and all memory reserved"
make vm create VM-01 --host "$host1" --hw 14 --memory 512 --reserve all --portgroup "$portgroup" --protocol v2
make vm create VM-02 --host "$host2" --hw 14 --memory 512 --reserve all --portgroup "$portgroup" --protocol v2

echo "== done: power the VMs on with"
echo "   on $host1: eval qemu-system-x86_64 ... \"\$(pvrdmactl vm qemu-args VM-01)\""
echo "   on $host2: eval qemu-system-x86_64 ... \"\$(pvrdmactl vm qemu-args VM-02)\""
