// VM > Monitor: what its adapter sends by which path, its captures and faults.
import { html } from '../lit.js';
import { new_capture } from '../dialogs/capture.js';
import { inject_faults } from '../dialogs/fault.js';
import { bytes, count, percent } from '../format.js';
import { bar, button, facts, section } from '../parts.js';
import { to } from '../route.js';
import { W } from '../words.js';
import { path_word } from './connections.js';

// `why`: why the adapter cannot be acted on; '': it can.
export function vm_monitor(store, adapter, why) {
  const paths = Object.entries(adapter.paths);
  const all = paths.reduce((sum, [, use]) => sum + use.payload_bytes, 0);
  return html`${section('Sent by path')}
    ${facts(paths.map(([path, use]) => [path_word(path), html`${bar(use.payload_bytes, all)}${percent(use.payload_bytes, all)}: ${count(use.messages)} messages, ${bytes(use.payload_bytes)}`]))}
    ${section(W.capture)}
    <p>${button(W.capture, () => new_capture(store, adapter.name), why)} <a href=${to('captures')}>All captures</a></p>
    ${store.has('faults') ? html`${section(W.faults)}
      <p>${button(W.injectFaults, () => inject_faults(store, adapter.name), why)} <a href=${to('faults')}>All faults</a></p>` : ''}`;
}
