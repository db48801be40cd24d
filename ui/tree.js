// The tree on the left: hosts, VMs, switches.
import { html, nothing } from './lit.js';
import { dot, power_dot } from './parts.js';
import { to } from './route.js';
import { W } from './words.js';

const kShown = 200;  // of each kind; the pages list all

function branch(title, kind, objects, route, sign) {
  return html`<li><a href=${to(kind)} class=${route[0] === kind && !route[1] ? 'active' : ''}>${title}</a>
    ${objects.length === 0 ? nothing : html`<ul>${objects.slice(0, kShown).map((object) => html`<li><a class=${route[0] === kind && route[1] === object.name ? 'active' : ''} title=${object.name}
      href=${to(kind, object.name)}>${sign(object)}${object.name}</a></li>`)}
      ${objects.length > kShown ? html`<li><a href=${to(kind)}>${objects.length - kShown} more</a></li>` : nothing}</ul>`}</li>`;
}

export function tree(store, route) {
  const { hosts, vms, dvs } = store.data ?? { hosts: [], vms: [], dvs: [] };
  return html`<nav class="tree" aria-label="Inventory"><ul>
    <li><a href=${to('home')} class=${route.length === 0 || route[0] === 'home' ? 'active' : ''}>${W.home}</a></li>
    ${branch(W.hosts, 'hosts', hosts, route, (host) => dot(host.alive, store.live))}
    ${branch(W.vms, 'vms', vms, route, (vm) => power_dot(vm.power === 'on', store.live))}
    ${branch(W.networking, 'networking', dvs, route, () => nothing)}
    ${['connections', 'topology', 'motions', 'captures', 'faults', ...(store.has('events') ? ['events'] : [])].map((page) =>
      html`<li><a href=${to(page)} class=${route[0] === page ? 'active' : ''}>${W[page]}</a></li>`)}
  </ul></nav>`;
}
