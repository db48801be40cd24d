// Table: sort, held order, filter, window, texts.
import { equal, test } from './harness.js';
import { render } from '../../../ui/lit.js';
import { csvCell } from '../../../ui/format.js';
import { Table } from '../../../ui/table.js';

const columns = [{ key: 'name', title: 'Name', value: (row) => row.name }, { key: 'rate', title: 'Rate', value: (row) => row.rate, number: true }];
const options = { label: 'Rows', key: (row) => row.name };
const make = () => new Table(`t${Math.random()}`, columns, options);
const names = (rows) => rows.map((row) => row.name);
const rows = () => [{ name: 'vmnic10', rate: 1 }, { name: 'vmnic2', rate: 30 }, { name: 'vmnic1', rate: 4 }];

function drawn(table, shown) {
  const place = document.createElement('div');
  document.body.append(place);
  render(table.draw(shown), place);
  return place;
}

test('rows keep their order until a column is chosen', () => equal(names(make().arranged(rows())), ['vmnic10', 'vmnic2', 'vmnic1']));

test('numbers in names sort as numbers, and a second click turns the order round', () => {
  const table = make();
  table.sort_by('name');
  equal(names(table.arranged(rows())), ['vmnic1', 'vmnic2', 'vmnic10']);
  table.sort_by('name');
  equal(names(table.arranged(rows())), ['vmnic10', 'vmnic2', 'vmnic1']);
});

test('a held order stays while values change, new rows come last, and release sorts', () => {
  const table = make();
  table.sort_by('rate');
  const before = rows();
  table.hold(before);
  const after = [...before.map((row) => ({ ...row, rate: 100 - row.rate })), { name: 'vmnic0', rate: 0 }];
  equal(names(table.arranged(after)), ['vmnic10', 'vmnic1', 'vmnic2', 'vmnic0']);
  table.release();
  equal(names(table.arranged(after)), ['vmnic0', 'vmnic2', 'vmnic1', 'vmnic10']);
});

test('a click on a header sorts once, and holds the new order while the pointer is there', () => {
  const table = make();
  const before = rows();
  table.hold(before);
  table.sort_by('rate');
  drawn(table, before);
  equal(names(table.arranged(before.map((row) => ({ ...row, rate: 100 - row.rate })))), ['vmnic10', 'vmnic1', 'vmnic2']);
});

test('a MAC that begins like a title is found', () => {
  const table = make();
  table.filter = 'na:1f';
  equal(names(table.arranged([{ name: 'na:1f:6b', rate: 1 }, { name: 'x', rate: 2 }])), ['na:1f:6b']);
});

test('the filter takes words in any column, and column:word', () => {
  const table = make();
  for (const [text, left] of [['vmnic1', ['vmnic10', 'vmnic1']], ['rate:4', ['vmnic1']], ['VMNIC 30', ['vmnic2']], ['name:30', []], ['', ['vmnic10', 'vmnic2', 'vmnic1']]]) {
    table.filter = text;
    equal(names(table.arranged(rows())), left);
  }
});

test('of 5,000 rows only 60 are in the document, and it says how many there are', () => {
  const many = Array.from({ length: 5000 }, (_, index) => ({ name: `vm${index}`, rate: index }));
  const table = make();
  const place = drawn(table, many);
  const grid = place.querySelector('[role=grid]');
  equal(grid.querySelectorAll('tbody tr[role=row]').length, 60);
  equal(grid.getAttribute('aria-rowcount'), '5001');
  equal(grid.hasAttribute('aria-activedescendant'), false);
});

test('keys move the selection, and the grid names the active row', () => {
  const table = make();
  const place = drawn(table, rows());
  const press = (key) => {
    place.querySelector('[role=grid]').dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    render(table.draw(rows()), place);
  };
  press('ArrowDown');
  equal(table.selected, 'vmnic10');
  press('End');
  equal(table.selected, 'vmnic1');
  press('ArrowUp');
  equal(table.selected, 'vmnic2');
  const grid = place.querySelector('[role=grid]');
  equal(document.getElementById(grid.getAttribute('aria-activedescendant')).cells[0].innerText.trim(), 'vmnic2');
});

test('the row whose details a view shows is the selected one', () => {
  const table = make();
  equal(table.chosen(rows()).name, 'vmnic10');
  const [first] = drawn(table, rows()).querySelectorAll('tbody tr');
  equal([first.getAttribute('aria-selected'), first.className], ['true', 'chosen']);
  equal(table.chosen(rows().slice(1)).name, 'vmnic2');
  equal([table.chosen([]), table.selected], [undefined, 'vmnic2']);
});

test('a long text is whole below the table once its row is selected', () => {
  const table = new Table('prose', [columns[0], { key: 'why', title: 'Why', value: (row) => row.why }], options);
  const shown = [{ name: 'a', why: 'word '.repeat(80).trim() }, { name: 'b', why: 'x' }];
  const place = drawn(table, shown);
  equal(place.querySelector('dl'), null);
  table.selected = 'a';
  render(table.draw(shown), place);
  equal([...place.querySelector('dl').children].map((each) => each.textContent), ['Why', shown[0].why]);
});

test('a tick moves no node', () => {
  const table = make();
  const place = drawn(table, rows());
  const before = [...place.querySelectorAll('tbody tr')];
  render(table.draw(rows().map((row) => ({ ...row, rate: row.rate + 1 }))), place);
  equal([...place.querySelectorAll('tbody tr')].every((row, index) => row === before[index]), true);
});

test('CSV quotes what a spreadsheet would take for a formula', () => {
  equal(['=1', '+1', '-1', '@x', 'a"b', 'plain'].map(csvCell), ['"\'=1"', '"\'+1"', '"\'-1"', '"\'@x"', '"a""b"', '"plain"']);
  equal(make().text(rows().slice(0, 1), ',', csvCell), '"Name","Rate"\n"vmnic10","1"');
});
