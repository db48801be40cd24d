# Completion of pvrdmactl(1) for bash, as pvrdmactl --completion bash prints it.

_pvrdmactl_words() {
  case $1 in
    '') echo 'rdma network system dvs vm host cluster adapter qp path stats version capture fault motion hca' ;;
    'rdma') echo 'device' ;;
    'rdma device') echo 'list protocol vmknic stats' ;;
    'rdma device protocol') echo 'list' ;;
    'rdma device stats') echo 'get' ;;
    'rdma device vmknic') echo 'list' ;;
    'network') echo 'nic ip firewall' ;;
    'network nic') echo 'list' ;;
    'network ip') echo 'interface' ;;
    'network ip interface') echo 'add list remove' ;;
    'network firewall') echo 'ruleset' ;;
    'network firewall ruleset') echo 'list set rule allowedip' ;;
    'network firewall ruleset rule') echo 'list' ;;
    'network firewall ruleset allowedip') echo 'add list remove' ;;
    'system') echo 'settings' ;;
    'system settings') echo 'advanced' ;;
    'system settings advanced') echo 'list set' ;;
    'dvs') echo 'create list get delete add-host remove-host portgroup uplink roce-rules' ;;
    'dvs portgroup') echo 'add set list remove' ;;
    'dvs uplink') echo 'set' ;;
    'vm') echo 'create list get set upgrade delete adapter qemu-args upgrade-vmm migrate checkpoint restore libvirt-xml' ;;
    'vm adapter') echo 'add remove' ;;
    'host') echo 'list get delete' ;;
    'cluster') echo 'get' ;;
    'adapter') echo 'list get set' ;;
    'qp') echo 'list' ;;
    'path') echo 'list' ;;
    'fault') echo 'add list remove' ;;
    'motion') echo 'list get dump' ;;
    'hca') echo 'check' ;;
    'rdma device list') echo . ;;
    'rdma device protocol list') echo . ;;
    'rdma device vmknic list') echo . ;;
    'rdma device stats get') echo . ;;
    'network nic list') echo . ;;
    'network ip interface add') echo . ;;
    'network ip interface list') echo . ;;
    'network ip interface remove') echo . ;;
    'network firewall ruleset list') echo . ;;
    'network firewall ruleset set') echo . ;;
    'network firewall ruleset rule list') echo . ;;
    'network firewall ruleset allowedip add') echo . ;;
    'network firewall ruleset allowedip list') echo . ;;
    'network firewall ruleset allowedip remove') echo . ;;
    'system settings advanced list') echo . ;;
    'system settings advanced set') echo . ;;
    'dvs create') echo . ;;
    'dvs list') echo . ;;
    'dvs get') echo . ;;
    'dvs delete') echo . ;;
    'dvs add-host') echo . ;;
    'dvs remove-host') echo . ;;
    'dvs portgroup add') echo . ;;
    'dvs portgroup set') echo . ;;
    'dvs portgroup list') echo . ;;
    'dvs portgroup remove') echo . ;;
    'dvs uplink set') echo . ;;
    'dvs roce-rules') echo . ;;
    'vm create') echo . ;;
    'vm list') echo . ;;
    'vm get') echo . ;;
    'vm set') echo . ;;
    'vm upgrade') echo . ;;
    'vm delete') echo . ;;
    'vm adapter add') echo . ;;
    'vm adapter remove') echo . ;;
    'vm qemu-args') echo . ;;
    'vm upgrade-vmm') echo . ;;
    'vm migrate') echo . ;;
    'vm checkpoint') echo . ;;
    'vm restore') echo . ;;
    'vm libvirt-xml') echo . ;;
    'host list') echo . ;;
    'host get') echo . ;;
    'host delete') echo . ;;
    'cluster get') echo . ;;
    'adapter list') echo . ;;
    'adapter get') echo . ;;
    'adapter set') echo . ;;
    'qp list') echo . ;;
    'path list') echo . ;;
    'stats') echo . ;;
    'version') echo . ;;
    'capture') echo . ;;
    'fault add') echo . ;;
    'fault list') echo . ;;
    'fault remove') echo . ;;
    'motion list') echo . ;;
    'motion get') echo . ;;
    'motion dump') echo . ;;
    'hca check') echo . ;;
  esac
}

_pvrdmactl_options() {
  case $1 in
    'rdma device list') echo '-H --host' ;;
    'rdma device protocol list') echo '-H --host' ;;
    'rdma device vmknic list') echo '-H --host' ;;
    'rdma device stats get') echo '-d --device -H --host' ;;
    'network nic list') echo '-H --host' ;;
    'network ip interface add') echo '-i --interface-name --address -H --host' ;;
    'network ip interface list') echo '-H --host' ;;
    'network ip interface remove') echo '-i --interface-name -H --host' ;;
    'network firewall ruleset list') echo '-r --ruleset-id -H --host' ;;
    'network firewall ruleset set') echo '-a --allowed-all -e --enabled -r --ruleset-id -H --host' ;;
    'network firewall ruleset rule list') echo '-r --ruleset-id -H --host' ;;
    'network firewall ruleset allowedip add') echo '-i --ip-address -r --ruleset-id -H --host' ;;
    'network firewall ruleset allowedip list') echo '-r --ruleset-id -H --host' ;;
    'network firewall ruleset allowedip remove') echo '-i --ip-address -r --ruleset-id -H --host' ;;
    'system settings advanced list') echo '-o --option -H --host' ;;
    'system settings advanced set') echo '-d --default -o --option -s --string-value -H --host' ;;
    'dvs create') echo '--uplinks --version' ;;
    'dvs portgroup add') echo '--vlan --mtu --native-endpoints --native-peers' ;;
    'dvs portgroup set') echo '--mtu --native-endpoints --native-peers' ;;
    'dvs uplink set') echo '--none' ;;
    'dvs roce-rules') echo '--portgroup --bridge --taps --port --user --vlan-filtering --open-vswitch --remove' ;;
    'vm create') echo '-H --host --hw --memory --reserve --portgroup --dvs --mac --protocol --profile --doorbells --addresses --owner --group' ;;
    'vm set') echo '-H --host --memory --reserve --portgroup --dvs --protocol --doorbells --addresses --owner --group' ;;
    'vm upgrade') echo '--hw' ;;
    'vm adapter add') echo '--portgroup --dvs --mac --protocol --profile --doorbells --addresses --owner --group' ;;
    'vm qemu-args') echo '--incoming --restore' ;;
    'vm upgrade-vmm') echo '--monitor --new-monitor' ;;
    'vm migrate') echo '--to --max-pause --patience --monitor --check --cancel' ;;
    'vm checkpoint') echo '--monitor' ;;
    'vm restore') echo '--monitor' ;;
    'adapter set') echo '--link' ;;
    'qp list') echo '--adapter' ;;
    'stats') echo '--adapter' ;;
    'capture') echo '-w --write -f --filter -s --snaplen -c --count --duration' ;;
    'fault add') echo '--adapter --drop --duplicate --delay --reorder --corrupt --late-ms --seed' ;;
    'fault list') echo '--adapter' ;;
    'fault remove') echo '--adapter --all' ;;
    'hca check') echo '-d --device --memory' ;;
  esac
  echo '--api --server --token-file --ca --json --completion --version -h --help'
}

_pvrdmactl_values() {
  case "$1 $2" in
    'rdma device list --host' | 'rdma device list -H') echo 'any' ;;
    'rdma device protocol list --host' | 'rdma device protocol list -H') echo 'any' ;;
    'rdma device vmknic list --host' | 'rdma device vmknic list -H') echo 'any' ;;
    'rdma device stats get --device' | 'rdma device stats get -d') echo 'any' ;;
    'rdma device stats get --host' | 'rdma device stats get -H') echo 'any' ;;
    'network nic list --host' | 'network nic list -H') echo 'any' ;;
    'network ip interface add --interface-name' | 'network ip interface add -i') echo 'any' ;;
    'network ip interface add --address') echo 'any' ;;
    'network ip interface add --host' | 'network ip interface add -H') echo 'any' ;;
    'network ip interface list --host' | 'network ip interface list -H') echo 'any' ;;
    'network ip interface remove --interface-name' | 'network ip interface remove -i') echo 'any' ;;
    'network ip interface remove --host' | 'network ip interface remove -H') echo 'any' ;;
    'network firewall ruleset list --ruleset-id' | 'network firewall ruleset list -r') echo 'any' ;;
    'network firewall ruleset list --host' | 'network firewall ruleset list -H') echo 'any' ;;
    'network firewall ruleset set --allowed-all' | 'network firewall ruleset set -a') echo 'true false' ;;
    'network firewall ruleset set --enabled' | 'network firewall ruleset set -e') echo 'true false' ;;
    'network firewall ruleset set --ruleset-id' | 'network firewall ruleset set -r') echo 'any' ;;
    'network firewall ruleset set --host' | 'network firewall ruleset set -H') echo 'any' ;;
    'network firewall ruleset rule list --ruleset-id' | 'network firewall ruleset rule list -r') echo 'any' ;;
    'network firewall ruleset rule list --host' | 'network firewall ruleset rule list -H') echo 'any' ;;
    'network firewall ruleset allowedip add --ip-address' | 'network firewall ruleset allowedip add -i') echo 'any' ;;
    'network firewall ruleset allowedip add --ruleset-id' | 'network firewall ruleset allowedip add -r') echo 'any' ;;
    'network firewall ruleset allowedip add --host' | 'network firewall ruleset allowedip add -H') echo 'any' ;;
    'network firewall ruleset allowedip list --ruleset-id' | 'network firewall ruleset allowedip list -r') echo 'any' ;;
    'network firewall ruleset allowedip list --host' | 'network firewall ruleset allowedip list -H') echo 'any' ;;
    'network firewall ruleset allowedip remove --ip-address' | 'network firewall ruleset allowedip remove -i') echo 'any' ;;
    'network firewall ruleset allowedip remove --ruleset-id' | 'network firewall ruleset allowedip remove -r') echo 'any' ;;
    'network firewall ruleset allowedip remove --host' | 'network firewall ruleset allowedip remove -H') echo 'any' ;;
    'system settings advanced list --option' | 'system settings advanced list -o') echo 'any' ;;
    'system settings advanced list --host' | 'system settings advanced list -H') echo 'any' ;;
    'system settings advanced set --option' | 'system settings advanced set -o') echo 'any' ;;
    'system settings advanced set --string-value' | 'system settings advanced set -s') echo 'any' ;;
    'system settings advanced set --host' | 'system settings advanced set -H') echo 'any' ;;
    'dvs create --uplinks') echo 'any' ;;
    'dvs create --version') echo 'any' ;;
    'dvs portgroup add --vlan') echo 'any' ;;
    'dvs portgroup add --mtu') echo 'any' ;;
    'dvs portgroup add --native-endpoints') echo 'on off' ;;
    'dvs portgroup add --native-peers') echo 'any' ;;
    'dvs portgroup set --mtu') echo 'any' ;;
    'dvs portgroup set --native-endpoints') echo 'on off' ;;
    'dvs portgroup set --native-peers') echo 'any' ;;
    'dvs roce-rules --portgroup') echo 'any' ;;
    'dvs roce-rules --bridge') echo 'any' ;;
    'dvs roce-rules --taps') echo 'any' ;;
    'dvs roce-rules --port') echo 'any' ;;
    'dvs roce-rules --user') echo 'any' ;;
    'vm create --host' | 'vm create -H') echo 'any' ;;
    'vm create --hw') echo 'any' ;;
    'vm create --memory') echo 'any' ;;
    'vm create --reserve') echo 'all' ;;
    'vm create --portgroup') echo 'any' ;;
    'vm create --dvs') echo 'any' ;;
    'vm create --mac') echo 'any' ;;
    'vm create --protocol') echo 'v1 v2' ;;
    'vm create --profile') echo 'open esxi' ;;
    'vm create --doorbells') echo 'trapped mapped' ;;
    'vm create --addresses') echo 'any' ;;
    'vm create --owner') echo 'any' ;;
    'vm create --group') echo 'any' ;;
    'vm set --host' | 'vm set -H') echo 'any' ;;
    'vm set --memory') echo 'any' ;;
    'vm set --reserve') echo 'all' ;;
    'vm set --portgroup') echo 'any' ;;
    'vm set --dvs') echo 'any' ;;
    'vm set --protocol') echo 'v1 v2' ;;
    'vm set --doorbells') echo 'trapped mapped' ;;
    'vm set --addresses') echo 'any' ;;
    'vm set --owner') echo 'any' ;;
    'vm set --group') echo 'any' ;;
    'vm upgrade --hw') echo 'any' ;;
    'vm adapter add --portgroup') echo 'any' ;;
    'vm adapter add --dvs') echo 'any' ;;
    'vm adapter add --mac') echo 'any' ;;
    'vm adapter add --protocol') echo 'v1 v2' ;;
    'vm adapter add --profile') echo 'open esxi' ;;
    'vm adapter add --doorbells') echo 'trapped mapped' ;;
    'vm adapter add --addresses') echo 'any' ;;
    'vm adapter add --owner') echo 'any' ;;
    'vm adapter add --group') echo 'any' ;;
    'vm upgrade-vmm --monitor') echo 'any' ;;
    'vm upgrade-vmm --new-monitor') echo 'any' ;;
    'vm migrate --to') echo 'any' ;;
    'vm migrate --max-pause') echo 'any' ;;
    'vm migrate --patience') echo 'any' ;;
    'vm migrate --monitor') echo 'any' ;;
    'vm checkpoint --monitor') echo 'any' ;;
    'vm restore --monitor') echo 'any' ;;
    'adapter set --link') echo 'up down' ;;
    'qp list --adapter') echo 'any' ;;
    'stats --adapter') echo 'any' ;;
    'capture --write' | 'capture -w') echo 'file' ;;
    'capture --filter' | 'capture -f') echo 'any' ;;
    'capture --snaplen' | 'capture -s') echo 'any' ;;
    'capture --count' | 'capture -c') echo 'any' ;;
    'capture --duration') echo 'any' ;;
    'fault add --adapter') echo 'any' ;;
    'fault add --drop') echo 'any' ;;
    'fault add --duplicate') echo 'any' ;;
    'fault add --delay') echo 'any' ;;
    'fault add --reorder') echo 'any' ;;
    'fault add --corrupt') echo 'any' ;;
    'fault add --late-ms') echo 'any' ;;
    'fault add --seed') echo 'any' ;;
    'fault list --adapter') echo 'any' ;;
    'fault remove --adapter') echo 'any' ;;
    'hca check --device' | 'hca check -d') echo 'any' ;;
    'hca check --memory') echo 'any' ;;
    *' --api') echo 'file' ;;
    *' --server') echo 'any' ;;
    *' --token-file') echo 'file' ;;
    *' --ca') echo 'file' ;;
    *' --completion') echo 'bash' ;;
    *' --host' | *' -H') echo 'any' ;;
  esac
}

_pvrdmactl() {
  local current=${COMP_WORDS[COMP_CWORD]} words= word expects= i
  COMPREPLY=()
  # Bash makes a word of its own of the = in --option=value.
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then
      continue
    elif [[ -n $expects ]]; then
      expects=
    elif [[ $word == -* ]]; then
      expects=$(_pvrdmactl_values "$words" "$word")
    elif [[ -n $(_pvrdmactl_words "${words:+$words }$word") ]]; then
      words=${words:+$words }$word
    fi
  done
  [[ $current == = ]] && current=
  case $expects in
    '') ;;
    file) COMPREPLY=($(compgen -f -- "$current")); return ;;
    any) return ;;
    *) COMPREPLY=($(compgen -W "$expects" -- "$current")); return ;;
  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$(_pvrdmactl_options "$words")" -- "$current"))
  else
    word=$(_pvrdmactl_words "$words")
    [[ $word == . ]] || COMPREPLY=($(compgen -W "$word" -- "$current"))
  fi
}

complete -F _pvrdmactl pvrdmactl esxcli
