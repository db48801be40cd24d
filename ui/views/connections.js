// Connections: which path each takes and why. First a summary by path and reason, as an adapter may have tens of thousands of QPs;
// then the QPs of one adapter.
import { html } from '../lit.js';
import { Rates } from '../rates.js';
import { rate } from '../format.js';
import { answer, section, title } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

const paths = { local: W.pathLocal, tcp: W.pathTcp, hca: W.pathHca, roce: W.pathRoce, none: W.pathNone };
export const path_word = (path) => paths[path || 'none'] ?? path;

const distinct = (list) => [...new Set(list)].sort();

// The connections with the same path and reason as one row.
export function summary_of(list) {
  const rows = new Map();
  for (const { path, reason, adapter, peer_host: peer } of list) {
    const key = `${path} ${reason}`;
    const row = rows.get(key) ?? { key, path, reason, count: 0, adapters: new Set(), peers: new Set() };
    row.count += 1;
    row.adapters.add(adapter);
    if (peer) row.peers.add(peer);
    rows.set(key, row);
  }
  return [...rows.values()].sort((a, b) => b.count - a.count);
}

const summary_columns = [
  { key: 'path', title: W.path, value: (row) => path_word(row.path), cell: (row) => html`<span class=${row.path === 'none' ? 'bad' : ''}>${path_word(row.path)}</span>` },
  { key: 'reason', title: W.reason, value: (row) => row.reason },
  { key: 'count', title: W.connections, value: (row) => row.count, number: true },
  { key: 'adapters', title: W.vms, value: (row) => [...row.adapters].sort().join(', ') },
  { key: 'peers', title: W.peerHosts, value: (row) => [...row.peers].sort().join(', ') || '--' },
];

export function connections(store, [adapter]) {
  if (adapter !== undefined) return of_adapter(store, adapter);
  return html`${title(W.connections)}${answer(store.detail('/v1/paths'), (list) => html`
    ${section(W.pathsAndReasons)}
    ${table('path-summary', summary_columns, { label: W.pathsAndReasons, key: (row) => row.key, empty: 'No QP of this host is connected.' }).draw(summary_of(list))}
    ${section(W.vms)}${by_adapter(store, list)}`)}`;
}

function by_adapter(store, list) {
  const connections = new Map(store.data.adapters.map(({ name }) => [name, []]));
  for (const each of list) connections.get(each.adapter)?.push(each);
  const rows = store.data.adapters.map(({ name, objects }) => {
    const own = connections.get(name);
    return { name, qps: objects.qps, connected: own.length, paths: distinct(own.map(({ path }) => path_word(path))).join(', ') };
  });
  const columns = [
    { key: 'name', title: W.name, value: (row) => row.name, cell: (row) => html`<a tabindex="-1" href=${to('connections', row.name)}>${row.name}</a>` },
    { key: 'qps', title: W.qps, value: (row) => row.qps, number: true },
    { key: 'connected', title: W.connections, value: (row) => row.connected, number: true },
    { key: 'paths', title: W.path, value: (row) => row.paths || '--' },
  ];
  return table('connections-by-vm', columns, { label: W.vms, key: (row) => row.name, open: (row) => to('connections', row.name),
    empty: 'This host serves no adapter.' }).draw(rows);
}

let rates = new Rates();
let rated = '';  // the adapter whose QPs `rates` has

const qp_columns = (rate_of) => [
  { key: 'qpn', title: W.qpn, value: (qp) => qp.qpn, number: true },
  { key: 'type', title: W.type, value: (qp) => qp.type },
  { key: 'state', title: W.state, value: (qp) => qp.state },
  { key: 'path', title: W.path, value: (qp) => (qp.remote_gid ? path_word(qp.path) : '--') },
  { key: 'reason', title: W.reason, value: (qp) => qp.path_reason || '--' },
  { key: 'peer', title: W.peerHost, value: (qp) => qp.peer_host || '--' },
  { key: 'local', title: W.localGid, value: (qp) => qp.local_gid || '--' },
  { key: 'remote', title: W.remoteGid, value: (qp) => qp.remote_gid || '--' },
  { key: 'remote_qpn', title: W.remoteQpn, value: (qp) => (qp.remote_gid ? qp.remote_qpn : '--'), number: true },
  { key: 'rate', title: W.throughput, value: (qp) => rate_of(qp) ?? '', cell: (qp) => rate(rate_of(qp)), number: true },
  { key: 'retransmits', title: W.retransmits, value: (qp) => qp.retransmits, number: true },
];

function of_adapter(store, adapter) {
  const detail = store.detail(`/v1/qps?adapter=${encodeURIComponent(adapter)}`);
  if (rated !== adapter) {
    rates = new Rates();
    rated = adapter;
  }
  for (const qp of detail.value ?? []) rates.update(qp.qpn, qp.tx_bytes + qp.rx_bytes, detail.at_ms);
  return html`${title(`${W.connections} of ${adapter}`)}${answer(detail, (list) =>
    table(`qps/${adapter}`, qp_columns((qp) => rates.newest(qp.qpn)), { label: W.connections, key: (qp) => qp.qpn, empty: `${adapter} has no QP on this host.` }).draw(list))}`;
}
