// New Distributed Port Group, Edit Settings of one, and its removal.
import { html } from '../lit.js';
import { lines as command_lines, show } from '../dialog.js';
import { lines, select, text, tick } from '../fields.js';
import { quoted } from '../format.js';
import { show_wizard } from '../wizard.js';
import { W } from '../words.js';

const listed = (words) => words.split(/[\s,]+/).filter(Boolean);
const path = (dvs, name) => `/v1/dvs/${encodeURIComponent(dvs.name)}/portgroups/${encodeURIComponent(name)}`;

export const vlan_fields = (dialog) => html`
  ${select(dialog, 'vlan_type', W.vlanType, [['none', 'None'], ['vlan', 'VLAN']])}
  ${dialog.values.vlan_type === 'vlan' ? text(dialog, 'vlan', W.vlanId, { type: 'number', min: 1, max: 4094, required: true }) : ''}`;

export const vlan_of = ({ vlan_type: type, vlan }) => (type === 'vlan' ? vlan : 0);

export const mtu_field = (dialog) => text(dialog, 'mtu', W.mtu, { type: 'number', min: 1280, max: 9000, required: true, note: 'bytes of the longest packet, 1280 to 9000' });

// `group`: the port group's name. What a host's bridge needs is printed by the command line only.
const native_fields = (dialog, dvs, group) => html`<fieldset><legend>${W.nativeEndpoints}</legend>
  ${tick(dialog, 'native_endpoints', 'Allow native endpoints', { note: 'Machines that are not VMs of the cluster. Port groups of one VLAN share this; with the profile esxi a VM needs hardware version 18.' })}
  ${lines(dialog, 'native_peers', 'Peers', { disabled: !dialog.values.native_endpoints, note: 'addresses and networks, one a line; empty: all' })}
  ${dialog.values.native_endpoints ? html`<p>Each host needs rules at its bridge, too. This line prints them, with the host, its bridge and the VMs' taps in place of these:</p>
    ${command_lines([`pvrdmactl dvs roce-rules ${quoted(dvs.name)} HOST --portgroup ${quoted(group)} --bridge br0 --taps VM-01=tap1`])}` : ''}</fieldset>`;

const native = (values) => ({ native_endpoints: values.native_endpoints, native_peers: values.native_endpoints ? listed(values.native_peers) : [] });
const native_words = (values) => ` --native-endpoints ${values.native_endpoints ? 'on' : 'off'} --native-peers ${values.native_endpoints ? listed(values.native_peers).join(',') || 'any' : 'any'}`;

const group_edit = (dvs, values, settings) => [{ method: 'PUT', path: path(dvs, values.name), body: settings, at: 'name' }];

export const new_port_group = (dvs) => show_wizard({
  title: W.newPortGroup,
  target: dvs.name,
  values: { name: 'DPortGroup', vlan_type: 'none', vlan: 1, mtu: 1500, native_endpoints: false, native_peers: '' },
  steps: [
    { title: W.nameAndLocation, edits: (values) => group_edit(dvs, values, {}), body: (dialog) => html`
      ${text(dialog, 'name', W.name, { required: true })}<p>The port group belongs to ${dvs.name}.</p>` },
    { title: W.configureSettings, body: (dialog) => html`${vlan_fields(dialog)}${mtu_field(dialog)}${native_fields(dialog, dvs, dialog.values.name)}` },
  ],
  edits: (values) => group_edit(dvs, values, { vlan: vlan_of(values), mtu: values.mtu, ...native(values) }),
  commands: (values) => [`pvrdmactl dvs portgroup add ${dvs.name} ${quoted(values.name)} --vlan ${vlan_of(values)} --mtu ${values.mtu}${values.native_endpoints ? native_words(values) : ''}`],
});

export const edit_port_group = (dvs, group) => show({
  title: `${W.editPortGroup} of ${group.name}`,
  target: dvs.name,
  values: { mtu: group.mtu, native_endpoints: group.native_endpoints, native_peers: group.native_peers.join('\n') },
  body: (dialog) => html`
    <p>${W.vlanId}: ${group.vlan || 'None'}. The VLAN of a port group stays as it is.</p>
    ${mtu_field(dialog)}${native_fields(dialog, dvs, group.name)}`,
  edits: (values) => [{ method: 'PATCH', path: path(dvs, group.name), body: { mtu: values.mtu, ...native(values) } }],
  commands: (values) => [`pvrdmactl dvs portgroup set ${dvs.name} ${group.name} --mtu ${values.mtu}${native_words(values)}`],
});

export const remove_port_group = (dvs, group) => show({
  title: `Remove ${group.name}`,
  target: dvs.name,
  ok: 'Remove',
  danger: true,
  values: {},
  body: () => html`<p>Removes the port group ${group.name} of ${dvs.name}.</p>`,
  edits: () => [{ method: 'DELETE', path: path(dvs, group.name) }],
  commands: () => [`pvrdmactl dvs portgroup remove ${dvs.name} ${group.name}`],
});
