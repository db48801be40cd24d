// Host > Monitor: what the host's daemon alone knows.
import { Daemon } from '../daemon.js';
import { html } from '../lit.js';
import { box, section, side_list } from '../parts.js';
import { to } from '../route.js';
import { W } from '../words.js';
import { budgets } from './budgets.js';
import { connections_of } from './connections.js';
import { hca } from './hca.js';
import { native_endpoints } from './native.js';
import { neighbours } from './neighbours.js';

const pages = { budgets: [W.budgets, budgets], neighbours: [W.neighbours, neighbours], hca: [W.hca, hca], native: [W.nativeEndpoints, native_endpoints],
                connections: [W.connections, connections_on] };

export function monitor(store, host, [page = 'budgets', ...rest]) {
  const links = Object.entries(pages).map(([key, [label]]) => [label, to('hosts', host.name, 'monitor', key), key === page]);
  return html`<div class="with-side">${side_list([[W.monitor, links]], W.monitor)}<div class="side-content">${content(store, host, page, rest)}</div></div>`;
}

function content(store, host, page, rest) {
  if (!Object.hasOwn(pages, page)) return box('warning', `A host has no page ${page}.`);
  const daemon = new Daemon(store, host);
  return daemon.trouble ? box('info', daemon.trouble) : pages[page][1](store, daemon, rest);
}

function connections_on(store, daemon, [adapter]) {
  return connections_of(daemon, adapter, (...rest) => to('hosts', daemon.name, 'monitor', 'connections', ...rest), section);
}
