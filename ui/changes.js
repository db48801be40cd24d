// What a batch of edits changes, as sentences and a table for each object.
import { html } from './lit.js';
import { yes } from './format.js';
import { W } from './words.js';

const kinds = { dvs: 'distributed switch', host: 'host', vm: 'VM' };
const verbs = { added: 'Adds', changed: 'Changes', removed: 'Removes' };

// Members by the daemon's names. Those of a newer daemon keep its name.
const words = {
  adapter: 'PVRDMA adapter', addresses: 'Addresses', arrived_by: 'Arrived by', doorbells: 'Doorbells', dvs: W.switch, group: 'Group', hardware_version: W.compatibility,
  host: W.host, id: 'ID', mac: W.macAddress, members: W.hosts, memory_mib: `${W.memory} (MiB)`, memory_reserved_mib: `${W.reserved} (MiB)`, mtu: W.mtu,
  native_endpoints: W.nativeEndpoints, native_peers: 'Peers', owner: 'Owner', portgroup: W.network, portgroups: W.portGroups, profile: 'Profile',
  protocol: W.deviceProtocol, pvrdma_vmknic: 'Net.PVRDMAVmknic', ruleset: W.firewall, uplinks: W.uplinks, version: W.version, vlan: W.vlanId, vmks: W.vmkernelAdapters,
};
// How many parts after this one are people's names.
const named = { members: 2, portgroups: 1, vmks: 1 };

export function path_of(member) {
  const [first, ...rest] = member.split('/');
  return [words[first] ?? first, ...rest.map((part, at) => (at < (named[first] ?? 0) ? part : words[part] ?? part))].join(' › ');
}

// How other views show members' values.
const values = { addresses: (list) => list.join(', ') || 'any', hardware_version: (version) => `VM version ${version}`, native_peers: (list) => list.join(', ') || 'all',
                 protocol: (protocol) => `RoCE ${protocol}`, vlan: (vlan) => String(vlan || 'None') };

// The value of the member with this path.
export function value_of(member, value) {
  const name = member.split('/').at(-1);
  return value !== null && Object.hasOwn(values, name) ? values[name](value) : shown(value);
}

// A member's value: null means that it does not exist, and an empty object or list that nothing is in it.
export function shown(value) {
  if (value === null) return '--';
  if (Array.isArray(value)) return value.map(shown).join(', ') || 'none';
  if (typeof value === 'object') return 'yes';
  if (typeof value === 'boolean') return yes(value);
  return value === '' ? 'none' : String(value);
}

// A member that only holds others says nothing beside them, and nothing while it is empty. In an object that is `added`, a member
// without a text says nothing.
export const telling = (members, added = false) => members.filter(({ member, after }) => !(added && after === '') && (
  after === null || typeof after !== 'object' || Array.isArray(after) || !(member in named || members.some((other) => other.member.startsWith(`${member}/`)))));

const table_of = (change) => html`<table class="table changes"><thead><tr><th class="left" scope="col">Setting</th>
    ${change.change === 'added' ? '' : html`<th class="left" scope="col">Before</th>`}<th class="left" scope="col">${change.change === 'added' ? 'Value' : 'After'}</th></tr></thead>
  <tbody>${telling(change.members, change.change === 'added').map((member) => html`<tr><th class="left" scope="row">${path_of(member.member)}</th>
    ${change.change === 'added' ? '' : html`<td class="left">${value_of(member.member, member.before)}</td>`}<td class="left">${value_of(member.member, member.after)}</td></tr>`)}</tbody></table>`;

export const changes_of = (changes) => (changes.length === 0 ? html`<p>Nothing changes: the configuration is like that already.</p>`
  : changes.map((change) => html`<p>${verbs[change.change]} the ${kinds[change.kind]} ${change.name}</p>
    ${change.members.length ? table_of(change) : ''}`));
