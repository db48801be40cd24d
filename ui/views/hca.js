// HCA: the RDMA NIC as a path, VMs' memory that is registered with it, and what hosts lend each other through it.
import { html } from '../lit.js';
import { measure, measured } from '../dialogs/hca_check.js';
import { bytes, count, percent, timeOfDay } from '../format.js';
import { answer, bar, box, button, facts, section } from '../parts.js';
import { table } from '../table.js';
import { W } from '../words.js';

export const hca = (store, daemon) => answer(daemon.cluster, (told) => draw(store, daemon, told.hca));

function draw(store, daemon, { device, trouble, pinned_bytes: pinned, peers }) {
  return html`${section(W.hca)}
    ${trouble ? box('info', trouble) : ''}
    ${facts([[W.device, device || 'none'], ["VMs' memory registered with it", bytes(pinned)]])}
    <p>${button(W.measure, () => measure(device), daemon.cannot_act)}</p>
    ${measured && daemon.self ? result(measured) : ''}
    ${section('Registration')}
    ${answer(daemon.adapters, (adapters) =>
      table('hca-registration', registration, { label: 'Registration', key: (adapter) => adapter.name, empty: 'This host serves no adapter.' }).draw(adapters))}
    ${section('Other hosts with an HCA')}
    ${table('hca-peers', others, { label: 'Other hosts with an HCA', key: (peer) => peer.host, empty: 'No other host has an HCA that this host knows.' }).draw(peers)}
    ${section(W.loans)}
    ${answer(daemon.detail('/v1/stats'), ({ host }) => loans(host.hca))}`;
}

const registration = [
  { key: 'adapter', title: W.adapter, value: (adapter) => adapter.name },
  { key: 'memory', title: W.memory, value: (adapter) => adapter.memory_bytes, cell: (adapter) => bytes(adapter.memory_bytes), number: true },
  { key: 'registered', title: 'Registered', value: (adapter) => adapter.pinned_bytes,
    cell: (adapter) => html`${bar(adapter.pinned_bytes, adapter.memory_bytes)}${bytes(adapter.pinned_bytes)} (${percent(adapter.pinned_bytes, adapter.memory_bytes)})` },
  { key: 'trouble', title: 'Trouble', value: (adapter) => adapter.pinned_trouble || '--' },
];

const others = [
  { key: 'host', title: W.host, value: (peer) => peer.host },
  { key: 'state', title: W.state, value: (peer) => (peer.up ? 'up' : 'not up') },
  { key: 'falls', title: 'Falls', value: (peer) => peer.falls, number: true },
  { key: 'trouble', title: 'Trouble', value: (peer) => peer.trouble || '--' },
];

// Long payload is lent to the other host, which fetches it by itself.
const loans = (counters) => (counters ? facts([['Lent', `${counters.lent} times, ${bytes(counters.lent_bytes)}`],
  ['Fetched', `${counters.fetched} times, ${bytes(counters.fetched_bytes)}`], ['Stops', counters.bulk_stops]])
  : html`<p class="empty">This daemon counts no loans.</p>`);

const per_gib = (us) => `${(us / 1000).toFixed(1)} ms/GiB`;
const per_second = (count) => `${(count / 1e9).toFixed(3)} GB/s`;

const result = ({ at_ms: at, check }) => html`<section aria-label="Measured">
  ${section(`${check.device}, measured at ${timeOfDay(at)}`)}
  ${facts([[W.mtu, check.mtu], ['GIDs', check.gids.join(', ')], ['GID used', check.gid], ['Max QPs', count(check.max_qps)], ['Max work requests', count(check.max_work_requests)],
           ['Max SGEs', check.max_sges], ['Max CQEs', count(check.max_cqes)], ['Max MRs', count(check.max_regions)], ['Max MR size', bytes(check.max_region_bytes)],
           ['Max READs', check.max_reads], [`Register ${check.memory_mib} MiB, untouched`, per_gib(check.register_untouched_us)],
           ['Register again', per_gib(check.register_us)], ['Deregister', per_gib(check.deregister_us)],
           ['SEND 64 B', `${(check.sends / 1e6).toFixed(3)} million/s`], ['SEND 4 KiB', per_second(check.send_bytes)],
           ['READ 4 KiB', per_second(check.read_bytes)], ['READ 64 KiB', per_second(check.long_read_bytes)],
           ['READ 64 B, alone', `${(check.read_ns / 1000).toFixed(1)} µs`]])}</section>`;
