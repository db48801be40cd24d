// Topology: a drawing of the network, or the same as a table. Paths come from each host's daemon that can be asked. Boxes are links, so the keyboard reaches them; the box that has the
// focus or the pointer shows what is linked with it.
import { Daemon } from '../daemon.js';
import { html, nothing, svg } from '../lit.js';
import { box, button, title } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { drawn, kinds, linked_with, topology_of } from '../topology.js';
import { W } from '../words.js';
import { path_word } from './connections.js';

const kColumnPx = 190;
const kBoxWidthPx = 150;
const kBoxHeightPx = 36;
const kRowPx = 46;
const kTopPx = 28;
const titles = { vms: W.vms, 'port-groups': W.portGroups, switches: W.distributedSwitches, uplinks: W.uplinks, hosts: W.hosts };

let as_table = false;
let active = '';  // the box that has the focus or the pointer

export function topology(store, changed) {
  const asked = store.data.hosts.map((host) => new Daemon(store, host)).filter((daemon) => daemon.trouble === '').map((daemon) => [daemon.name, daemon.detail('/v1/paths/summary')]);
  const shown = topology_of(store.data, new Map(asked.map(([name, { value }]) => [name, value ?? []])));
  const choose = (kind) => () => {
    as_table = kind === 'table';
    changed();
  };
  return html`${title(W.topology, as_table ? button('Drawing', choose('drawing')) : button('Table', choose('table')))}
    ${asked.map(([, { trouble }]) => (trouble ? box('danger', trouble) : nothing))}
    ${as_table ? rows(shown) : drawing(shown, changed)}`;
}

function rows({ columns, links }) {
  const boxes = new Map(Object.values(columns).flat().map((box) => [box.id, box]));
  const named = (id) => (boxes.get(id) ? `${boxes.get(id).label} (${boxes.get(id).note})` : id);
  const list = links.map((link) => ({ ...link, key: `${link.from} ${link.to}`, word: link.kind === 'network' ? W.network : `${W.path}: ${path_word(link.kind)}` }));
  return table('topology', [
    { key: 'from', title: W.from, value: (link) => named(link.from) },
    { key: 'to', title: W.to, value: (link) => named(link.to) },
    { key: 'kind', title: W.type, value: (link) => link.word },
  ], { label: W.topology, key: (link) => link.key, empty: 'Nothing is linked yet.' }).draw(list);
}

function drawing(shown, changed) {
  const columns = kinds.map((kind) => ({ kind, ...drawn(shown.columns[kind]) }));
  const place = new Map(columns.flatMap(({ boxes }, column) => boxes.map((box, row) => [box.id, { x: column * kColumnPx + 4, y: kTopPx + row * kRowPx }])));
  const height = kTopPx + Math.max(1, ...columns.map(({ boxes, more }) => boxes.length + (more ? 1 : 0))) * kRowPx;
  const width = kinds.length * kColumnPx + 30;
  const near = active && place.has(active) ? linked_with(active, shown) : null;
  const activate = (id) => () => {
    if (active === id) return;
    active = id;
    changed();
  };
  return html`<div class="grid-scroll topology" tabindex="0" role="region" aria-label=${W.topology}>
    <svg width=${width} height=${height} role="group" aria-label=${W.topology}>
      ${columns.map(({ kind, more }, column) => svg`<text class="topology-title" x=${column * kColumnPx + 4} y="16">${titles[kind]}${more ? ` (${more} more: Table)` : ''}</text>`)}
      ${shown.links.map((link) => line(link, place, near))}
      ${columns.flatMap(({ boxes }) => boxes).map((box) => draw_box(box, place.get(box.id), near, activate))}
    </svg></div>
    <p class="legend" aria-label="Legend">${['tcp', 'hca', 'none'].map((path) => html`<span class="legend-entry">
      <svg width="40" height="10" aria-hidden="true"><line class="topology-line path-${path}" x1="0" y1="5" x2="40" y2="5"></line></svg> ${W.path}: ${path_word(path)}</span>`)}</p>`;
}

function line({ from, to: end, kind }, place, near) {
  const [a, b] = [place.get(from), place.get(end)];
  if (!a || !b) return nothing;
  const far = near !== null && !(near.has(from) && near.has(end));
  const [ay, by] = [a.y + kBoxHeightPx / 2, b.y + kBoxHeightPx / 2];
  const right = a.x + kBoxWidthPx;
  const path = kind === 'network' ? `M ${right} ${ay} L ${b.x} ${by}` : `M ${right} ${ay} C ${right + 36} ${ay} ${right + 36} ${by} ${right} ${by}`;
  return svg`<path class="topology-line ${kind === 'network' ? '' : `path-${kind}`} ${far ? 'far' : ''}" d=${path}></path>`;
}

function draw_box({ id, label, note, address }, { x, y }, near, activate) {
  const far = near !== null && !near.has(id);
  return svg`<a href=${to(...address)} class="topology-box ${far ? 'far' : ''}" aria-label="${label}, ${note}"
      @focusin=${activate(id)} @focusout=${activate('')} @pointerenter=${activate(id)} @pointerleave=${activate('')} @click=${() => { active = ''; }}>
    <title>${label}, ${note}</title>
    <rect x=${x} y=${y} width=${kBoxWidthPx} height=${kBoxHeightPx} rx="3"></rect>
    <foreignObject aria-hidden="true" x=${x} y=${y} width=${kBoxWidthPx} height=${kBoxHeightPx}>
      <div class="box-text">${label}</div> <div class="box-text">${note}</div></foreignObject></a>`;
}
