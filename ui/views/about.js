// About: versions, and the licences of what the page contains.
import { html } from '../lit.js';
import { licences } from '../licences.js';
import { facts, section, title } from '../parts.js';

export const about = (store) => html`${title('About')}
  ${facts([['pvrdmad', store.data.version.version], ['API', store.data.version.api], ['Host', store.data.version.host ?? '--'],
           ['Role', store.data.version.role], ['Features', store.data.version.features.join(', ') || 'none']])}
  ${section('Third-party software in this page')}
  ${licences.map((each) => html`<details><summary>${each.name} ${each.version}, ${each.licence}: ${each.use}</summary><pre class="code" tabindex="0">${each.text}</pre></details>`)}`;
