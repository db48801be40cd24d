// Cancels a motion, which asks once.
import { html } from '../lit.js';
import { show } from '../dialog.js';
import { quoted } from '../format.js';
import { W } from '../words.js';

export const cancel_motion = (motion) => show({
  title: `Cancel the motion of ${motion.vm}`,
  target: motion.vm,
  ok: 'Cancel motion',
  cancel: W.close,
  danger: true,
  values: {},
  body: () => html`<p>${motion.vm} stays on ${motion.from}, unless it is on ${motion.to} already by then.</p>`,
  edits: () => [{ method: 'DELETE', path: `/v1/vms/${encodeURIComponent(motion.vm)}/motion` }],
  commands: () => [`pvrdmactl vm migrate ${quoted(motion.vm)} --cancel`],
});
