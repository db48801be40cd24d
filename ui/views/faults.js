// Faults that are injected into what this host's adapters send, and the bar that every page has while there is one.
import { html, nothing } from '../lit.js';
import { inject_faults, kinds, remove_fault, title_of } from '../dialogs/fault.js';
import { count } from '../format.js';
import { answer, box, button, buttons, title } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

const kPath = '/v1/faults';

// The counter of what a kind has met.
const met = { drop: 'dropped', duplicate: 'duplicated', delay: 'delayed', reorder: 'reordered', corrupt: 'corrupted' };

const columns = [
  { key: 'id', title: 'ID', value: (fault) => fault.id, number: true },
  { key: 'adapter', title: W.adapter, value: (fault) => fault.adapter, cell: (fault) => html`<a tabindex="-1" href=${to('vms', fault.adapter)}>${fault.adapter}</a>` },
  ...Object.keys(kinds).map((kind) => ({ key: kind, title: title_of(kind), value: (fault) => fault[kind],
                                         cell: (fault) => (fault[kind] ? `${fault[kind]}, met ${count(fault.counts[met[kind]])}` : '--') })),
  { key: 'late', title: 'Late (ms)', value: (fault) => fault.late_ms, number: true },
  { key: 'seed', title: 'Seed', value: (fault) => fault.seed, number: true },
  { key: 'messages', title: 'Messages', value: (fault) => fault.counts.messages, cell: (fault) => count(fault.counts.messages), number: true },
];

export function faults(store) {
  if (!store.has('faults')) {
    return html`${title(W.faults)}${box('info', 'This daemon injects no faults: pvrdmad.toml has no fault_injection = true.')}`;
  }
  return html`${title(W.faults)}
    <p class="empty">Each column has the probability, and how many messages the fault has met.</p>
    ${answer(store.detail(kPath), (list) => {
      const actions = (fault) => [[`Remove fault ${fault.id}`, () => remove_fault(fault), '', store.cannot_act !== '']];
      const grid = table('faults', columns, { label: W.faults, key: (fault) => fault.id, actions, empty: 'No fault is injected.' });
      const chosen = grid.chosen(list);
      return grid.draw(list, html`${button(W.injectFaults, () => inject_faults(store), store.cannot_act_on_adapters)}
        ${chosen ? html`${buttons(actions(chosen))}
          ${button('Remove all', () => remove_fault(), '', store.cannot_act !== '')}` : ''}`);
    })}`;
}

export function fault_bar(store) {
  if (!store.has('faults')) return nothing;
  const list = store.detail(kPath).value ?? [];
  if (list.length === 0) return nothing;
  return html`<div id="fault-bar">${box('warning', html`Faults are injected into what these adapters send:
    ${list.map((fault, at) => html`${at ? ', ' : ''}<a href=${to('vms', fault.adapter)}>${fault.adapter}</a>`)}. Messages are lost, late or damaged on purpose: see <a href=${to('faults')}>${W.faults}</a>.`)}</div>`;
}
