// The search of the header: objects whose names, MACs, addresses or GIDs contain the words, first those whose name begins with them.
import { to } from './route.js';

const kResults = 10;

function entries(data) {
  return [
    ...data.hosts.map((host) => ({ text: host.name, address: to('hosts', host.name, 'summary'),
      words: [host.name, ...host.vmks.map((vmk) => vmk.address), ...host.vmnics.map((nic) => `${nic.name} ${nic.mac}`), ...host.rdma_devices.map((device) => device.name)] })),
    ...data.hosts.map((host) => ({ text: `Firewall, Security Profile: ${host.name}`, address: to('hosts', host.name, 'configure', 'firewall'), words: ['firewall security profile pvrdma'] })),
    ...data.hosts.map((host) => ({ text: `Net.PVRDMAVmknic: ${host.name}`, address: to('hosts', host.name, 'configure', 'advanced'), words: ['net.pvrdmavmknic advanced system settings'] })),
    ...data.vms.map((vm) => ({ text: vm.name, address: to('vms', vm.name, 'summary'),
      words: [vm.name, vm.adapter?.mac ?? '', ...(data.adapters.find((adapter) => adapter.name === vm.name)?.gids ?? []).map((gid) => gid.gid)] })),
    ...data.dvs.flatMap((dvs) => [{ text: dvs.name, address: to('networking', dvs.name, 'configure', 'port-groups'), words: [dvs.name] },
      ...dvs.portgroups.map((group) => ({ text: `${group.name} (${dvs.name})`, address: to('networking', dvs.name, 'configure', 'port-groups'), words: [group.name] }))]),
  ];
}

export function found(data, text) {
  const wanted = text.toLowerCase().trim();
  if (data === null || wanted === '') return [];
  const matches = entries(data).filter((entry) => entry.words.some((word) => word.toLowerCase().includes(wanted)));
  const begins = (entry) => entry.text.toLowerCase().startsWith(wanted);
  return [...matches.filter(begins), ...matches.filter((entry) => !begins(entry))].slice(0, kResults);
}
