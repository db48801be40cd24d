// Budgets: what each adapter may use of the host, and who is busy.
import { html } from '../lit.js';
import { Growth } from '../growth.js';
import { count, ms, percent, rate } from '../format.js';
import { answer, bar, box, facts, section } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

const kNearly = 0.9;
// Rates first: they say who is busy.
const names = { doorbells_per_s: 'Doorbells/s', commands_per_s: 'Commands/s', qps: W.qps, cqs: W.cqs, srqs: W.srqs, mrs: W.mrs, registered_mib: 'Registered MiB',
                rings_mib: 'Rings MiB', mapped_mib: 'Mapped MiB', mappings: 'Mappings', native_connections: 'Native connections' };
// Also those of a newer daemon, by the daemon's names.
const ordered = (budgets) => [...Object.keys(names).filter((name) => name in budgets), ...Object.keys(budgets).filter((name) => !(name in names))];
const label_of = (name) => names[name] ?? name;

const refusals = new Growth();
const key_of = (owner, name) => `${owner}/${name}`;  // the owner: an adapter, or a host with a slash

const is_short = (owner, name, { use, limit }) => use > kNearly * limit || refusals.is_recent(key_of(owner, name), Date.now());

// Rates refuse nothing: what exceeds one waits.
const text_of = (name, { use, limit, refused }) => `${count(use)} of ${count(limit)}${refused ? `, ${name.endsWith('_per_s') ? 'waited' : 'refused'} ${count(refused)} times` : ''}`;

const cell = (owner, name, budget) => html`${bar(budget.use, budget.limit)}${
  is_short(owner, name, budget) ? html`<span class="warn">▲ ${text_of(name, budget)}</span>` : text_of(name, budget)}`;

export function budgets(store, daemon) {
  return html`${section('Budgets: limits and who is busy')}
    ${answer(daemon.detail('/v1/budgets'), (told) => draw(daemon, told))}
    ${answer(daemon.detail('/v1/stats'), ({ host }) => busy(host.shard))}`;
}

function draw(daemon, { adapters, totals }) {
  const total_owner = `${daemon.name}/`;
  const known = ordered(adapters[0]?.budgets ?? {});
  const told = [...adapters.map((adapter) => [adapter.name, adapter.budgets]), [total_owner, totals]];
  refusals.update(told.flatMap(([owner, of_it]) => Object.entries(of_it).map(([name, { refused }]) => [key_of(owner, name), refused])), Date.now());
  const { value: served = [], at_ms } = daemon.adapters;
  const rates = new Map(served.map((adapter) => [adapter.name, daemon.rate_of(adapter, at_ms)]));
  const rate_of = ({ name }) => rates.get(name);
  const columns = [
    { key: 'adapter', title: W.adapter, value: (row) => row.name, cell: (row) => html`<a tabindex="-1" href=${to('vms', row.name, 'monitor')}>${row.name}</a>` },
    { key: 'rate', title: W.throughput, value: (row) => rate_of(row) ?? '', cell: (row) => rate(rate_of(row)), number: true },
    ...known.map((name) => ({ key: name, title: label_of(name), value: (row) => row.budgets[name].use, cell: (row) => cell(row.name, name, row.budgets[name]) })),
  ];
  const grid = table('budgets', columns, { label: W.budgets, key: (row) => row.name, empty: 'This host serves no adapter.' });
  if (grid.sort_key === null) Object.assign(grid, { sort_key: 'doorbells_per_s', descending: true });
  const tight = adapters.flatMap((adapter) => known.filter((name) => is_short(adapter.name, name, adapter.budgets[name])).map((name) => `${adapter.name}: ${label_of(name)}`));
  return html`${tight.length ? box('warning', `▲ Nearly used up, or exceeded within the last minute: ${tight.join(', ')}`) : ''}
    ${grid.draw(adapters)}
    ${section('All adapters together')}
    ${facts(ordered(totals).map((name) => [label_of(name), html`${cell(total_owner, name, totals[name])} (${percent(totals[name].use, totals[name].limit)})`]))}`;
}

// A long turn keeps all adapters waiting.
const busy = (shard) => html`${section('The thread that serves the adapters')}
  ${facts([['Turns', count(shard.turns)], ['Sleeps', count(shard.sleeps)], ['Tasks', count(shard.tasks)],
           ['Turns of 10 ms or longer', `${count(shard.long_turns)}, together ${ms(shard.long_turns_us)}, ${ms(shard.long_turns_cpu_us)} of it on a processor`]])}`;
