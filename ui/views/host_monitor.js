// Host > Monitor: what the host's daemon alone knows. Another host's page has to be asked for the other host.
import { html } from '../lit.js';
import { box, side_list } from '../parts.js';
import { to } from '../route.js';
import { W } from '../words.js';
import { budgets } from './budgets.js';
import { hca } from './hca.js';
import { native_endpoints } from './native.js';
import { neighbours } from './neighbours.js';

const pages = { budgets: [W.budgets, budgets], neighbours: [W.neighbours, neighbours], hca: [W.hca, hca], native: [W.nativeEndpoints, native_endpoints] };

export function monitor(store, host, page = 'budgets') {
  const links = Object.entries(pages).map(([key, [label]]) => [label, to('hosts', host.name, 'monitor', key), key === page]);
  return html`<div class="with-side">${side_list([[W.monitor, links]], W.monitor)}<div class="side-content">${content(store, host, page)}</div></div>`;
}

function content(store, host, page) {
  if (!Object.hasOwn(pages, page)) return box('warning', `A host has no page ${page}.`);
  return host.self ? pages[page][1](store) : box('info', `${host.name} knows this itself: open the page of its own daemon.`);
}
