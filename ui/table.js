// Table: a grid of rows that change while people read it.
//
// The grid has the keyboard's focus, never a row, so a tick only changes texts. Above kWindow rows only those in sight are in the
// DOM. The order holds still while the table has the focus or the pointer is over it. One object for each table of the page; it
// lives as long as the page and keeps sort, filter and selection.
import { html, nothing, svg } from './lit.js';
import { copy_button } from './copy.js';
import { counted, csvCell } from './format.js';
import { letters_off } from './keys.js';
import { facts } from './parts.js';
import { show_row_actions } from './row_actions.js';
import { save } from './save.js';

const kWindow = 60;
const kRowPx = 24;  // own.css
const kLong = 30;   // characters that every cell has room for

const kept = new Map();  // id -> Table

// columns: [{key, title, value(row), cell?(row), number?}]. value() sorts, filters and copies; cell() draws. A cell may cut a long
// text: below the table the selected row has it whole.
// options: {key(row), open?(row): the address of a row, actions?(row): [[label, run, why, off]], empty: what to say without rows}
export function table(id, columns, options) {
  if (!kept.has(id)) kept.set(id, new Table(id, columns, options));
  const found = kept.get(id);
  found.columns = columns;
  found.options = options;
  return found;
}

export class Table {
  static changed = () => {};

  selected = null;  // the key of the selected row
  filter = '';
  sort_key = null;
  descending = false;

  #held = null;     // the keys in the order that is kept; null: the order is not kept
  #first = 0;       // the first row in sight
  #page = 20;
  #hold_again = false;  // hold the next order that is drawn
  #hidden;

  constructor(id, columns, options) {
    this.id = id;
    this.columns = columns;
    this.options = options;
    this.#hidden = new Set(JSON.parse(localStorage.getItem(`pvrdma-columns-${id.split('/')[0]}`) ?? '[]'));
  }

  get shown_columns() {
    return this.columns.filter((column) => !this.#hidden.has(column.key));
  }

  // The rows in the order and choice in which they are shown.
  arranged(rows) {
    const matching = rows.filter((row) => this.#matches(row));
    const sorted = this.sort_key === null ? matching : this.#sorted(matching);
    if (this.#held === null) return sorted;
    const place = new Map(this.#held.map((key, index) => [key, index]));
    const old_place = (row) => place.get(this.options.key(row)) ?? Infinity;
    return sorted.map((row, index) => [old_place(row), index, row])
      .sort((a, b) => (a[0] === b[0] ? a[1] - b[1] : a[0] - b[0])).map(([, , row]) => row);
  }

  // The selected row. If there is none, or it has gone, the first one is selected.
  chosen(rows) {
    const shown = this.arranged(rows);
    const found = shown.find((row) => this.options.key(row) === this.selected) ?? shown[0];
    if (found !== undefined) this.selected = this.options.key(found);
    return found;
  }

  sort_by(key) {
    this.descending = this.sort_key === key && !this.descending;
    this.sort_key = key;
    this.#hold_again = this.#held !== null;  // the pointer or the focus is still here
    this.#held = null;
    Table.changed();
  }

  hold(rows) {
    this.#held ??= this.arranged(rows).map(this.options.key);
  }

  release() {
    this.#held = null;
    Table.changed();
  }

  // Begins at the first row, in the rows' own order: others take their place.
  begin_again() {
    this.#first = 0;
    this.#held = null;
    this.selected = null;
    const grid = document.getElementById(`grid-${this.id}`);
    if (grid) grid.parentElement.scrollTop = 0;
    Table.changed();
  }

  text(rows, separator, cell) {
    const columns = this.shown_columns;
    return [columns.map((column) => cell(column.title)),
            ...this.arranged(rows).map((row) => columns.map((column) => cell(String(column.value(row) ?? ''))))]
      .map((line) => line.join(separator)).join('\n');
  }

  // What is drawn. `actions`: buttons beside the filter.
  draw(rows, actions = nothing) {
    const shown = this.arranged(rows);
    if (this.#hold_again) this.#held = shown.map(this.options.key);
    this.#hold_again = false;
    const windowed = shown.length > kWindow;
    const first = windowed ? Math.min(this.#first, shown.length - kWindow) : 0;
    const visible = windowed ? shown.slice(first, first + kWindow) : shown;
    const active = shown.findIndex((row) => this.options.key(row) === this.selected);
    const active_in_dom = active >= first && active < first + visible.length;
    return html`
      <div class="table-tools">
        ${actions}
        <input class="clr-input" type="search" placeholder="Filter" aria-label="Filter ${this.options.label}" .value=${this.filter}
               @input=${(event) => this.#filter_by(event.target.value)}>
        <span class="count">${shown.length === rows.length ? '' : `${shown.length} of `}${counted(rows.length, 'item')}</span>
        ${copy_button(() => this.text(rows, '\t', String))}
        <button class="btn btn-link btn-sm" @click=${() => this.#save_csv(rows)}>CSV</button>
        ${this.#chooser()}
      </div>
      <div class="grid-scroll" @scroll=${(event) => this.#scrolled(event.target)}
           @pointerenter=${() => this.hold(rows)} @pointerleave=${(event) => event.currentTarget.contains(document.activeElement) || this.release()}
           @focusin=${() => this.hold(rows)} @focusout=${(event) => event.currentTarget.matches(':hover') || this.release()}>
        <table class="table table-compact grid" role="grid" tabindex="0" aria-label=${this.options.label} id="grid-${this.id}"
               aria-rowcount=${shown.length + 1} aria-activedescendant=${active_in_dom ? `row-${this.id}-${active}` : nothing}
               @keydown=${(event) => this.#key(event, shown, active)}>
          <thead><tr role="row" aria-rowindex="1">${this.shown_columns.map((column) => this.#header(column))}</tr></thead>
          <tbody>
            ${windowed ? spacer(first, this.shown_columns.length) : nothing}
            ${visible.map((row, index) => this.#row(row, first + index))}
            ${windowed ? spacer(shown.length - first - kWindow, this.shown_columns.length) : nothing}
          </tbody>
        </table>
      </div>
      ${rows.length === 0 ? html`<p class="empty">${this.options.empty ?? 'Nothing here yet.'}</p>`
        : shown.length === 0 ? html`<p class="empty">No row matches the filter.</p>` : nothing}
      ${active >= 0 ? this.#whole(shown[active]) : nothing}`;
  }

  #whole(row) {
    const texts = this.shown_columns.map((column) => [column.title, String(column.value(row) ?? '')]).filter(([, text]) => text.length > kLong);
    return texts.length ? facts(texts) : nothing;
  }

  #header(column) {
    const sorted = column.key === this.sort_key;
    const sign = sorted ? (this.descending ? ' ▾' : ' ▴') : '';
    return html`<th class=${column.number ? 'number' : 'left'} scope="col" role="columnheader" aria-sort=${sorted ? (this.descending ? 'descending' : 'ascending') : 'none'}>
      <button class="sort" @click=${() => this.sort_by(column.key)}>${column.title}<span aria-hidden="true">${sign}</span></button>
      ${sorted && this.#held !== null ? html`<span class="held">order held</span>` : nothing}</th>`;
  }

  #row(row, index) {
    const key = this.options.key(row);
    const chosen = key === this.selected;
    return html`<tr role="row" id="row-${this.id}-${index}" aria-rowindex=${index + 2} aria-selected=${chosen} class=${chosen ? 'chosen' : ''}
        @click=${() => this.#select(key)}>
      ${this.shown_columns.map((column) => html`<td role="gridcell" class=${column.number ? 'number' : 'left'}>${
        (column.cell ?? column.value)(row) ?? '--'}</td>`)}</tr>`;
  }

  #chooser() {
    return html`<details class="chooser"><summary class="btn btn-link btn-sm">Columns</summary><div class="popup">
      ${this.columns.map((column) => html`<label><input type="checkbox" .checked=${!this.#hidden.has(column.key)}
        @change=${(event) => this.#choose(column.key, event.target.checked)}> ${column.title}</label>`)}</div></details>`;
  }

  #choose(key, shown) {
    if (shown) this.#hidden.delete(key);
    else if (this.shown_columns.length > 1) this.#hidden.add(key);
    localStorage.setItem(`pvrdma-columns-${this.id.split('/')[0]}`, JSON.stringify([...this.#hidden]));
    Table.changed();
  }

  #filter_by(text) {
    this.filter = text;
    this.#first = 0;
    Table.changed();
  }

  // Each word must be in some column, or `column:word` in that column.
  #matches(row) {
    return this.filter.toLowerCase().split(/\s+/).filter(Boolean).every((word) => {
      const [, title, part] = /^([^:]+):(.*)$/.exec(word) ?? [];
      const named = title === undefined ? [] : this.columns.filter((column) => column.title.toLowerCase().replaceAll(' ', '').startsWith(title));
      const has = (columns, wanted) => columns.some((column) => String(column.value(row) ?? '').toLowerCase().includes(wanted));
      return has(named, part) || has(this.columns, word);
    });
  }

  #sorted(rows) {
    const column = this.columns.find((each) => each.key === this.sort_key);
    if (column === undefined) return rows;
    const sign = this.descending ? -1 : 1;
    return [...rows].sort((a, b) => sign * compare(column.value(a), column.value(b)));
  }

  #select(key) {
    this.selected = key;
    Table.changed();
  }

  #scrolled(scroll) {
    this.#page = Math.max(1, Math.floor(scroll.clientHeight / kRowPx) - 1);
    const first = Math.max(0, Math.floor(scroll.scrollTop / kRowPx) - 10);
    if (first === this.#first) return;
    this.#first = first;
    Table.changed();
  }

  #key(event, shown, active) {
    if (event.target !== event.currentTarget || shown.length === 0) return;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: this.#page, PageUp: -this.#page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      const next = Math.min(Math.max((active < 0 ? (event.key === 'ArrowUp' ? 0 : -1) : active) + steps[event.key], 0), shown.length - 1);
      event.preventDefault();
      this.#show(event.currentTarget.parentElement, next);
      this.#select(this.options.key(shown[next]));
    } else if (event.key === 'Enter' && this.options.open && active >= 0) {
      location.hash = this.options.open(shown[active]);
    } else if (event.key === '.' && active >= 0 && !letters_off()) {
      this.#show_actions(shown[active]);
    }
  }

  #show_actions(row) {
    const actions = () => this.options.actions?.(row) ?? [];
    if (actions().length > 0) show_row_actions(this.columns[0].value(row), actions);
  }

  #show(scroll, index) {
    const top = index * kRowPx;
    if (top < scroll.scrollTop) scroll.scrollTop = top;
    const room = scroll.clientHeight - 3 * kRowPx;
    if (top > scroll.scrollTop + room) scroll.scrollTop = top - room;
  }

  #save_csv(rows) {
    save(`${this.text(rows, ',', csvCell)}\n`, 'text/csv', `${this.id.replaceAll('/', '-')}.csv`);
  }
}

// Natural order: vmnic2 comes before vmnic10. What is not known comes first.
function compare(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a ?? '').localeCompare(String(b ?? ''), undefined, { numeric: true });
}

function spacer(rows, columns) {
  if (rows <= 0) return nothing;
  return html`<tr role="presentation" aria-hidden="true"><td role="presentation" class="spacer" colspan=${columns}>${
    svg`<svg width="1" height=${rows * kRowPx}></svg>`}</td></tr>`;
}
