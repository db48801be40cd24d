// Fields of dialogs' forms. `name` is the member of the dialog's values. A refusal that is about a field stands at it.
import { html, live, nothing } from './lit.js';

// What ties a control to its refusal.
const refused = (dialog, name) => (dialog.refused_field === name ? `refused-${name}` : nothing);

const sentence = (dialog, name) => (dialog.refused_field === name
  ? html`<span class="field-refusal" id="refused-${name}">${dialog.refusal.message}</span>` : nothing);

const row = (dialog, name, label, control, note) => html`<div class="field">
  <label class="clr-control-label" for="field-${name}">${label}</label>
  <div>${control}
    ${sentence(dialog, name)}
    ${note ? html`<span class="clr-subtext">${note}</span>` : nothing}</div></div>`;

export function text(dialog, name, label, { note, required, pattern, type = 'text', min, max, disabled, placeholder } = {}) {
  return row(dialog, name, label, html`<input class="clr-input" id="field-${name}" type=${type} .value=${live(String(dialog.values[name] ?? ''))}
    ?required=${required} pattern=${pattern ?? nothing} min=${min ?? nothing} max=${max ?? nothing} ?disabled=${disabled}
    placeholder=${placeholder ?? nothing} autocomplete="off" spellcheck="false" aria-describedby=${refused(dialog, name)}
    @input=${(event) => dialog.set(name, type === 'number' && event.target.value !== '' ? Number(event.target.value) : event.target.value)}>`, note);
}

// offered: [[value, title]]. A value that is offered no longer stays the choice until another is made.
export function select(dialog, name, label, offered, { note, disabled } = {}) {
  const value = dialog.values[name];
  const choices = offered.some(([each]) => each === value) ? offered : [[value, `${value} (not offered)`], ...offered];
  return row(dialog, name, label, html`<div class="clr-select-wrapper"><select class="clr-select" id="field-${name}" ?disabled=${disabled}
      aria-describedby=${refused(dialog, name)} @change=${(event) => dialog.set(name, choices[event.target.selectedIndex][0])}>
    ${choices.map(([each, title]) => html`<option .selected=${live(each === value)}>${title}</option>`)}
  </select></div>`, note);
}

// offered: [[value, title]], of which one is chosen.
export const radios = (dialog, name, label, offered) => html`<fieldset><legend>${label}</legend>${offered.map(([value, title]) => html`
  <div class="clr-radio-wrapper"><input type="radio" name=${name} id="field-${name}-${value}" .checked=${live(dialog.values[name] === value)}
      @change=${() => dialog.set(name, value)}>
    <label class="clr-control-label" for="field-${name}-${value}">${title}</label></div>`)}</fieldset>`;

export function tick(dialog, name, label, { note, disabled } = {}) {
  return html`<div class="field"><span></span><div><div class="clr-checkbox-wrapper">
    <input type="checkbox" id="field-${name}" .checked=${live(Boolean(dialog.values[name]))} ?disabled=${disabled} aria-describedby=${refused(dialog, name)}
           @change=${(event) => dialog.set(name, event.target.checked)}>
    <label class="clr-control-label" for="field-${name}">${label}</label></div>
    ${sentence(dialog, name)}
    ${note ? html`<span class="clr-subtext">${note}</span>` : nothing}</div></div>`;
}

export function lines(dialog, name, label, { note, disabled } = {}) {
  return row(dialog, name, label, html`<textarea class="clr-textarea" id="field-${name}" rows="3" ?disabled=${disabled} spellcheck="false"
    aria-describedby=${refused(dialog, name)}
    .value=${live(dialog.values[name] ?? '')} @input=${(event) => dialog.set(name, event.target.value)}></textarea>`, note);
}
