// Native endpoints: machines that are not VMs of the cluster, which port groups allow them, and this host's connections to them.
import { html } from '../lit.js';
import { answer, facts, section } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

const groups = [
  { key: 'group', title: 'Port group', value: (row) => row.group.name,
    cell: (row) => html`<a tabindex="-1" href=${to('networking', row.dvs.name, 'configure', 'port-groups')}>${row.group.name}</a>` },
  { key: 'switch', title: W.switch, value: (row) => row.dvs.name },
  { key: 'vlan', title: W.vlanId, value: (row) => row.group.vlan || 'None' },
  { key: 'allowed', title: W.nativeEndpoints, value: (row) => (row.group.native_endpoints ? 'allowed' : 'not allowed') },
  { key: 'peers', title: 'Peers', value: (row) => (row.group.native_endpoints ? row.group.native_peers.join(', ') || 'all' : '--') },
];

const connections = [
  { key: 'qpn', title: W.qpn, value: (qp) => qp.qpn, number: true },
  { key: 'type', title: W.type, value: (qp) => qp.type },
  { key: 'state', title: W.state, value: (qp) => qp.state },
  { key: 'local', title: W.localGid, value: (qp) => qp.local_gid },
  { key: 'remote', title: W.remoteGid, value: (qp) => qp.remote_gid },
  { key: 'remote_qpn', title: W.remoteQpn, value: (qp) => qp.remote_qpn, number: true },
  { key: 'sent', title: 'Sent', value: (qp) => qp.tx_messages, number: true },
  { key: 'received', title: 'Received', value: (qp) => qp.rx_messages, number: true },
  { key: 'retransmits', title: W.retransmits, value: (qp) => qp.retransmits, number: true },
  { key: 'reason', title: W.reason, value: (qp) => qp.path_reason },
];

export function native_endpoints(store, daemon) {
  const stats = daemon.detail('/v1/stats');
  const refused = (name) => stats.value?.adapters.find((each) => each.name === name)?.port.dropped_native_refused ?? '--';
  const columns = [
    { key: 'adapter', title: W.adapter, value: (adapter) => adapter.name, cell: (adapter) => html`<a tabindex="-1" href=${to('vms', adapter.name)}>${adapter.name}</a>` },
    { key: 'state', title: W.nativeEndpoints, value: (adapter) => adapter.native_endpoints },
    { key: 'messages', title: 'Messages sent', value: (adapter) => adapter.paths.roce?.messages ?? 0, number: true },
    { key: 'refused', title: 'Dropped: not allowed', value: (adapter) => refused(adapter.name), number: true },
  ];
  const rows = store.data.dvs.flatMap((dvs) => dvs.portgroups.map((group) => ({ dvs, group })));
  const grid = table(`native-adapters/${daemon.name}`, columns, { label: 'Adapters', key: (adapter) => adapter.name, empty: 'This host serves no adapter.' });
  const chosen = grid.chosen(daemon.adapters.value ?? []);
  return html`${section(W.nativeEndpoints)}
    ${table('native-groups', groups, { label: W.portGroups, key: (row) => `${row.dvs.name}/${row.group.name}`, empty: 'No port group yet.' }).draw(rows)}
    ${section('Adapters of this host')}${answer(daemon.adapters, (adapters) => grid.draw(adapters))}
    ${chosen ? adapter_connections(daemon, chosen) : ''}
    ${section('Frames of this host')}
    ${answer(stats, ({ host }) => frames(host))}`;
}

// Asked for the chosen adapter only, and if it can have some: adapters may have tens of thousands of QPs.
const adapter_connections = (daemon, adapter) => html`<section class="detail" aria-label="Connections of ${adapter.name}">
  ${section(`Connections of ${adapter.name} to native endpoints`)}
  ${adapter.native_endpoints !== 'on' ? html`<p class="empty">No connection is possible: ${adapter.native_endpoints.replace(/^off: /, '')}.</p>` : answer(daemon.detail(`/v1/qps?adapter=${encodeURIComponent(adapter.name)}&path=roce`), (qps) => table('native-connections', connections,
    { label: `Connections of ${adapter.name}`, key: (qp) => qp.qpn, empty: `${adapter.name} has no connection to a native endpoint.` }).draw(qps))}</section>`;

const frames = ({ roce, roce_dropped: dropped }) => (roce ? facts([
  ['Sent', `${roce.sent_pkts} frames`], ['Received', `${roce.rcvd_pkts} frames`], ['Repeated', roce.repeated], ['Out of sequence', roce.out_of_sequence],
  ['Dropped', Object.entries(dropped ?? {}).filter(([, count]) => count > 0).map(([why, count]) => `${count} ${why.replaceAll('_', ' ')}`).join(', ') || 'none']])
  : html`<p class="empty">This host has no RoCE link: pvrdmad.toml has no [[roce]].</p>`);
