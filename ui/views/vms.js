// VMs of the cluster, with what this host knows about their adapters.
import { html } from '../lit.js';
import { new_vm } from '../dialogs/new_vm.js';
import { memory, rate } from '../format.js';
import { button, power_dot, title } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { vm_actions } from '../vm_actions.js';
import { W } from '../words.js';

// A daemon without a cluster has adapters only, from its configuration.
const alone = (adapter) => ({ name: adapter.name, host: '--', hardware_version: adapter.hardware_version, power: '', adapter: { protocol: adapter.roce, mac: adapter.mac } });

export function vms(store) {
  const { data } = store;
  const adapter_of = (vm) => data.adapters.find((adapter) => adapter.name === vm.name);
  const columns = [
    { key: 'name', title: W.name, value: (vm) => vm.name, cell: (vm) => html`<a tabindex="-1" href=${to('vms', vm.name)}>${vm.name}</a>` },
    { key: 'state', title: W.state, value: power, cell: (vm) => html`${vm.power ? power_dot(vm.power === 'on', store.live) : ''} ${power(vm)}` },
    { key: 'host', title: W.host, value: (vm) => (vm.motion ? `${vm.host} → ${vm.motion.to}` : vm.host) },
    { key: 'hw', title: W.compatibility, value: (vm) => `VM version ${vm.hardware_version}` },
    { key: 'memory', title: W.memory, value: (vm) => vm.memory_mib ?? '', cell: (vm) => (vm.memory_mib ? memory(vm.memory_mib) : '--'), number: true },
    { key: 'reserved', title: W.reserved, value: (vm) => vm.memory_reserved_mib ?? '', cell: (vm) => (vm.memory_mib ? memory(vm.memory_reserved_mib) : '--'), number: true },
    { key: 'network', title: W.network, value: (vm) => vm.adapter?.portgroup ?? '--' },
    { key: 'protocol', title: W.deviceProtocol, value: (vm) => (vm.adapter ? `RoCE ${vm.adapter.protocol}` : '--') },
    { key: 'adapter', title: 'Adapter', value: (vm) => adapter_of(vm)?.state ?? '--' },
    { key: 'rate', title: 'Throughput', value: (vm) => adapter_of(vm)?.rate ?? '', cell: (vm) => rate(adapter_of(vm)?.rate), number: true },
  ];
  const rows = store.outside ? data.adapters.map(alone) : data.vms;
  return html`${title(W.vms)}
    ${table('vms', columns, { label: W.vms, key: (vm) => vm.name, open: (vm) => to('vms', vm.name), empty: 'No VM yet.',
                            actions: (vm) => (store.outside ? [] : vm_actions(store, vm)) })
      .draw(rows, button(W.newVm, () => new_vm(store), store.cannot_edit))}`;
}

export const power = (vm) => ({ on: 'Powered On', off: 'Powered Off' })[vm.power] ?? '--';
