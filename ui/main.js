// The page: draws the state of the store whenever it changes.
import { render } from './lit.js';
import * as dialog from './dialog.js';
import { frame } from './frame.js';
import { listen } from './keys.js';
import { parse } from './route.js';
import { Store } from './store.js';
import { Table } from './table.js';
import { apply_theme } from './theme.js';

const page = { route: parse(location.hash), search: '', help: false };
let drawing = false;
let drawn_ms = 0;

function changed() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    drawn_ms = Date.now();
    render(frame(store, page, changed), document.getElementById('page'));
    dialog.after_draw();
  });
}

const store = new Store(changed);
Table.changed = changed;
dialog.use(store, changed);
apply_theme();
listen(page, changed);
addEventListener('hashchange', () => {
  page.route = parse(location.hash);
  page.search = '';
  changed();
});
setInterval(() => Date.now() - drawn_ms > 900 && changed(), 1000);  // the age of the data
store.start();
changed();
