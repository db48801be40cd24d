#!/bin/bash
# Makes an authority and a certificate for each host of a cluster, for [tcp] (and [api]) of pvrdmad.toml(5).
#
# The keys are P-256. Each connection costs a signature in the thread that serves all adapters: 0.02 ms with P-256,
# but with RSA 0.3 ms (2048 bits), 1.9 ms (3072 bits) or 4 ms (4096 bits).
set -euo pipefail

if (($# < 2)); then
  echo "usage: certificates.sh FOLDER HOST...   (the hosts' names, as in [host] of their pvrdmad.toml)" >&2
  exit 2
fi
folder=$1
shift
umask 077
mkdir -p "$folder"
cd "$folder"

p256=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
if [[ ! -e ca.key ]]; then
  openssl req -x509 "${p256[@]}" -keyout ca.key -out ca.crt -days 3650 -subj "/CN=pvrdma authority" \
    -addext "keyUsage=critical,keyCertSign,cRLSign" 2>/dev/null
fi
for host in "$@"; do
  openssl req "${p256[@]}" -keyout "$host.key" -out "$host.csr" -subj "/CN=$host" 2>/dev/null
  openssl x509 -req -in "$host.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 825 -out "$host.crt" \
    -extfile <(echo "subjectAltName=DNS:$host") 2>/dev/null
  rm "$host.csr"
done
echo "ca.crt goes to every host, HOST.crt and HOST.key to its own; ca.key to none of them"
