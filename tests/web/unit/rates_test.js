// Rates of counters, and what the shell and people get to read.
import { equal, test } from './harness.js';
import { memory, nicSpeed, quoted, speed } from '../../../ui/format.js';
import { Rates } from '../../../ui/rates.js';
import { parse, to } from '../../../ui/route.js';

test('the first sample has no rate, the second has', () => {
  const rates = new Rates();
  equal(rates.update('VM-01', 1000, 0), undefined);
  equal(rates.update('VM-01', 3000, 2000), 8000);
});

test('a counter that shrinks starts again', () => {
  const rates = new Rates();
  rates.update('VM-01', 1000, 0);
  equal(rates.update('VM-01', 10, 2000), undefined);
  equal(rates.update('VM-01', 260, 4000), 1000);
});

test('a gap starts again', () => {
  const rates = new Rates();
  rates.update('VM-01', 0, 0);
  equal(rates.update('VM-01', 5000, 60000), undefined);
});

test('the same moment gives the same rate', () => {
  const rates = new Rates();
  rates.update('VM-01', 0, 0);
  rates.update('VM-01', 250, 1000);
  equal(rates.update('VM-01', 250, 1000), 2000);
});

test('values as people read them', () => {
  equal([speed(10000), speed(100), speed(0)], ['10 Gbit/s', '100 Mbit/s', '--']);
  equal([nicSpeed({ link_up: false, speed_mbps: 1000 }), nicSpeed({ link_up: true, speed_mbps: 0 })], ['Down', 'Up']);
  equal([memory(512), memory(2048), memory(1536)], ['512 MiB', '2 GiB', '1536 MiB']);
});

test('words of a command line are quoted', () => equal([quoted('vmk2'), quoted(''), quoted("a'b; rm")], ['vmk2', "''", "'a'\\''b; rm'"]));

test('addresses of views keep any name', () => equal(parse(to('hosts', 'a/b <c>', 'summary')), ['hosts', 'a/b <c>', 'summary']));
