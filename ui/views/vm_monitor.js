// VM > Monitor: the rates of its adapter, what it sends by which path, its captures and faults, its counters.
import { html } from '../lit.js';
import { new_capture } from '../dialogs/capture.js';
import { inject_faults } from '../dialogs/fault.js';
import { bytes, count, percent } from '../format.js';
import { answer, bar, button, facts, section } from '../parts.js';
import { to } from '../route.js';
import { W } from '../words.js';
import { path_word } from './connections.js';
import { adapter_counters, adapter_rates } from './vm_rates.js';

// The adapter as the daemon of its host tells it.
export function vm_monitor(store, daemon, adapter) {
  const why = daemon.cannot_act;
  const stats = daemon.detail(`/v1/stats?adapter=${encodeURIComponent(adapter.name)}`);
  const { name, ...groups } = stats.value?.adapters[0] ?? {};
  if (name !== undefined) daemon.note(adapter, groups, stats.at_ms);
  const paths = Object.entries(adapter.paths);
  const all = paths.reduce((sum, [, use]) => sum + use.payload_bytes, 0);
  return html`${section(W.rates)}${adapter_rates(daemon, adapter)}
    ${section('Sent by path')}
    ${facts(paths.map(([path, use]) => [path_word(path), html`${bar(use.payload_bytes, all)}${percent(use.payload_bytes, all)}: ${count(use.messages)} messages, ${bytes(use.payload_bytes)}`]))}
    ${section(W.capture)}
    <p>${button(W.capture, () => new_capture(store, adapter.name), why)} <a href=${to('captures')}>All captures</a></p>
    ${store.has('faults') ? html`${section(W.faults)}
      <p>${button(W.injectFaults, () => inject_faults(store, adapter.name), why)} <a href=${to('faults')}>All faults</a></p>` : ''}
    ${section(W.counters)}${answer(stats, () => adapter_counters(daemon, adapter, groups, stats.at_ms))}`;
}
