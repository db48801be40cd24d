// Injects faults into what an adapter sends, and removes them.
import { html } from '../lit.js';
import { show } from '../dialog.js';
import { select, text } from '../fields.js';
import { quoted } from '../format.js';
import { W } from '../words.js';

export const kinds = { drop: 'a message is lost', duplicate: 'it comes twice', delay: 'it is late, and so are all messages after it',
                       reorder: 'it is late, and later messages overtake it', corrupt: 'it is damaged, and lost from there on' };

export const title_of = (kind) => kind[0].toUpperCase() + kind.slice(1);

// What is no number is sent as it was typed, so that the daemon refuses it at its field.
export const number = (typed) => (/^\d+(\.\d+)?$/.test(typed) ? Number(typed) : typed);

export const filled = (values) => Object.entries(values).map(([name, value]) => [name, value.trim()]).filter(([name, value]) => name !== 'adapter' && value !== '');

export const inject_faults = (store, adapter = store.data.adapters[0]?.name ?? '') => show({
  title: W.injectFaults,
  target: adapter,
  of_host: true,
  values: { adapter, ...Object.fromEntries(Object.keys(kinds).map((kind) => [kind, ''])), late_ms: '', seed: '' },
  body: (dialog) => html`
    <p>For tests: messages that the adapter sends meet these faults, each by its probability from 0 to 1, until they are removed.</p>
    ${select(dialog, 'adapter', W.adapter, store.data.adapters.map((each) => [each.name, each.name]))}
    ${Object.entries(kinds).map(([kind, what]) => text(dialog, kind, title_of(kind), { placeholder: '0', note: what }))}
    ${text(dialog, 'late_ms', 'Late (ms)', { placeholder: '1', note: 'how late at most' })}
    ${text(dialog, 'seed', 'Seed', { placeholder: 'random', note: 'the same seed gives the same faults' })}`,
  edits: (values) => [{ method: 'POST', path: '/v1/faults', at: 'adapter',
                        body: { adapter: values.adapter, ...Object.fromEntries(filled(values).map(([name, typed]) => [name, number(typed)])) } }],
  commands: (values) => [`pvrdmactl fault add --adapter ${quoted(values.adapter)}${filled(values).map(([name, typed]) => ` --${name.replace('_', '-')} ${quoted(typed)}`).join('')}`],
});

// fault: one of them; undefined: all of this host.
export const remove_fault = (fault) => show({
  title: fault ? `Remove fault ${fault.id}` : 'Remove all faults',
  target: fault ? fault.adapter : W.faults,
  ok: 'Remove',
  danger: true,
  of_host: true,
  values: {},
  body: () => html`<p>${fault ? `Removes the faults of ${fault.adapter}.` : 'Removes all faults of this host.'} Messages that are late come now.</p>`,
  edits: () => [{ method: 'DELETE', path: `/v1/faults/${fault ? fault.id : 'all'}` }],
  commands: () => [`pvrdmactl fault remove ${fault ? fault.id : '--all'}`],
});
