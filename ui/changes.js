// What a batch of edits changes, as sentences and a table for each object.
import { html } from './lit.js';

const kinds = { dvs: 'distributed switch', host: 'host', vm: 'VM' };
const verbs = { added: 'Adds', changed: 'Changes', removed: 'Removes' };

// A member's value: null means that it does not exist, and an empty object or list that nothing is in it.
export function shown(value) {
  if (value === null) return '--';
  if (Array.isArray(value)) return value.map(shown).join(', ') || 'none';
  if (typeof value === 'object') return 'yes';
  return value === '' ? 'none' : String(value);
}

const members = (change) => html`<table class="table changes"><thead><tr><th class="left" scope="col">Member</th>
    ${change.change === 'added' ? '' : html`<th class="left" scope="col">Before</th>`}<th class="left" scope="col">${change.change === 'added' ? 'Value' : 'After'}</th></tr></thead>
  <tbody>${change.members.map((member) => html`<tr><th class="left" scope="row">${member.member.replaceAll('/', ' › ')}</th>
    ${change.change === 'added' ? '' : html`<td class="left">${shown(member.before)}</td>`}<td class="left">${shown(member.after)}</td></tr>`)}</tbody></table>`;

export const changes_of = (changes) => (changes.length === 0 ? html`<p>Nothing changes: the configuration is like that already.</p>`
  : changes.map((change) => html`<p>${verbs[change.change]} the ${kinds[change.kind]} ${change.name}</p>
    ${change.members.length ? members(change) : ''}`));
