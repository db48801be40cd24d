// Add and Manage Hosts of a distributed switch: members, their uplinks, and their VMkernel adapters.
//
// The values of a host's fields have its name as prefix: "esx-01:uplink1".
import { html, nothing } from '../lit.js';
import { radios, select, text, tick } from '../fields.js';
import { quoted } from '../format.js';
import { show_wizard } from '../wizard.js';
import { W } from '../words.js';
import { tag_command, tag_edit } from './advanced.js';
import { next_free_vmk, vmkernel_command, vmkernel_edit } from './vmkernel.js';

const path = (dvs, host) => `/v1/dvs/${encodeURIComponent(dvs.name)}/hosts/${encodeURIComponent(host)}`;
const key = (host, name) => `${host}:${name}`;
const member_of = (dvs, host) => dvs.members.find((member) => member.host === host);
const assigned = (dvs, host, slot) => member_of(dvs, host)?.uplinks[slot] ?? '';

// Hosts that the task can be about.
const candidates = (hosts, dvs, task) => hosts.map((host) => host.name).filter((name) => (task === 'add') === (member_of(dvs, name) === undefined));
const chosen = (hosts, dvs, values) => candidates(hosts, dvs, values.task).filter((name) => values[key(name, 'chosen')]);

// [[uplink, NIC]]: all NICs that go are taken first, for another NIC may be refused beside them.
export function uplink_changes(dvs, host, values) {
  const wanted = (slot) => values[key(host, slot)] ?? '';
  const old = (slot) => assigned(dvs, host, slot);
  const changed = dvs.uplinks.filter((slot) => wanted(slot) !== old(slot));
  return [...changed.filter(old).map((slot) => [slot, '']), ...changed.filter(wanted).map((slot) => [slot, wanted(slot)])];
}

const member_edits = (hosts, dvs, values) => (values.task === 'manage' ? [] : chosen(hosts, dvs, values)
  .map((host) => ({ method: values.task === 'add' ? 'PUT' : 'DELETE', path: path(dvs, host), ...(values.task === 'add' ? { body: {} } : {}), at: key(host, 'chosen') })));

const uplink_edits = (hosts, dvs, values) => (values.task === 'remove' ? [] : chosen(hosts, dvs, values).flatMap((host) => uplink_changes(dvs, host, values)
  .map(([slot, vmnic]) => ({ method: 'PUT', path: `${path(dvs, host)}/uplinks/${encodeURIComponent(slot)}`, body: { vmnic }, at: key(host, slot) }))));

// Hosts that get a VMkernel adapter: those with an address.
const with_address = (hosts, dvs, values) => (values.task === 'remove' ? [] : chosen(hosts, dvs, values).filter((host) => values[key(host, 'address')]));

const vmkernel_edits = (hosts, dvs, values) => with_address(hosts, dvs, values).flatMap((host) => [
  { ...vmkernel_edit(host, values[key(host, 'device')], values[key(host, 'address')]), fields: { name: key(host, 'device'), address: key(host, 'address') } },
  ...(values[key(host, 'tagged')] ? [tag_edit(host, values[key(host, 'device')])] : [])]);

function commands(hosts, dvs, values) {
  const names = chosen(hosts, dvs, values);
  if (values.task === 'remove') return names.map((host) => `pvrdmactl dvs remove-host ${dvs.name} ${host}`);
  return [...(values.task === 'add' ? names.map((host) => `pvrdmactl dvs add-host ${dvs.name} ${host}`) : []),
          ...names.flatMap((host) => uplink_changes(dvs, host, values).map(([slot, vmnic]) => `pvrdmactl dvs uplink set ${dvs.name} ${host} ${slot} ${vmnic || '--none'}`)),
          ...with_address(hosts, dvs, values).flatMap((host) => [vmkernel_command(host, values[key(host, 'device')], values[key(host, 'address')]),
            ...(values[key(host, 'tagged')] ? [tag_command(host, values[key(host, 'device')])] : [])])];
}

function each_host(hosts, dvs, dialog, draw) {
  const names = chosen(hosts, dvs, dialog.values);
  return names.length ? hosts.filter((host) => names.includes(host.name)).map((host) => html`<fieldset><legend>${host.name}</legend>${draw(host)}</fieldset>`) : html`<p>No host is chosen.</p>`;
}

const uplink_fields = (dialog, dvs, host) => dvs.uplinks.map((slot) => select(dialog, key(host.name, slot), slot,
  [['', 'none'], ...host.vmnics.map((nic) => [nic.name, `${nic.name} (${nic.netdev}, ${nic.description || nic.mac})`])]));

const vmkernel_fields = (dialog, host) => html`
  ${host.vmks.length ? html`<p>Present: ${host.vmks.map((vmk) => `${vmk.name} (${vmk.address}${vmk.tagged ? ', used for PVRDMA' : ''})`).join(', ')}</p>` : nothing}
  ${text(dialog, key(host.name, 'device'), W.device, { required: Boolean(dialog.values[key(host.name, 'address')]) })}
  ${text(dialog, key(host.name, 'address'), W.ipAddress, { note: 'An address that the host has already, so there is no mask and no DHCP to set; empty: no new VMkernel adapter.' })}
  ${tick(dialog, key(host.name, 'tagged'), W.useForPvrdma, { note: 'sets Net.PVRDMAVmknic' })}`;

// task: add, manage or remove; picked: names of hosts that are chosen already. With them the wizard begins after
// their choice. It is about the hosts that are known when it opens.
export function manage_hosts(store, dvs, task = 'add', picked = []) {
  const { hosts } = store.data;
  const start = {};
  for (const host of hosts) {
    for (const slot of dvs.uplinks) start[key(host.name, slot)] = assigned(dvs, host.name, slot);
    Object.assign(start, { [key(host.name, 'chosen')]: picked.includes(host.name), [key(host.name, 'device')]: next_free_vmk(host),
                           [key(host.name, 'address')]: '', [key(host.name, 'tagged')]: !host.pvrdma_vmknic });
  }
  const removes = (values) => values.task === 'remove';
  const members = (values) => member_edits(hosts, dvs, values);
  const uplinks = (values) => uplink_edits(hosts, dvs, values);
  const edits = (values) => [...members(values), ...uplinks(values), ...vmkernel_edits(hosts, dvs, values)];
  show_wizard({
    title: `${W.addHosts}: ${dvs.name}`,
    target: dvs.name,
    values: { ...start, task },
    at: picked.length ? 2 : 0,
    steps: [
      { title: W.selectTask, edits: () => [], body: (dialog) => radios(dialog, 'task', `What to do with ${dvs.name}`, [['add', W.taskAdd], ['manage', W.taskManage], ['remove', W.taskRemove]]) },
      { title: W.selectHosts, edits: members, body: (dialog) => {
        const names = candidates(hosts, dvs, dialog.values.task);
        return names.length ? names.map((name) => tick(dialog, key(name, 'chosen'), name))
          : html`<p>${dialog.values.task === 'add' ? 'All hosts are members already.' : 'No host is a member.'}</p>`;
      } },
      { title: W.managePhysical, skip: removes, edits: (values) => [...members(values), ...uplinks(values)], body: (dialog) => html`
        <p>A physical adapter that is paired with an RDMA device must be the only uplink of its host.</p>
        ${each_host(hosts, dvs, dialog, (host) => uplink_fields(dialog, dvs, host))}` },
      { title: W.manageVmkernel, skip: removes, body: (dialog) => each_host(hosts, dvs, dialog, (host) => vmkernel_fields(dialog, host)) },
    ],
    edits,
    commands: (values) => commands(hosts, dvs, values),
  });
}
