// Dialogs, on the browser's own <dialog>: the focus stays inside, Esc closes, and the focus returns to the opener.
//
// A dialog keeps what was typed in `values`, also through refusals, lost connections and live ticks.
import { html, live, nothing } from './lit.js';
import { Refusal } from './api.js';
import { W } from './words.js';

let open = null;  // the dialog that is shown
let changed = () => {};
let store = null;

export function use(the_store, redraw) {
  store = the_store;
  changed = redraw;
}

// title, target: names of the task; values: the form's start; body(dialog): the form; edits(values): the requests;
// commands(values): the same as pvrdmactl lines; danger: the button removes something.
export function show(spec) {
  open = new Dialog(spec);
  changed();
}

export function draw() {
  return open === null ? nothing : open.draw();
}

// After each drawing: <dialog> becomes modal by a call only.
export function after_draw() {
  const element = document.querySelector('dialog');
  if (element !== null && !element.open) element.showModal();
  if (element !== null && open?.newly_refused) {
    open.newly_refused = false;
    element.querySelector('.alert')?.focus();
  }
}

class Dialog {
  refusal = null;
  newly_refused = false;
  busy = false;
  #made = new Set();  // edits that are carried out, as texts: after a refusal and a correction only the others are sent

  constructor(spec) {
    this.spec = spec;
    this.values = { ...spec.values };
  }

  set(name, value) {
    this.values[name] = value;
    changed();
  }

  draw() {
    const { spec, values } = this;
    const commands = spec.commands(values);
    const why_not = store.cannot_edit;
    return html`<dialog aria-labelledby="dialog-title" @cancel=${(event) => this.busy && event.preventDefault()} @close=${() => this.#closed()}>
      <form class="modal-content" method="dialog" @submit=${(event) => this.#submit(event)}>
        <div class="modal-header"><h1 class="modal-title page-title" id="dialog-title">${spec.title}</h1></div>
        ${this.refusal ? alert(this.refusal.message) : nothing}
        <div class="modal-body">${spec.body(this)}</div>
        ${commands.length ? html`<div class="commands"><code>${commands.join('\n')}</code>
          <button type="button" class="btn btn-link btn-sm" @click=${() => navigator.clipboard?.writeText(commands.join('\n'))}>Copy</button></div>`
          : nothing}
        <div class="modal-footer">
          ${why_not ? html`<span class="reason">${why_not}</span>` : nothing}
          <button type="button" class="btn btn-outline" ?disabled=${this.busy} @click=${(event) => event.target.closest('dialog').close()}>${W.cancel}</button>
          <button class="btn ${spec.danger ? 'btn-danger' : 'btn-primary'}" ?disabled=${this.busy || why_not !== ''}>${spec.ok ?? W.ok}</button>
        </div>
      </form></dialog>`;
  }

  async #submit(event) {
    event.preventDefault();
    const element = event.target.closest('dialog');
    const edits = this.spec.edits(this.values).filter((edit) => !this.#made.has(JSON.stringify(edit)));
    if (edits.length === 0) return element.close();
    this.busy = true;
    this.refusal = null;
    changed();
    try {
      await store.edit(this.spec.title, this.spec.target, edits, (edit) => this.#made.add(JSON.stringify(edit)));
      element.close();
      this.spec.done?.(this.values);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.refusal = error;
      this.newly_refused = true;
    } finally {
      this.busy = false;
      changed();
    }
  }

  #closed() {
    if (open === this) open = null;
    changed();
  }
}

const alert = (sentence) => html`<div class="alert alert-danger" role="alert" tabindex="-1"><div class="alert-items"><div class="alert-item">
  <span class="alert-text">${sentence}</span></div></div></div>`;

// Fields of forms. `name` is the member of the dialog's values.
const row = (name, label, control, note) => html`<div class="field">
  <label class="clr-control-label" for="field-${name}">${label}</label>
  <div>${control}
    ${note ? html`<span class="clr-subtext">${note}</span>` : nothing}</div></div>`;

export function text(dialog, name, label, { note, required, pattern, type = 'text', min, max, disabled, placeholder } = {}) {
  return row(name, label, html`<input class="clr-input" id="field-${name}" type=${type} .value=${live(String(dialog.values[name] ?? ''))}
    ?required=${required} pattern=${pattern ?? nothing} min=${min ?? nothing} max=${max ?? nothing} ?disabled=${disabled}
    placeholder=${placeholder ?? nothing} autocomplete="off" spellcheck="false"
    @input=${(event) => dialog.set(name, type === 'number' && event.target.value !== '' ? Number(event.target.value) : event.target.value)}>`, note);
}

// offered: [[value, title]]. A value that is offered no longer stays the choice until another is made.
export function select(dialog, name, label, offered, { note, disabled } = {}) {
  const value = dialog.values[name];
  const choices = offered.some(([each]) => each === value) ? offered : [[value, `${value} (not offered)`], ...offered];
  return row(name, label, html`<div class="clr-select-wrapper"><select class="clr-select" id="field-${name}" ?disabled=${disabled}
      @change=${(event) => dialog.set(name, choices[event.target.selectedIndex][0])}>
    ${choices.map(([each, title]) => html`<option .selected=${live(each === value)}>${title}</option>`)}
  </select></div>`, note);
}

export function tick(dialog, name, label, { note, disabled } = {}) {
  return html`<div class="field"><span></span><div><div class="clr-checkbox-wrapper">
    <input type="checkbox" id="field-${name}" .checked=${live(Boolean(dialog.values[name]))} ?disabled=${disabled}
           @change=${(event) => dialog.set(name, event.target.checked)}>
    <label class="clr-control-label" for="field-${name}">${label}</label></div>
    ${note ? html`<span class="clr-subtext">${note}</span>` : nothing}</div></div>`;
}

export function lines(dialog, name, label, { note, disabled } = {}) {
  return row(name, label, html`<textarea class="clr-textarea" id="field-${name}" rows="3" ?disabled=${disabled} spellcheck="false"
    .value=${live(dialog.values[name] ?? '')} @input=${(event) => dialog.set(name, event.target.value)}></textarea>`, note);
}
