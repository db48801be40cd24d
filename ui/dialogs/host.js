// What can be done with a host: the removal of one that is gone for good.
import { html } from '../lit.js';
import { show } from '../dialog.js';
import { quoted } from '../format.js';

const remove_host = ({ name }) => show({
  title: `Remove ${name}`,
  target: 'cluster',
  ok: 'Remove',
  danger: true,
  values: {},
  body: () => html`<p>The cluster forgets the host ${name}, whose daemon is gone for good. It must have no VM and be in no distributed switch.</p>`,
  edits: () => [{ method: 'DELETE', path: `/v1/hosts/${encodeURIComponent(name)}` }],
  commands: () => [`pvrdmactl host delete ${quoted(name)}`],
  done: () => { location.hash = '#/hosts'; },
});

// As buttons() takes them.
export const host_actions = (store, host) => (host.alive ? [] : [['Remove', () => remove_host(host), store.cannot_edit]]);
