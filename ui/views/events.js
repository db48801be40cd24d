// Events: what happened to the objects of the host that answers.
import { html, nothing } from '../lit.js';
import { dateAndTime } from '../format.js';
import { box, title } from '../parts.js';
import { go, to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

const kLevels = ['info', 'warn', 'error'];
const levels = { info: W.levelInfo, warn: W.levelWarning, error: W.levelError };
const colours = { info: '', warn: 'caution', error: 'warn' };
const signs = { info: 'ℹ', warn: '▲', error: '✕' };
const pages = { vm: 'vms', host: 'hosts', dvs: 'networking' };

let least = 'info';  // the level from which on events are shown

const target = ({ kind, object }) => (object === '' ? 'daemon' : object);

function target_link(store, event) {
  const there = { vm: 'vms', host: 'hosts', dvs: 'dvs' }[event.kind];
  if (!there || !store.data[there].some(({ name }) => name === event.object)) return target(event);
  return html`<a tabindex="-1" href=${to(pages[event.kind], event.object)}>${event.object}</a>`;
}

const columns = (store) => [
  { key: 'time', title: W.dateTime, value: (event) => dateAndTime(event.at_ms) },
  { key: 'level', title: W.level, value: (event) => levels[event.level], cell: (event) => html`<span class=${colours[event.level]}><span aria-hidden="true">${
    signs[event.level]}</span> ${levels[event.level]}</span>` },
  { key: 'type', title: W.type, value: (event) => event.type },
  { key: 'text', title: W.description, value: (event) => event.text },
  { key: 'target', title: W.target, value: target, cell: (event) => target_link(store, event) },
  { key: 'initiator', title: W.initiator, value: (event) => event.initiator || '--' },
];

// `kind` and `name` are an object's; without them the events of all objects are shown.
export function events(store, changed, [kind, name]) {
  const { feed } = store;
  if (!store.has('events')) return html`${title(W.events)}${box('info', 'This daemon is older than its page and tells no events.')}`;
  if (!feed.loaded && !feed.trouble) feed.read().then(changed);
  feed.drawn = true;
  const rows = feed.events.filter((event) => kLevels.indexOf(event.level) >= kLevels.indexOf(least) &&
    (kind === undefined || (event.kind === kind && (name === undefined || event.object === name)))).reverse();
  const grid = table('events', columns(store), { label: W.events, key: (event) => event.sequence,
    empty: feed.loaded ? 'No event of these.' : 'Loading…' });
  return html`${title(kind === undefined ? W.events : `${W.events}: ${name ?? kind}`)}
    <p class="empty">${store.data.version.host ? `Events that the daemon of ${store.data.version.host} has noted. The pages of other hosts show theirs.` : 'Events of this daemon.'}</p>
    ${feed.trouble ? html`<div role="status">${box('danger', feed.trouble)}</div>` : nothing}
    ${feed.lost ? box('info', `${feed.lost} earlier events are no longer held: the daemon keeps the newest ones.`) : nothing}
    ${grid.draw(rows, [level_choice(changed), object_choice(feed, kind, name)])}`;
}

const level_choice = (changed) => html`<label class="choice">${W.level}
  <span class="clr-select-wrapper"><select class="clr-select" id="events-level" @change=${(event) => { least = event.target.value; changed(); }}>
    ${kLevels.map((level) => html`<option value=${level} .selected=${level === least}>${
      level === 'info' ? 'all' : level === 'error' ? levels.error : `${levels.warn}, ${levels.error}`}</option>`)}</select></span></label>`;

// Objects that have events, and the one that is chosen.
function object_choice(feed, kind, name) {
  const chosen = kind === undefined ? '' : `${kind}/${name ?? ''}`;
  const objects = new Set(feed.events.map((event) => `${event.kind}/${event.object}`));
  if (chosen) objects.add(chosen);
  const shown = (object) => object.replace(/\/$/, '').replace('/', ' ');
  return html`<label class="choice">${W.target}
    <span class="clr-select-wrapper"><select class="clr-select" id="events-object" @change=${(event) => go('events', ...event.target.value.split('/').filter(Boolean))}>
      <option value="" .selected=${chosen === ''}>all</option>
      ${[...objects].sort().map((object) => html`<option value=${object} .selected=${object === chosen}>${shown(object)}</option>`)}</select></span></label>`;
}
