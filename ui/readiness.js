// The steps of the deployment guide, judged from the store: for each step a line with one cell a host.
//
// A cell has a state (yes, no, unknown), a text, and perhaps what mends it: a label, what its button runs, and why it cannot, if that
// is not what keeps all edits from being made.
import { Daemon } from './daemon.js';
import { edit_advanced } from './dialogs/advanced.js';
import { edit_firewall } from './dialogs/firewall.js';
import { measure } from './dialogs/hca_check.js';
import { new_vm } from './dialogs/new_vm.js';
import { new_switch } from './dialogs/switch.js';
import { manage_hosts } from './dialogs/switch_hosts.js';
import { edit_port_group, new_port_group } from './dialogs/port_group.js';
import { add_vmkernel } from './dialogs/vmkernel.js';
import { count } from './format.js';
import { path_word } from './views/connections.js';
import { mend_of } from './vm_actions.js';
import { W } from './words.js';

const yes = (text = '') => ({ state: 'yes', text });
const no = (text, label, run) => ({ state: 'no', text, mend: label ? { label, run } : undefined });
const unknown = (text) => ({ state: 'unknown', text });
const with_mend = (result, mend) => ({ ...result, mend });

export function lines(store) {
  const { data } = store;
  const { hosts } = data;
  const dvs = data.dvs[0];
  const grouped = data.dvs.filter((each) => each.portgroups.length > 0);
  const each_host = (judge) => hosts.map((host) => judge(host));
  return [
    {
      title: `${W.distributedSwitches.replace(/es$/, '')} with a port group`,
      cells: each_host(() => (grouped.length ? yes(grouped.map((each) => `${each.name} / ${each.portgroups[0].name}`).join(', ')) : no(dvs ? 'no port group' : 'no switch'))),
      mend: grouped.length ? undefined : dvs ? { label: W.newPortGroup, run: () => new_port_group(dvs) } : { label: W.newSwitch, run: () => new_switch() },
    },
    { title: 'Host is a member, uplink assigned', cells: each_host((host) => member(store, host)) },
    { title: 'VMkernel adapter tagged for PVRDMA', cells: each_host((host) => tagged(store, host)) },
    { title: 'Firewall rule pvrdma enabled', cells: each_host((host) => admitted(store, host)) },
    { title: 'Hosts reach each other', cells: each_host((host) => reached(store, host)) },
    { title: 'VM: PVRDMA adapter, all memory reserved', cells: each_host((host) => vms_ready(store, host)), mend: { label: W.newVm, run: () => new_vm(store) } },
    { title: 'Powered on, driver active, connections', cells: each_host((host) => active(store, host)) },
    { title: 'Optional: RDMA NICs (path hca)', cells: each_host((host) => hca(store, host)) },
    { title: 'Optional: native endpoints', cells: each_host((host) => native(store, host)) },
  ];
}

function member(store, host) {
  const { dvs } = store.data;
  const found = dvs.flatMap((each) => each.members.filter((one) => one.host === host.name).map((one) => [each, one]));
  if (found.length === 0) return dvs.length ? no('not a member', W.addHost, () => manage_hosts(store, dvs[0], 'add', [host.name])) : unknown('needs step 1');
  const [[of]] = found;
  const nics = found.flatMap(([, each]) => Object.values(each.uplinks)).filter(Boolean);
  return nics.length ? yes(nics.join(', ')) : no('no uplink', W.manageHost, () => manage_hosts(store, of, 'manage', [host.name]));
}

function tagged(store, host) {
  if (host.pvrdma_vmknic) return yes(host.pvrdma_vmknic);
  return host.vmks.length ? no('Net.PVRDMAVmknic is empty', W.edit, () => edit_advanced(host)) : no('no VMkernel adapter', W.addNetworking, () => add_vmkernel(store, host));
}

function admitted(store, host) {
  if (!host.firewall) return yes('the firewall is disabled');
  if (!host.ruleset.enabled) return no('disabled', W.edit, () => edit_firewall(store, host));
  return yes(host.ruleset.allow_all ? 'any IP address' : `only ${host.ruleset.allowed.join(', ') || 'nobody'}`);
}

function reached(store, host) {
  const { cluster, hosts } = store.data;
  if (hosts.length < 2) return unknown('a single host');
  if (!host.alive) return no('the host is not alive');
  if (host.self) {
    const { listening, trouble } = cluster.tcp;
    return listening ? yes('listens') : unknown(trouble || 'needs steps 3 and 4');
  }
  const peer = cluster.tcp.peers.find((each) => each.host === host.name);
  if (!peer) return unknown('needs steps 3 and 4');
  return peer.lanes_up > 0 ? yes(`${peer.lanes_up} lanes`) : no(peer.trouble || 'no lane is up');
}

function vms_ready(store, host) {
  const own = store.data.vms.filter((vm) => vm.host === host.name && vm.adapter);
  if (own.length === 0) return unknown('no VM with an adapter');
  const refused = own.find((vm) => vm.power_on_refusal);
  return refused ? with_mend(no(refused.power_on_refusal), mend_of(store, refused, refused.power_on_refusal)) : yes(own.map((vm) => vm.name).join(', '));
}

// The host's adapters, as its own daemon tells them; none while that is not known here.
function adapters_of(store, host) {
  const daemon = new Daemon(store, host);
  return (daemon.trouble ? undefined : daemon.adapters.value) ?? [];
}

function active(store, host) {
  const own = store.data.vms.filter((vm) => vm.host === host.name && vm.adapter);
  if (own.length === 0) return unknown('needs step 6');
  if (!host.alive) return unknown('the host is not alive');
  const states = own.map((vm) => {
    const adapter = adapters_of(store, host).find((each) => each.name === vm.name);
    return { name: vm.name, text: adapter ? adapter.state : `powered ${vm.power}`, good: adapter ? adapter.state === 'active' : vm.power === 'on' };
  });
  const counts = counts_by_path(store, host);
  const text = states.map((state) => [`${state.name} ${state.text}`, ...path_texts(counts.get(state.name))].join(', ')).join('; ');
  return states.some((state) => state.good) ? yes(text) : unknown(text);
}

// By adapter of the host: how many connections it has by each path. Empty while that is not known here.
function counts_by_path(store, host) {
  const counts = new Map();
  for (const { adapter, path, connections } of new Daemon(store, host).known('/v1/paths/summary') ?? []) {
    const paths = counts.get(adapter) ?? {};
    paths[path] = (paths[path] ?? 0) + connections;
    counts.set(adapter, paths);
  }
  return counts;
}

const path_texts = (paths = {}) => Object.entries(paths).map(([path, many]) => (path === 'none' ? `${count(many)} without a path` : `${count(many)} × ${path_word(path)}`));

// Daemons measure for their own page only.
function hca(store, host) {
  if (!host.self) return host.rdma_devices.some((device) => device.active) ? yes(host.rdma_devices.map((device) => device.name).join(', ')) : unknown('no active RDMA device');
  const { device, trouble } = store.data.cluster.hca;
  return with_mend(device ? yes(device) : unknown(trouble || 'no active RDMA device'), { label: W.measure, run: () => measure(device), why: store.cannot_act });
}

function native(store, host) {
  if (new Daemon(store, host).trouble) return unknown(`only ${host.name} knows`);
  const adapters = adapters_of(store, host);
  const states = [...new Set(adapters.map((adapter) => adapter.native_endpoints))];
  if (states.includes('on')) return yes('on');
  return with_mend(unknown(states.join('; ') || 'no adapter'), adapters.map((adapter) => allowing(store, adapter)).find(Boolean));
}

// What lets the adapter's port group allow native endpoints; undefined: it allows them.
function allowing(store, { name }) {
  const place = store.data.vms.find((vm) => vm.name === name)?.adapter;
  const dvs = store.data.dvs.find((each) => each.name === place?.dvs);
  const group = dvs?.portgroups.find((each) => each.name === place.portgroup);
  return group && !group.native_endpoints ? { label: W.edit, run: () => edit_port_group(dvs, group) } : undefined;
}
