// One distributed switch: port groups, uplinks, hosts.
import { html } from '../lit.js';
import { edit_port_group, new_port_group, remove_port_group } from '../dialogs/port_group.js';
import { remove_switch } from '../dialogs/switch.js';
import { manage_hosts } from '../dialogs/switch_hosts.js';
import { box, button, buttons, dot, facts, section, side_list, title } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

const pages = { 'port-groups': [W.portGroups, port_groups], uplinks: [W.uplinks, uplinks], hosts: [W.hosts, members] };

export function distributed_switch(store, name, [, page = 'port-groups']) {
  const dvs = store.data.dvs.find((each) => each.name === name);
  if (!dvs) return html`${title(name)}${box('warning', `The cluster has no distributed switch ${name}.`)}`;
  const links = Object.entries(pages).map(([key, [label]]) => [label, to('networking', name, 'configure', key), key === page]);
  return html`${title(name, button('Remove', () => remove_switch(dvs), store.cannot_edit))}
    ${facts([[W.version, dvs.version], [W.numberOfUplinks, dvs.uplinks.length]])}
    <div class="with-side">${side_list([[W.configure, links]])}
    <div class="side-content">${Object.hasOwn(pages, page) ? pages[page][1](store, dvs) : box('warning', `A switch has no page ${page}.`)}</div></div>`;
}

function port_groups(store, dvs) {
  const users = (group) => store.data.vms.filter((vm) => vm.adapter?.dvs === dvs.name && vm.adapter.portgroup === group.name);
  const columns = [
    { key: 'name', title: W.name, value: (group) => group.name },
    { key: 'vlan', title: W.vlanId, value: (group) => group.vlan || 'None' },
    { key: 'mtu', title: W.mtu, value: (group) => group.mtu, number: true },
    { key: 'native', title: 'Native endpoints', value: (group) => (group.native_endpoints ? group.native_peers.join(', ') || 'all' : 'not allowed') },
    { key: 'vms', title: W.vms, value: (group) => users(group).map((vm) => vm.name).join(', ') || 'none' },
  ];
  const actions = (group) => [[`${W.editPortGroup} of ${group.name}`, () => edit_port_group(dvs, group), store.cannot_edit],
                              [`Remove ${group.name}`, () => remove_port_group(dvs, group), store.cannot_edit]];
  const grid = table(`port-groups/${dvs.name}`, columns, { label: W.portGroups, key: (group) => group.name, actions, empty: 'No port group yet.' });
  const chosen = grid.chosen(dvs.portgroups);
  return html`${section(W.portGroups)}${grid.draw(dvs.portgroups, html`
    ${button(W.newPortGroup, () => new_port_group(dvs), store.cannot_edit)}
    ${chosen ? buttons(actions(chosen)) : ''}`)}`;
}

function uplinks(store, dvs) {
  const rows = dvs.members.flatMap((member) => dvs.uplinks.map((slot) => {
    const host = store.data.hosts.find((each) => each.name === member.host);
    const nic = host?.vmnics.find((each) => each.name === member.uplinks[slot]);
    return { host: member.host, slot, nic: member.uplinks[slot] ?? '', rdma: host?.rdma_devices.find((device) => device.paired_uplink === nic?.name)?.name ?? '', link: nic };
  }));
  const columns = [
    { key: 'host', title: W.host, value: (row) => row.host },
    { key: 'uplink', title: 'Uplink', value: (row) => row.slot },
    { key: 'nic', title: 'Physical adapter', value: (row) => row.nic || '--' },
    { key: 'link', title: 'Link', value: (row) => (row.link ? (row.link.link_up ? 'Up' : 'Down') : '--') },
    { key: 'rdma', title: W.rdma, value: (row) => row.rdma || '--' },
  ];
  return html`${section(W.uplinks)}${table(`uplinks/${dvs.name}`, columns, { label: W.uplinks, key: (row) => `${row.host}/${row.slot}`, empty: 'No host is a member.' }).draw(rows)}`;
}

function members(store, dvs) {
  const columns = [
    { key: 'host', title: W.host, value: (member) => member.host, cell: (member) => html`<a tabindex="-1" href=${to('hosts', member.host)}>${member.host}</a>` },
    { key: 'state', title: W.state, value: (member) => (alive(member) ? 'alive' : 'not alive'), cell: (member) => html`${dot(alive(member), store.live)} ${alive(member) ? 'alive' : 'not alive'}` },
    ...dvs.uplinks.map((slot) => ({ key: slot, title: slot, value: (member) => member.uplinks[slot] ?? '--' })),
  ];
  const alive = (member) => store.data.hosts.find((host) => host.name === member.host)?.alive ?? false;
  const actions = ({ host }) => [[`Manage ${host}`, () => manage_hosts(store, dvs, 'manage', [host]), store.cannot_edit]];
  const grid = table(`members/${dvs.name}`, columns, { label: W.hosts, key: (member) => member.host, actions, empty: 'No host is a member.' });
  const chosen = grid.chosen(dvs.members);
  return html`${section(W.hosts)}${grid.draw(dvs.members, html`
    ${button(W.addHosts, () => manage_hosts(store, dvs), store.cannot_edit)}
    ${chosen ? buttons(actions(chosen)) : ''}`)}`;
}
