// The actions of a table's row, in a dialog: the same buttons that its object's page has.
import { html, nothing } from './lit.js';
import { Dialog, put } from './dialog.js';
import { button } from './parts.js';

class RowActions extends Dialog {
  buttons() {
    return nothing;
  }
}

// `actions` returns them as they are now: [[label, run, why, off]], as button() takes them.
export const show_row_actions = (name, actions) => put(new RowActions({
  title: `Actions of ${name}`,
  of_page: true,
  values: {},
  body: () => actions().map(([label, run, ...state]) => html`<p>${button(label, () => instead(run), ...state)}</p>`),
  commands: () => [],
}));

// Runs the action once this dialog is closed and the table has the focus again: the action's own dialog then gives it back there.
function instead(run) {
  const dialog = document.querySelector('dialog');
  dialog.addEventListener('close', run, { once: true });
  dialog.close();
}
