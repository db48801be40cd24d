// Wizards: dialogs of several steps. Next asks the daemon what the edits up to here would change, so a rule speaks at the step
// that breaks it. The last step shows all changes; Finish makes them, all or none.
import { html, nothing } from './lit.js';
import { Dialog, lines, put } from './dialog.js';
import { changes_of } from './changes.js';
import { box } from './parts.js';
import { W } from './words.js';

// As show() of dialog.js, but instead of `body` there are steps [{title, body(dialog), edits(values), skip(values)}]: `edits` are
// those that are determined after the step, by default all, and depend on no field of a later step, for a wrong one could not be
// mended here; a step is left out while `skip` says so. `at`: the first step shown.
export const show_wizard = (spec) => put(new Wizard(spec));

class Wizard extends Dialog {
  kind = 'wizard';
  #at;
  #ready = null;  // what the last step shows and Finish makes: the edits, as commands too, and the outcome of their dry run

  constructor(spec) {
    super(spec);
    this.#at = spec.at ?? 0;
  }

  get #steps() {
    return this.spec.steps.filter((step) => !step.skip?.(this.values));
  }

  get #is_last() {
    return this.#at >= this.#steps.length;
  }

  middle() {
    const titles = [...this.#steps.map((step) => step.title), W.readyToComplete];
    return html`<div class="wizard-columns">
      <ol class="wizard-steps">${titles.map((title, at) => html`<li class=${at === this.#at ? 'active' : ''} aria-current=${at === this.#at ? 'step' : nothing}>${title}</li>`)}</ol>
      <div class="modal-body" ?inert=${this.busy}><h2 class="section-title" tabindex="-1">${titles[this.#at]}</h2>
        ${this.#is_last ? this.#draw_ready() : this.#steps[this.#at].body(this)}</div></div>`;
  }

  #draw_ready() {
    const { changes, answers, commands } = this.#ready;
    const refusals = [...new Set(answers.map((answer) => answer?.power_on_refusal).filter(Boolean))];
    return html`${changes_of(changes)}
      ${refusals.map((sentence) => box('warning', sentence))}
      ${lines(commands)}`;
  }

  buttons(disabled) {
    return html`<button type="button" class="btn btn-outline" ?disabled=${this.busy || this.#at === 0} @click=${() => this.#go(this.#at - 1)}>${W.back}</button>
      <button class="btn btn-primary" ?disabled=${disabled}>${this.#is_last ? W.finish : W.next}</button>`;
  }

  async submit(element) {
    if (this.#is_last) return this.#finish_ready(element);
    const step = this.#steps[this.#at];
    const to_last = this.#at + 1 >= this.#steps.length;
    const edits = (to_last ? this.spec.edits : step.edits ?? this.spec.edits)(this.values);
    if (edits.length > 0 || to_last) {
      const outcome = await this.rehearse(edits);
      if (outcome === null) return undefined;
      if (to_last) this.#ready = { ...outcome, edits, commands: this.spec.commands(this.values) };
    }
    return this.#go(this.#at + 1);
  }

  // Somebody else's edit in between may make another outcome of these edits: then it is shown, and Finish is clicked again.
  async #finish_ready(element) {
    const { edits, revision } = this.#ready;
    await this.finish(element, edits, revision);
    const { refusal } = this;
    if (refusal?.status !== 409 || refusal.index !== undefined) return;
    const outcome = await this.rehearse(edits);
    if (outcome === null) return;
    this.#ready = { ...this.#ready, ...outcome };
    this.refusal = refusal;
    this.wants_focus = '.alert';
    this.redraw();
  }

  #go(to) {
    this.#at = to;
    this.refusal = null;
    this.refused_field = '';
    this.wants_focus = 'h2';
    this.redraw();
  }
}
