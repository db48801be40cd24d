// Measures an RDMA NIC of this host. The newest result stays until the page is loaded again.
import { html } from '../lit.js';
import { show } from '../dialog.js';
import { text } from '../fields.js';
import { quoted } from '../format.js';
import { W } from '../words.js';

const kMeasureMs = 120000;

export let measured = null;  // {at_ms, check}; null: nothing was measured by this page

const wish = ({ device, memory_mib }) => ({ ...(device ? { device } : {}), memory_mib });

export const measure = (device) => show({
  title: `${W.measure}: ${W.hca}`,
  target: device || W.hca,
  ok: W.measure,
  of_host: true,
  values: { device, memory_mib: 256 },
  body: (dialog) => html`
    <p>The daemon sends to itself and reads from itself through the NIC, for some seconds. That takes bandwidth from other traffic.</p>
    ${text(dialog, 'device', W.device, { note: 'as libibverbs calls it; empty: the only one' })}
    ${text(dialog, 'memory_mib', 'Memory to register (MiB)', { type: 'number', required: true })}`,
  edits: (values) => [{ method: 'POST', path: '/v1/hca/check', body: wish(values), patience_ms: kMeasureMs }],
  commands: ({ device: name, memory_mib }) => [`pvrdmactl hca check${name ? ` --device ${quoted(name)}` : ''} --memory ${memory_mib}`],
  done: (_, check) => { measured = { at_ms: Date.now(), check }; },
});
