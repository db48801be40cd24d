// Hosts of the cluster.
import { html } from '../lit.js';
import { host_actions } from '../dialogs/host.js';
import { dot, title } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

export function hosts(store) {
  const { data } = store;
  const peers = new Map((data.cluster?.tcp.peers ?? []).map((peer) => [peer.host, peer]));
  const up = (host) => (host.self ? '--' : peers.has(host.name) ? `${peers.get(host.name).lanes_up} lanes` : 'none');
  const columns = [
    { key: 'name', title: W.name, value: (host) => host.name, cell: (host) => html`<a tabindex="-1" href=${to('hosts', host.name)}>${host.name}</a>` },
    { key: 'state', title: W.state, value: (host) => (host.alive ? 'alive' : 'not alive'), cell: (host) => html`${dot(host.alive, store.live)} ${host.alive ? 'alive' : 'not alive'}` },
    { key: 'version', title: W.version, value: (host) => host.version || '--' },
    { key: 'vms', title: W.vms, value: (host) => data.vms.filter((vm) => vm.host === host.name).length, number: true },
    { key: 'vmknic', title: 'PVRDMA VMkernel adapter', value: (host) => host.pvrdma_vmknic || '--' },
    { key: 'firewall', title: 'Firewall pvrdma', value: (host) => (host.ruleset.enabled ? 'enabled' : 'disabled') },
    { key: 'rdma', title: 'RDMA devices', value: (host) => (host.alive ? host.rdma_devices.length : '--'), number: true },
    { key: 'peers', title: 'Connected to this host', value: up },
  ];
  return html`${title(W.hosts)}
    ${table('hosts', columns, { label: W.hosts, key: (host) => host.name, open: (host) => to('hosts', host.name),
      actions: (host) => host_actions(store, host), empty: store.outside || 'No host has joined yet.' }).draw(data.hosts)}`;
}
