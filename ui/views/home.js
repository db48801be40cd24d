// Home: PVRDMA readiness, the deployment guide as a live list. Each line says what is missing, and has the button that mends it.
import { html } from '../lit.js';
import { lines } from '../readiness.js';
import { button, title } from '../parts.js';
import { W } from '../words.js';

const sign = { yes: ['✓', 'good'], no: ['✗', 'bad'], unknown: ['–', 'unknown'] };

const cell = (result, store) => html`<td class="left">${result === undefined ? '' : html`
  <span class=${sign[result.state][1]} aria-label=${{ yes: 'done', no: 'missing', unknown: 'not known' }[result.state]} role="img">${sign[result.state][0]}</span>
  ${result.text} ${result.mend ? button(result.mend.label, result.mend.run, result.mend.why ?? store.cannot_edit) : ''}`}</td>`;

export function home(store) {
  const { hosts } = store.data;
  return html`${title(W.readiness)}
    <div class="grid-scroll whole" tabindex="0" role="region" aria-label=${W.readiness}>
    <table class="table readiness"><thead><tr><th class="left" scope="col">Step</th>${hosts.map((host) => html`<th class="left" scope="col">${host.name}</th>`)}</tr></thead>
    <tbody>${lines(store).map((line, index) => html`<tr><th class="left" scope="row">${index + 1} ${line.title}
      ${line.mend ? button(line.mend.label, line.mend.run, store.cannot_edit) : ''}</th>${line.cells.map((each) => cell(each, store))}</tr>`)}</tbody></table></div>`;
}
