// Host > Configure > Networking: virtual switches, physical adapters and VMkernel adapters.
import { html } from '../lit.js';
import { add_vmkernel, remove_vmkernel } from '../dialogs/vmkernel.js';
import { nicSpeed } from '../format.js';
import { button, buttons, facts, section } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

const switches_of = (store, host) =>
  store.data.dvs.flatMap((dvs) => dvs.members.filter((member) => member.host === host.name).map((member) => ({ dvs, uplinks: member.uplinks })));

// The switch and uplink that a NIC serves; undefined: none.
function use_of(store, host, nic) {
  for (const { dvs, uplinks } of switches_of(store, host)) {
    const slot = Object.keys(uplinks).find((each) => uplinks[each] === nic);
    if (slot) return { dvs: dvs.name, slot };
  }
  return undefined;
}

const unknown = (host) => `${host.name} is not alive: its adapters are not known.`;

export function virtual_switches(store, host) {
  const rows = switches_of(store, host).flatMap(({ dvs, uplinks }) => dvs.uplinks.map((slot) => ({ dvs: dvs.name, slot, nic: uplinks[slot] ?? '' })));
  const columns = [
    { key: 'switch', title: W.switch, value: (row) => row.dvs, cell: (row) => html`<a tabindex="-1" href=${to('networking', row.dvs)}>${row.dvs}</a>` },
    { key: 'uplink', title: 'Uplink', value: (row) => row.slot },
    { key: 'nic', title: 'Physical adapter', value: (row) => row.nic || '--' },
  ];
  return html`${section(W.virtualSwitches)}
    ${table(`virtual-switches/${host.name}`, columns, { label: W.virtualSwitches, key: (row) => `${row.dvs}/${row.slot}`,
      empty: `${host.name} is not a member of a distributed switch.` }).draw(rows)}`;
}

export function physical_adapters(store, host) {
  const device_of = (nic) => host.rdma_devices.find((device) => device.paired_uplink === nic.name);
  const columns = [
    { key: 'device', title: W.device, value: (nic) => nic.name },
    { key: 'speed', title: W.actualSpeed, value: nicSpeed },
    { key: 'switch', title: W.switch, value: (nic) => use_of(store, host, nic.name)?.dvs ?? '--' },
    { key: 'mac', title: W.macAddress, value: (nic) => nic.mac },
    { key: 'driver', title: W.driver, value: (nic) => nic.driver || '--' },
    { key: 'pci', title: W.pciLocation, value: (nic) => nic.pci_address || '--' },
    { key: 'mtu', title: W.mtu, value: (nic) => nic.mtu, number: true },
    { key: 'rdma', title: W.rdma, value: (nic) => device_of(nic)?.name ?? '--' },
  ];
  const grid = table(`physical-adapters/${host.name}`, columns, { label: W.physicalAdapters, key: (nic) => nic.name, empty: host.alive ? 'The host has no physical adapter.' : unknown(host) });
  const chosen = grid.chosen(host.vmnics);
  return html`${section(W.physicalAdapters)}${grid.draw(host.vmnics)}${chosen ? physical_adapter(store, host, chosen, device_of(chosen)) : ''}`;
}

function physical_adapter(store, host, nic, device) {
  const use = use_of(store, host, nic.name);
  const protocols = device ? [device.roce_v1 && 'RoCE v1', device.roce_v2 && 'RoCE v2', device.iwarp && 'iWARP'].filter(Boolean).join(', ') : '--';
  return html`<section class="detail" aria-label="Physical network adapter: ${nic.name}">
    <h3 class="section-title">Physical network adapter: ${nic.name}</h3>
    <h4 class="detail-title">Adapter</h4>
    ${facts([[W.description, nic.description || '--'], ['Netdev', nic.netdev], [W.location, nic.pci_address ? `PCI ${nic.pci_address}` : '--'], [W.driver, nic.driver || '--'],
             [W.speedDuplex, nic.link_up ? `${nicSpeed(nic)}, ${nic.full_duplex ? 'Full Duplex' : 'Half Duplex'}` : 'Down'], ['Used as', use ? `${use.slot} of ${use.dvs}` : 'not used']])}
    <h4 class="detail-title">${W.rdma}: ${W.remoteDirectMemoryAccess}</h4>
    ${facts([[W.status, device ? (device.active ? 'Enabled' : 'Down') : 'Not supported'],
             [W.device, device ? html`<a href=${to('hosts', host.name, 'configure', 'rdma-adapters')}>${device.name}</a>` : '--'], [W.protocol, protocols]])}</section>`;
}

export function vmkernel_adapters(store, host) {
  const columns = [
    { key: 'device', title: W.device, value: (vmk) => vmk.name },
    { key: 'address', title: W.ipAddress, value: (vmk) => vmk.address },
    { key: 'pvrdma', title: 'PVRDMA', value: (vmk) => (vmk.tagged ? 'Yes' : 'No') },
  ];
  const actions = (vmk) => [[`Remove ${vmk.name}`, () => remove_vmkernel(host, vmk), store.cannot_edit]];
  const grid = table(`vmkernel-adapters/${host.name}`, columns, { label: W.vmkernelAdapters, key: (vmk) => vmk.name, actions, empty: 'No VMkernel adapters. PVRDMA between hosts needs one.' });
  const chosen = grid.chosen(host.vmks);
  return html`${section(W.vmkernelAdapters)}${grid.draw(host.vmks, html`
    ${button(W.addNetworking, () => add_vmkernel(store, host), store.cannot_edit)}
    ${chosen ? buttons(actions(chosen)) : ''}`)}`;
}
