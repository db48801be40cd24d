// New Distributed Switch, its hosts and their uplinks, and its removal.
import { html, nothing } from '../lit.js';
import { select, show, text, tick } from '../dialog.js';
import { quoted } from '../format.js';
import { W } from '../words.js';
import { mtu_field, vlan_fields, vlan_of } from './port_group.js';

const kVersions = ['8.0.0', '7.0.3', '7.0.2', '7.0.0', '6.6.0', '6.5.0'];
const path = (name) => `/v1/dvs/${encodeURIComponent(name)}`;

export const new_switch = () => show({
  title: W.newSwitch,
  target: 'cluster',
  values: { name: 'DSwitch', version: kVersions[0], uplinks: 2, with_group: true, group: 'DPortGroup', vlan_type: 'none', vlan: 1, mtu: 1500 },
  body: (dialog) => html`
    ${text(dialog, 'name', W.name, { required: true })}
    ${select(dialog, 'version', W.version, kVersions.map((version) => [version, version]))}
    ${text(dialog, 'uplinks', W.numberOfUplinks, { type: 'number', min: 1, max: 32, required: true })}
    ${tick(dialog, 'with_group', W.defaultPortGroup)}
    ${dialog.values.with_group ? html`${text(dialog, 'group', W.portGroupName, { required: true })}${vlan_fields(dialog)}${mtu_field(dialog)}` : nothing}`,
  edits: (values) => [
    { method: 'POST', path: '/v1/dvs', body: { name: values.name, version: values.version, uplinks: values.uplinks } },
    ...(values.with_group ? [{ method: 'PUT', path: `${path(values.name)}/portgroups/${encodeURIComponent(values.group)}`, body: { vlan: vlan_of(values), mtu: values.mtu } }] : [])],
  commands: (values) => [
    `pvrdmactl dvs create ${quoted(values.name)} --version ${values.version} --uplinks ${values.uplinks}`,
    ...(values.with_group ? [`pvrdmactl dvs portgroup add ${quoted(values.name)} ${quoted(values.group)} --vlan ${vlan_of(values)} --mtu ${values.mtu}`] : [])],
  done: (values) => { location.hash = `#/networking/${encodeURIComponent(values.name)}`; },
});

export const remove_switch = (dvs) => show({
  title: `Remove ${dvs.name}`,
  target: 'cluster',
  ok: 'Remove',
  danger: true,
  values: {},
  body: () => html`<p>Removes the distributed switch ${dvs.name} with its ${dvs.portgroups.length} port groups.</p>`,
  edits: () => [{ method: 'DELETE', path: path(dvs.name) }],
  commands: () => [`pvrdmactl dvs delete ${dvs.name}`],
  done: () => { location.hash = '#/networking'; },
});

// One choice of NIC for each uplink of a host.
const uplink_fields = (dialog, store, dvs, host) => {
  const nics = store.data.hosts.find((each) => each.name === host)?.vmnics ?? [];
  return dvs.uplinks.map((slot) => select(dialog, slot, slot, [['', 'none'], ...nics.map((nic) => [nic.name, `${nic.name} (${nic.netdev}, ${nic.description || nic.mac})`])]));
};

// [[uplink, NIC]]: a NIC is taken from its old uplink before it gets another one.
function uplink_changes(dvs, values, old) {
  const changed = dvs.uplinks.filter((slot) => (values[slot] ?? '') !== (old[slot] ?? ''));
  const freed = changed.filter((slot) => old[slot] && changed.some((other) => values[other] === old[slot]));
  return [...freed.map((slot) => [slot, '']), ...changed.filter((slot) => values[slot] || !freed.includes(slot)).map((slot) => [slot, values[slot]])];
}

const uplink_edits = (dvs, host, values, old) => uplink_changes(dvs, values, old)
  .map(([slot, vmnic]) => ({ method: 'PUT', path: `${path(dvs.name)}/hosts/${encodeURIComponent(host)}/uplinks/${encodeURIComponent(slot)}`, body: { vmnic } }));

const uplink_commands = (dvs, host, values, old) => uplink_changes(dvs, values, old)
  .map(([slot, vmnic]) => `pvrdmactl dvs uplink set ${dvs.name} ${host} ${slot} ${vmnic || "''"}`);

export function add_host(store, dvs, hosts) {
  const none = Object.fromEntries(dvs.uplinks.map((slot) => [slot, '']));
  show({
    title: `${W.addHosts}: ${dvs.name}`,
    target: dvs.name,
    values: { host: hosts[0].name, ...none },
    body: (dialog) => html`
      ${select(dialog, 'host', W.host, hosts.map((host) => [host.name, host.name]))}
      <p>Physical adapters. One that is paired with an RDMA device must be the host's only uplink.</p>
      ${uplink_fields(dialog, store, dvs, dialog.values.host)}`,
    edits: (values) => [{ method: 'PUT', path: `${path(dvs.name)}/hosts/${encodeURIComponent(values.host)}`, body: {} }, ...uplink_edits(dvs, values.host, values, none)],
    commands: (values) => [`pvrdmactl dvs add-host ${dvs.name} ${values.host}`, ...uplink_commands(dvs, values.host, values, none)],
  });
}

export const edit_uplinks = (store, dvs, member) => show({
  title: `${W.addHosts}: ${member.host}`,
  target: dvs.name,
  values: { ...Object.fromEntries(dvs.uplinks.map((slot) => [slot, member.uplinks[slot] ?? ''])), leave: false },
  body: (dialog) => html`
    ${dialog.values.leave ? nothing : uplink_fields(dialog, store, dvs, member.host)}
    ${tick(dialog, 'leave', `Remove ${member.host} from ${dvs.name}`)}`,
  edits: (values) => (values.leave ? [{ method: 'DELETE', path: `${path(dvs.name)}/hosts/${encodeURIComponent(member.host)}` }]
                                   : uplink_edits(dvs, member.host, values, member.uplinks)),
  commands: (values) => (values.leave ? [`pvrdmactl dvs remove-host ${dvs.name} ${member.host}`] : uplink_commands(dvs, member.host, values, member.uplinks)),
});
