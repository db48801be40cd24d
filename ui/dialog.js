// Dialogs, on the browser's own <dialog>: the focus stays inside, Esc closes, and the focus returns to the opener.
//
// A dialog keeps what was typed in `values`, also through refusals, lost connections and live ticks. Its edits are made all or
// none of them.
import { html, nothing } from './lit.js';
import { Refusal } from './api.js';
import { copy_button } from './copy.js';
import { W } from './words.js';

let open = null;  // the dialog that is shown
let changed = () => {};
let store = null;

export function use(the_store, redraw) {
  store = the_store;
  changed = redraw;
}

// title, target: names of the task; values: the form's start; body(dialog): the form; commands(values): the same as pvrdmactl
// lines; danger: the button removes something; ok, cancel: labels of the buttons. edits(values): the requests {method, path, body}; with `at` the field that an edit
// is about, and with `fields` those of its body's members whose names differ. of_host: they act on this host's adapters and need no
// store; of_page: on this page only, and need no daemon. run(edits, values): carries them out in another way than the store does. done(values, answer): what follows.
export const show = (spec) => put(new Dialog(spec));

export function put(dialog) {
  open = dialog;
  changed();
}

export function draw() {
  return open === null ? nothing : open.draw();
}

// After each drawing: <dialog> becomes modal by a call only.
export function after_draw() {
  const element = document.querySelector('dialog');
  if (element === null) return;
  if (!element.open) element.showModal();
  const wanted = open?.wants_focus;
  if (!wanted) return;
  open.wants_focus = '';
  element.querySelector(wanted)?.focus();
}

const kAboutValues = [400, 404, 409, 414];  // statuses of refusals that other values may mend

// The field of the form that a refusal is about; '': the form as a whole.
export function field_of(refusal, edits, values) {
  if (!kAboutValues.includes(refusal.status)) return '';
  const edit = edits[refusal.index ?? (edits.length === 1 ? 0 : -1)];
  if (edit === undefined) return '';
  const member = refusal.field?.split('.').findLast((part) => !/^\d+$/.test(part));  // of a list: the list
  return [edit.fields?.[member], member, edit.at].find((name) => name !== undefined && Object.hasOwn(values, name)) ?? '';
}

export class Dialog {
  refusal = null;
  refused_field = '';
  wants_focus = '';  // selector of what is to have the focus after the next drawing
  busy = false;

  constructor(spec) {
    this.spec = spec;
    this.values = { ...spec.values };
  }

  set(name, value) {
    this.values[name] = value;
    changed();
  }

  redraw() {
    changed();
  }

  draw() {
    const why_not = this.#why_not();
    return html`<dialog class=${this.kind} aria-labelledby="dialog-title" @cancel=${(event) => this.busy && event.preventDefault()} @close=${() => this.#closed()}>
      <form class="modal-content" method="dialog" @submit=${(event) => this.#submit(event)}>
        <div class="modal-header"><h1 class="modal-title page-title" id="dialog-title">${this.spec.title}</h1></div>
        ${this.refusal ? alert(this.refusal.message) : nothing}
        ${this.middle()}
        <div class="modal-footer">
          ${why_not ? html`<span class="reason">${why_not}</span>` : nothing}
          <button type="button" class="btn btn-outline" ?disabled=${this.busy} @click=${(event) => event.target.closest('dialog').close()}>${this.spec.cancel ?? W.cancel}</button>
          ${this.buttons(this.busy || why_not !== '')}
        </div>
      </form></dialog>`;
  }

  // What a wizard has otherwise.
  kind = '';

  middle() {
    return html`<div class="modal-body" ?inert=${this.busy}>${this.spec.body(this)}</div>${lines(this.spec.commands(this.values))}`;
  }

  buttons(disabled) {
    return html`<button class="btn ${this.spec.danger ? 'btn-danger' : 'btn-primary'}" ?disabled=${disabled}>${this.spec.ok ?? W.ok}</button>`;
  }

  async submit(element) {
    await this.finish(element);
  }

  // Makes the edits, and ends the dialog if they are not refused.
  async finish(element, edits = this.spec.edits(this.values), revision = undefined) {
    if (edits.length === 0 && !this.spec.run) return element.close();
    let answer;
    const run = this.spec.run ?? (() => store.edit(this.spec.title, this.spec.target, edits, revision));
    if (!await this.attempt(edits, async () => { answer = await run(edits, this.values); })) return;
    element.close();
    this.spec.done?.(this.values, answer);
  }

  // What the edits would change: the answer of a dry run; null: they are refused.
  async rehearse(edits) {
    let answer = null;
    await this.attempt(edits, async () => { answer = await store.rehearse(edits); });
    return answer;
  }

  // Runs requests of these edits. A refusal is shown, unless it asks for a token: then Login says so, and this dialog, which it
  // hides, is there again after it. True: there was none.
  async attempt(edits, run) {
    this.busy = true;
    this.refusal = null;
    this.refused_field = '';
    changed();
    try {
      await run();
      return true;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (error.status === 401) {
        await store.refresh();
        return false;
      }
      this.refusal = error;
      this.refused_field = field_of(error, edits, this.values);
      this.wants_focus = '.alert';
      return false;
    } finally {
      this.busy = false;
      changed();
    }
  }

  #why_not() {
    if (this.spec.of_page) return '';
    return this.spec.of_host ? store.cannot_act : store.cannot_edit;
  }

  async #submit(event) {
    event.preventDefault();
    if (!this.busy) await this.submit(event.target.closest('dialog'));
  }

  #closed() {
    if (open === this) open = null;
    changed();
  }
}

const alert = (sentence) => html`<div class="alert alert-danger" role="alert" tabindex="-1"><div class="alert-items"><div class="alert-item">
  <span class="alert-text">${sentence}</span></div></div></div>`;

// Lines of pvrdmactl, to be copied. They are broken between words only, and not after a hyphen.
export const lines = (commands) => (commands.length ? html`<div class="commands"><code>${commands.join('\n').split(/([ \n])/).map((part) => (/[ \n]/.test(part) ? part : html`<span class="word">${part}</span>`))}</code>
  ${copy_button(() => commands.join('\n'))}</div>` : nothing);
