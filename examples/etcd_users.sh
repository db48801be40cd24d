#!/bin/bash
# Gives each host of a cluster a user of its own in etcd, and turns etcd's authentication on if it is off. May be run again
# for more hosts. What each user may do is explained in docs/cluster/store.md.
#
# Afterwards, each host's [store] has user = "HOST" and password_file = "FILE" (pvrdmad.toml(5)).
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: etcd_users.sh FOLDER HOST...
  FOLDER  where each host's password goes, as HOST.password, and root's
  HOST    the hosts' names, as in [host] of their pvrdmad.toml
environment: ETCDCTL (etcdctl, with its --endpoints), PREFIX (/pvrdma/v1/),
  EDITORS: the hosts with whose API admins change VMs, switches and other hosts (default: all of HOST...)
TEXT
}
if (($# < 2)); then
  usage >&2
  exit 2
fi
folder=$1
shift
prefix=${PREFIX:-/pvrdma/v1/}
editors=" ${EDITORS:-$*} "
umask 077
mkdir -p "$folder"
read -ra etcdctl <<<"${ETCDCTL:-etcdctl}"
export ETCDCTL_API=3

password() {  # NAME
  local file=$folder/$1.password
  [[ -s $file ]] || openssl rand -hex 24 >"$file"
  cat "$file"
}
root_password=$(password root)
as_root=()
ctl() { "${etcdctl[@]}" "${as_root[@]}" "$@" >/dev/null; }

if users=$("${etcdctl[@]}" user list 2>/dev/null); then  # authentication is off
  if ! grep -qx root <<<"$users"; then ctl user add "root:$root_password"; fi
  ctl user grant-role root root
else
  as_root=(--user "root:$root_password")
fi

grant() {  # ROLE KIND KEY...
  ctl role grant-permission "$@"
}
for host in "$@"; do
  role=pvrdma-$host
  ctl role add "$role"
  grant "$role" --prefix=true read "$prefix"
  grant "$role" readwrite "${prefix}live/host/$host"
  grant "$role" readwrite "${prefix}config"  # every change depends on it, also a change of the host's own record
  grant "$role" readwrite "${prefix}config/host/$host"
  grant "$role" --prefix=true readwrite "${prefix}live/power/"
  grant "$role" --prefix=true readwrite "${prefix}live/gid/"
  if [[ $editors == *" $host "* ]]; then
    grant "$role" --prefix=true readwrite "${prefix}config/"
  fi
  ctl user add "$host:$(password "$host")"
  ctl user grant-role "$host" "$role"
done

if ((${#as_root[@]} == 0)); then ctl auth enable; fi
echo "passwords are in $folder: each host gets its own; root's stays with you"
