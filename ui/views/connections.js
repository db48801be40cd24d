// Connections: which path each takes and why. First a summary by path and reason, then the QPs of one adapter by pages, as an
// adapter may have tens of thousands of them.
import { own_daemon } from '../daemon.js';
import { html, nothing } from '../lit.js';
import { message_rate, Rates, throughput, traffic_of } from '../rates.js';
import { frequency, rate } from '../format.js';
import { answer, button, section, title } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

const paths = { local: W.pathLocal, tcp: W.pathTcp, hca: W.pathHca, roce: W.pathRoce, none: W.pathNone };
export const path_word = (path) => paths[path || 'none'] ?? path;

const distinct = (list) => [...new Set(list)].sort();

// Those with the same path and reason as one row. list: as GET /v1/paths/summary answers.
export function summary_of(list) {
  const rows = new Map();
  for (const { path, reason, adapter, peer_host: peer, connections: count } of list) {
    const key = `${path} ${reason}`;
    const row = rows.get(key) ?? { key, path, reason, count: 0, adapters: new Set(), peers: new Set() };
    row.count += count;
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

// Of the host that serves this page.
export const connections = (store, [adapter]) =>
  connections_of(own_daemon(store), adapter, (...rest) => to('connections', ...rest), title);

// Of the host of `daemon`, or of one of its adapters. `to_part` makes addresses below this view's, `heading` its heading.
export function connections_of(daemon, adapter, to_part, heading) {
  if (adapter !== undefined) return of_adapter(daemon, adapter, heading);
  return html`${heading(W.connections)}${answer(daemon.detail('/v1/paths/summary'), (list) => html`
    ${section(W.pathsAndReasons)}
    ${table('path-summary', summary_columns, { label: W.pathsAndReasons, key: (row) => row.key, empty: 'No QP of this host is connected.' }).draw(summary_of(list))}
    ${section(W.vms)}${answer(daemon.adapters, (adapters) => by_adapter(adapters, list, to_part))}`)}`;
}

function by_adapter(adapters, list, to_part) {
  const rows = adapters.map(({ name, objects }) => {
    const own = list.filter((each) => each.adapter === name);
    return { name, qps: objects.qps, connected: own.reduce((sum, each) => sum + each.connections, 0), paths: distinct(own.map(({ path }) => path_word(path))).join(', ') };
  });
  const columns = [
    { key: 'name', title: W.name, value: (row) => row.name, cell: (row) => html`<a tabindex="-1" href=${to_part(row.name)}>${row.name}</a>` },
    { key: 'qps', title: W.qps, value: (row) => row.qps, number: true },
    { key: 'connected', title: W.connections, value: (row) => row.connected, number: true },
    { key: 'paths', title: W.path, value: (row) => row.paths || '--' },
  ];
  return table('connections-by-vm', columns, { label: W.vms, key: (row) => row.name, open: (row) => to_part(row.name),
    empty: 'This host serves no adapter.' }).draw(rows);
}

let rates = new Rates();
let rated = '';  // the host and adapter whose QPs `rates` has

const qp_columns = (bits_of, messages_of) => [
  { key: 'qpn', title: W.qpn, value: (qp) => qp.qpn, number: true },
  { key: 'type', title: W.type, value: (qp) => qp.type },
  { key: 'state', title: W.state, value: (qp) => qp.state },
  { key: 'path', title: W.path, value: (qp) => (qp.remote_gid ? path_word(qp.path) : '--') },
  { key: 'reason', title: W.reason, value: (qp) => qp.path_reason || '--' },
  { key: 'peer', title: W.peerHost, value: (qp) => qp.peer_host || '--' },
  { key: 'local', title: W.localGid, value: (qp) => qp.local_gid || '--' },
  { key: 'remote', title: W.remoteGid, value: (qp) => qp.remote_gid || '--' },
  { key: 'remote_qpn', title: W.remoteQpn, value: (qp) => (qp.remote_gid ? qp.remote_qpn : '--'), number: true },
  { key: 'messages', title: W.messagesPerSecond, value: (qp) => messages_of(qp) ?? '', cell: (qp) => frequency(messages_of(qp)), number: true },
  { key: 'rate', title: W.throughput, value: (qp) => bits_of(qp) ?? '', cell: (qp) => rate(bits_of(qp)), number: true },
  { key: 'retransmits', title: W.retransmits, value: (qp) => qp.retransmits, number: true },
];

const kPage = 1000;  // QPs
let starts = [0];    // the QPNs after which the pages up to the one that is shown begin
let shown_path = '';

function of_adapter(daemon, adapter, heading) {
  const name = `${daemon.name}/${adapter}`;
  if (rated !== name) {
    rates = new Rates();
    rated = name;
    starts = [0];
    shown_path = '';
  }
  const detail = daemon.detail(`/v1/qps?adapter=${encodeURIComponent(adapter)}&path=${shown_path}&after=${starts.at(-1)}&limit=${kPage}`);
  for (const qp of detail.value ?? []) rates.update(qp.qpn, traffic_of(qp), detail.at_ms);
  const columns = qp_columns((qp) => throughput(rates.newest(qp.qpn)), (qp) => message_rate(rates.newest(qp.qpn)));
  const grid = table(`qps/${name}`, columns, { label: W.connections, key: (qp) => qp.qpn, empty: `${adapter} has no such QP.` });
  const go = (to_starts, path = shown_path) => {
    starts = to_starts;
    shown_path = path;
    grid.begin_again();
  };
  return html`${heading(`${W.connections} of ${adapter}`)}
    <div class="table-tools">${path_choice((path) => go([0], path))}${pages_of(detail.value, go)}</div>
    ${answer(detail, (list) => grid.draw(list))}`;
}

const path_choice = (choose) => html`<label class="choice">${W.path}
  <span class="clr-select-wrapper"><select class="clr-select" id="qps-path" @change=${(event) => choose(event.target.value)}>
    <option value="" .selected=${shown_path === ''}>all QPs</option>
    ${Object.keys(paths).map((path) => html`<option value=${path} .selected=${path === shown_path}>${path_word(path)}</option>`)}</select></span></label>`;

// `list`: the page that is shown; undefined: it has not arrived.
function pages_of(list, go) {
  if (starts.length === 1 && (list?.length ?? 0) < kPage) return nothing;
  const first = (starts.length - 1) * kPage + 1;
  const here = list === undefined ? 'Loading…' : list.length === 0 ? 'No more' : `${first} to ${first + list.length - 1}, by QPN`;
  return html`${button('Previous page', () => go(starts.slice(0, -1)), '', starts.length === 1)}
    ${button('Next page', () => go([...starts, list.at(-1).qpn]), '', (list?.length ?? 0) < kPage)} <span class="reason">${here}</span>`;
}
