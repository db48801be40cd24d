// The rates of a VM's adapter with their last five minutes, and its counters.
import { html } from '../lit.js';
import { count, frequency, rate } from '../format.js';
import { facts } from '../parts.js';
import { Rates } from '../rates.js';
import { sentence, sparkline, summary_of } from '../sparkline.js';
import { table } from '../table.js';
import { W } from '../words.js';

const bits = (bytes) => rate(bytes && 8 * bytes);
const lines = [['tx_bytes', W.sentThroughput, bits], ['rx_bytes', W.receivedThroughput, bits], ['tx_messages', W.sentMessages, frequency],
               ['rx_messages', W.receivedMessages, frequency], ['retransmits', W.retransmitsPerSecond, frequency]];

export function adapter_rates(daemon, adapter) {
  const now_ms = Date.now();
  return facts(lines.map(([name, label, format]) => [label, line(label, daemon.points(adapter, name, now_ms), now_ms, format)]));
}

function line(label, points, now_ms, format) {
  const summary = summary_of(points, now_ms);
  return html`${sparkline(points, now_ms, sentence(label, summary, format))}${format(summary.now)}
    ${summary.most > 0 ? html`<span class="reason">most\u00a0${format(summary.most)}</span>` : ''}`;
}

const columns = (rate_of) => [
  { key: 'group', title: 'Group', value: (row) => row.group },
  { key: 'name', title: W.name, value: (row) => row.name },
  { key: 'value', title: W.value, value: (row) => row.value, cell: (row) => count(row.value), number: true },
  { key: 'rate', title: W.perSecond, value: (row) => rate_of(row) ?? '', cell: (row) => frequency(rate_of(row)), number: true },
];

const rates = new Rates();

// groups: {group: {name: count}}, which an adapter has in the answer of GET /v1/stats at this moment.
export function adapter_counters(daemon, adapter, groups, at_ms) {
  const rows = Object.entries(groups).flatMap(([group, counters]) => Object.entries(counters).map(([name, value]) => ({ key: `${group}.${name}`, group, name, value })));
  const id = `${daemon.name}/${adapter.name}`;
  const grown = rates.update(id, Object.fromEntries(rows.map(({ key, value }) => [key, value])), at_ms);
  return table(`adapter-counters/${id}`, columns(({ key }) => grown?.[key]), { label: W.counters, key: (row) => row.key, empty: 'All counters are 0.' })
    .draw(rows.filter(({ value }) => value > 0));
}
