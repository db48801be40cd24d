// Distributed switches.
import { html } from '../lit.js';
import { new_port_group } from '../dialogs/port_group.js';
import { new_switch, remove_switch } from '../dialogs/switch.js';
import { manage_hosts } from '../dialogs/switch_hosts.js';
import { button, title } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

const actions = (store, dvs) => [[W.newPortGroup, () => new_port_group(dvs), store.cannot_edit], [W.addHosts, () => manage_hosts(store, dvs), store.cannot_edit],
                                 ['Remove', () => remove_switch(dvs), store.cannot_edit]];

export function networking(store) {
  const { data } = store;
  const columns = [
    { key: 'name', title: W.name, value: (dvs) => dvs.name, cell: (dvs) => html`<a tabindex="-1" href=${to('networking', dvs.name)}>${dvs.name}</a>` },
    { key: 'version', title: W.version, value: (dvs) => dvs.version },
    { key: 'uplinks', title: W.uplinks, value: (dvs) => dvs.uplinks.length, number: true },
    { key: 'groups', title: W.portGroups, value: (dvs) => dvs.portgroups.length, number: true },
    { key: 'hosts', title: W.hosts, value: (dvs) => dvs.members.length, number: true },
    { key: 'vms', title: W.vms, value: (dvs) => data.vms.filter((vm) => vm.adapter?.dvs === dvs.name).length, number: true },
  ];
  return html`${title(W.distributedSwitches)}
    ${table('switches', columns, { label: W.distributedSwitches, key: (dvs) => dvs.name, open: (dvs) => to('networking', dvs.name), actions: (dvs) => actions(store, dvs),
      empty: 'No distributed switch yet. The first step of PVRDMA is to make one.' })
      .draw(data.dvs, button(W.newSwitch, () => new_switch(), store.cannot_edit))}`;
}
