// Small parts that several views draw.
import { html, nothing, svg } from './lit.js';

export const dot = (alive, known = true) =>
  html`<span class="dot ${known ? (alive ? 'good' : 'bad') : 'unknown'}" aria-hidden="true">${known ? (alive ? '●' : '○') : '?'}</span>`;

export const power_dot = (on, known = true) => html`<span class="dot ${known ? (on ? 'good' : 'idle') : 'unknown'}" aria-hidden="true">${
  known ? (on ? '●' : '○') : '?'}</span>`;

export const title = (text, actions = nothing) => html`<div class="title-line"><h1 class="page-title">${text}</h1><div>${actions}</div></div>`;

export const section = (text) => html`<h2 class="section-title">${text}</h2>`;

// A sentence in a box. kind: danger, warning, info, success.
export const box = (kind, sentence, action = nothing) => html`<div class="alert alert-${kind} static"><div class="alert-items">
  <div class="alert-item"><span class="alert-text">${sentence}</span>${action}</div></div></div>`;

// A button; when it cannot be used, `why` says so beside it. `off` without a reason is for what the page says already, for
// example beside the button before.
export const button = (label, run, why = '', off = why !== '') => html`<span class="action">
  <button type="button" class="btn btn-outline btn-sm" ?disabled=${off} @click=${run}>${label}</button>
  ${why ? html`<span class="reason">${why}</span>` : nothing}</span>`;

// Buttons for [[label, run, why, off]].
export const buttons = (actions) => actions.map((action) => button(...action));

// Names and values.
export const facts = (pairs) => html`<dl class="facts">${pairs.map(([name, value]) => html`<dt>${name}</dt><dd>${value ?? '--'}</dd>`)}</dl>`;

export const tabs = (label, entries) => html`<nav aria-label=${label}><ul class="nav tabs">${entries.map(([name, address, active]) => html`
  <li class="nav-item"><a class="nav-link ${active ? 'active' : ''}" href=${address} aria-current=${active ? 'page' : nothing}>${name}</a></li>`)}</ul></nav>`;

// A list of links on the left of a view: [[heading, [[name, address, active]]]]
export const side_list = (groups, label = 'Configure') => html`<nav class="side" aria-label=${label}>${groups.map(([heading, links]) => html`
  <p class="side-heading">${heading}</p>
  <ul>${links.map(([name, address, active]) => html`<li><a href=${address} class=${active ? 'active' : ''} aria-current=${active ? 'page' : nothing}>${name}</a></li>`)}</ul>`)}</nav>`;

// The answer of a path that the store asks for, drawn when it is there.
export function answer(detail, draw) {
  if (detail.trouble) return box('danger', detail.trouble);
  return detail.value !== undefined ? draw(detail.value) : html`<p class="empty">Loading…</p>`;
}

// How much of a whole a part is. A text beside it says the same.
export const bar = (part, whole) => html`<svg class="bar" width="60" height="8" aria-hidden="true">${
  svg`<rect class="bar-whole" width="60" height="8"></rect><rect class="bar-part" width=${whole > 0 ? Math.min(60, (60 * part) / whole) : 0} height="8"></rect>`}</svg>`;

const kStackPx = 360;
const kDigitPx = 10;

// Parts of a whole, [[name, amount]], as one bar, and below it as texts. A part's number is in both; in the bar if it has room.
export function stacked_bar(parts, shown) {
  const whole = parts.reduce((sum, [, amount]) => sum + amount, 0);
  const px = (amount) => (whole > 0 ? (kStackPx * amount) / whole : 0);
  const begin = (at) => parts.slice(0, at).reduce((sum, [, amount]) => sum + px(amount), 0);
  return html`<svg class="stack" viewBox="0 0 ${kStackPx} 18" aria-hidden="true">${parts.map(([, amount], at) => svg`<g>
      <rect class=${at % 2 ? 'stack-odd' : 'stack-even'} x=${begin(at)} width=${px(amount)} height="18"></rect>
      ${px(amount) > kDigitPx ? svg`<text x=${begin(at) + px(amount) / 2} y="13" text-anchor="middle">${at + 1}</text>` : nothing}</g>`)}</svg>
    ${facts(parts.map(([name, amount], at) => [`${at + 1}. ${name}`, shown(amount)]))}`;
}
