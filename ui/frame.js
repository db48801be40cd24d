// The frame of every view: header with live state, tree, alerts, the view itself, recent tasks.
import { html, nothing } from './lit.js';
import * as dialog from './dialog.js';
import { token } from './api.js';
import { timeOfDay } from './format.js';
import { letters_off, pages, set_letters_off } from './keys.js';
import { box, dot, title } from './parts.js';
import { to } from './route.js';
import { found } from './search.js';
import { change_theme } from './theme.js';
import { tree } from './tree.js';
import { about } from './views/about.js';
import { captures } from './views/captures.js';
import { connections } from './views/connections.js';
import { events } from './views/events.js';
import { fault_bar, faults } from './views/faults.js';
import { home } from './views/home.js';
import { host } from './views/host.js';
import { hosts } from './views/hosts.js';
import { login } from './views/login.js';
import { motions } from './views/motions.js';
import { distributed_switch } from './views/switch.js';
import { topology } from './views/topology.js';
import { networking } from './views/networking.js';
import { vm } from './views/vm.js';
import { vms } from './views/vms.js';
import { W } from './words.js';

const views = {
  home: (store) => home(store),
  hosts: (store, [name, ...rest]) => (name ? host(store, name, rest) : hosts(store)),
  networking: (store, [name, ...rest]) => (name ? distributed_switch(store, name, rest) : networking(store)),
  vms: (store, [name, ...rest]) => (name ? vm(store, name, rest) : vms(store)),
  motions: (store) => motions(store),
  captures: (store) => captures(store),
  faults: (store) => faults(store),
  connections: (store, rest) => connections(store, rest),
  topology: (store, rest, changed) => topology(store, changed),
  events: (store, rest, changed) => events(store, changed, rest),
  about: (store) => about(store),
};

const kNotShown = 'This view needs what the daemon does not say: the page and the daemon are of different versions. Load the page again, or use pvrdmactl.';

export function frame(store, page, changed) {
  if (store.login) return html`${header(store, page, changed)}<main class="alone">${login(store, changed)}</main>`;
  return html`<a class="skip" href="#content" @click=${skip}>Skip to the content</a>
    ${header(store, page, changed)}
    <div class="columns ${store.data && !store.live ? 'old' : ''}">
      ${tree(store, page.route)}
      <main id="content" tabindex="-1">${alerts(store)}${page.help ? help(changed) : nothing}${view(store, page.route, changed)}</main>
    </div>
    ${tasks(store)}
    ${dialog.draw()}`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById('content').focus();
}

function view(store, [kind = 'home', ...rest], changed) {
  if (store.data === null) {
    return html`<p class="empty">${store.trouble ? 'Nothing has arrived yet. The page tries again by itself.' : 'Loading…'}</p>`;
  }
  if (!Object.hasOwn(views, kind)) return html`${title('No such page')}${box('warning', `The page has no view #/${kind}.`)}`;
  try {
    return html`${views[kind](store, rest, changed)}${events_of(store, kind, rest[0])}`;
  } catch (error) {
    console.error(error);
    return html`${title(W[kind])}${box('danger', kNotShown)}`;
  }
}

// The way from an object's page to its events.
function events_of(store, kind, name) {
  const event_kind = { hosts: 'host', vms: 'vm', networking: 'dvs' }[kind];
  if (!store.has('events') || !event_kind || name === undefined) return nothing;
  return html`<p><a href=${to('events', event_kind, name)}>${W.events} of ${name}</a></p>`;
}

function alerts(store) {
  const trouble = store.data?.cluster?.store.connected === false ? store.data.cluster.store.trouble : '';
  return html`
    ${store.trouble ? html`<div role="status">${box('danger', store.trouble)}</div>` : nothing}
    ${store.outside ? box('info', store.outside) : nothing}
    ${fault_bar(store)}
    ${trouble ? html`<div role="status">${box('danger', `The store is away: ${trouble} Nothing can be changed until it is back.`)}</div>` : nothing}`;
}

function search(store, page, changed) {
  const matches = page.search ? found(store.data, page.search) : [];
  return html`<div class="search" role="search">
    <input id="search" type="search" placeholder="Search hosts, VMs, switches, MACs, GIDs" aria-label="Search" .value=${page.search}
      @input=${(event) => { page.search = event.target.value; changed(); }}
      @keydown=${(event) => event.key === 'Enter' && open_first(store, event.target.value)}>
    ${page.search ? html`<ul class="popup results">${matches.map((match) => html`<li><a href=${match.address}>${match.text}</a></li>`)}
      ${matches.length === 0 ? html`<li>Nothing has this name or address.</li>` : nothing}</ul>` : nothing}
  </div>`;
}

function header(store, page, changed) {
  return html`<header class="top">
    <a class="brand" href=${to('home')}>pvrdma</a>
    ${store.login ? nothing : search(store, page, changed)}
    <span class="live" id="live">${live_state(store)}</span>
    ${store.data && !store.login ? html`<span class="role">${token.get() ? (store.data.version.role === 'read-only' ? 'Read-only' : 'Administrator') : 'local'}</span>` : nothing}
    <button class="icon" aria-label="Change the theme" title="Theme" @click=${change_theme}>◐</button>
    ${store.login ? nothing : html`<button class="icon" aria-label="Help" title="Help" aria-expanded=${page.help} @click=${() => { page.help = !page.help; changed(); }}>?</button>`}
    ${token.get() && !store.login ? html`<button class="icon" aria-label="Log out" title="Log out" @click=${() => { token.forget(); location.reload(); }}>⎋</button>` : nothing}
  </header>`;
}

// Of what is typed now, which may not be drawn yet.
function open_first(store, text) {
  const [first] = found(store.data, text);
  if (first) location.hash = first.address;
}

function live_state(store) {
  if (store.login) return 'not logged in';
  if (store.data === null) return store.trouble ? '✕ no answer yet' : 'connecting…';
  if (!store.live) return html`✕ no updates since ${timeOfDay(store.at_ms)}`;
  return html`${dot(true)} ${store.data.version.host || 'pvrdmad'} live ${Math.round((Date.now() - store.at_ms) / 1000)} s`;
}

const help = (changed) => html`<section class="help" aria-label="Help">
  <h2 class="section-title">Keys</h2>
  <p><kbd>/</kbd> search · <kbd>?</kbd> this help · <kbd>g</kbd> then ${Object.entries(pages).map(([letter, [, name]], at) => html`${at ? ', ' : ''}<span class="word"><kbd>${letter}</kbd> ${name}</span>`)} ·
    in a table: arrows, PageUp, PageDown, Home, End, Enter, <span class="word"><kbd>.</kbd> actions of the chosen row</span></p>
  <p>Filter of a table: words in any column, or <code>column:word</code>.</p>
  <label><input type="checkbox" .checked=${letters_off()} @change=${(event) => { set_letters_off(event.target.checked); changed(); }}>
    Switch single letters off</label></section>`;

function tasks(store) {
  const recent = [...store.tasks, ...store.motions.list].sort((a, b) => b.at_ms - a.at_ms);
  return html`<footer class="tasks" aria-label=${W.recentTasks}>
  <span class="tasks-title">${W.recentTasks}:</span>
  ${recent.length === 0 ? 'none yet' : recent.slice(0, 3).map((task) => html`<span class="task" title=${task.trouble ?? nothing}>${timeOfDay(task.at_ms)} ${task.title} · ${task.target} ·
    <span class="label ${task.state === 'refused' ? 'label-danger' : task.state === 'done' ? 'label-success' : 'label-info'}">${task.state}</span></span>`)}
  ${store.has('events') ? html`<a class="about-link" href=${to('events')}>${W.events}</a>` : nothing}
  <a class="about-link" href=${to('about')}>About</a></footer>`;
}
