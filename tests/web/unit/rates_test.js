// Rates of counters, and what the shell and people get to read.
import { equal, test } from './harness.js';
import { frequency, memory, nicSpeed, quoted, rate, speed } from '../../../ui/format.js';
import { RateHistory } from '../../../ui/rate_history.js';
import { message_rate, Rates, throughput, traffic_of } from '../../../ui/rates.js';
import { parse, to } from '../../../ui/route.js';

test('the first sample has no rate, the second has', () => {
  const rates = new Rates();
  equal(rates.update('VM-01', { bytes: 1000 }, 0), undefined);
  equal(rates.update('VM-01', { bytes: 3000 }, 2000), { bytes: 1000 });
});

test('a counter that shrinks starts again', () => {
  const rates = new Rates();
  rates.update('VM-01', { bytes: 1000, messages: 7 }, 0);
  equal(rates.update('VM-01', { bytes: 10, messages: 8 }, 2000), undefined);
  equal(rates.update('VM-01', { bytes: 260, messages: 8 }, 4000), { bytes: 125, messages: 0 });
});

test('a gap starts again', () => {
  const rates = new Rates();
  rates.update('VM-01', { bytes: 0 }, 0);
  equal(rates.update('VM-01', { bytes: 5000 }, 60000), undefined);
});

test('what was not told before starts', () => {
  const rates = new Rates();
  rates.update('VM-01', { bytes: 0 }, 0);
  equal(rates.update('VM-01', { bytes: 5, messages: 5 }, 1000), undefined);
  equal(rates.update('VM-01', { bytes: 6, messages: 7 }, 2000), { bytes: 1, messages: 2 });
});

test('the same moment gives the same rate', () => {
  const rates = new Rates();
  rates.update('VM-01', { bytes: 0 }, 0);
  const first = rates.update('VM-01', { bytes: 250 }, 1000);
  equal([first, rates.update('VM-01', { bytes: 250 }, 1000) === first], [{ bytes: 250 }, true]);
});

test('what has gone is forgotten', () => {
  const rates = new Rates();
  rates.update('VM-01', { bytes: 0 }, 20000);
  rates.update('VM-01', { bytes: 250 }, 21000);
  rates.update('VM-02', { bytes: 0 }, 29000);
  equal(rates.newest('VM-01'), { bytes: 250 });
  rates.update('VM-02', { bytes: 0 }, 31000);
  equal(rates.newest('VM-01'), undefined);
});

test('traffic in both directions', () => {
  const rates = { tx_messages: 1, tx_bytes: 2, rx_messages: 3, rx_bytes: 4 };
  equal(traffic_of({ ...rates, name: 'VM-01' }), rates);
  equal([throughput(rates), message_rate(rates), throughput(undefined), message_rate(undefined)], [48, 4, undefined, undefined]);
});

test('a history has the last five minutes of an adapter', () => {
  const history = new RateHistory();
  for (let second = 0; second < 3600; ++second) history.add('VM-01', { tx_bytes: second }, second * 1000);
  const points = history.points('VM-01', 'tx_bytes', 3599000);
  equal([points.length, points[0], points.at(-1)], [300, [3300000, 3300], [3599000, 3599]]);
  equal([history.points('VM-01', 'retransmits', 3599000), history.points('VM-02', 'tx_bytes', 3599000)], [[], []]);
  equal(history.points('VM-01', 'tx_bytes', 3897500), [[3598000, 3598], [3599000, 3599]]);
});

test('a history takes each sample once', () => {
  const history = new RateHistory();
  const rates = { rx_messages: 7 };
  history.add('VM-01', undefined, 1000);
  history.add('VM-01', rates, 2000);
  history.add('VM-01', rates, 3000);
  history.add('VM-01', { rx_messages: 7 }, 4000);
  equal(history.points('VM-01', 'rx_messages', 4000), [[2000, 7], [4000, 7]]);
});

test('a history drops adapters that have gone', () => {
  const history = new RateHistory();
  history.add('VM-01', { tx_bytes: 1 }, 1000);
  history.add('VM-02', { tx_bytes: 2 }, 5000);
  history.forget(301001);
  equal([history.points('VM-01', 'tx_bytes', 2000), history.points('VM-02', 'tx_bytes', 5000)], [[], [[5000, 2]]]);
});

test('values as people read them', () => {
  equal([speed(10000), speed(100), speed(0)], ['10 Gbit/s', '100 Mbit/s', '--']);
  equal([nicSpeed({ link_up: false, speed_mbps: 1000 }), nicSpeed({ link_up: true, speed_mbps: 0 })], ['Down', 'Up']);
  equal([rate(undefined), rate(0), rate(1500), rate(2.5e6), rate(12.34e9)], ['--', '0.0 Mbit/s', '1.5 kbit/s', '2.5 Mbit/s', '12.3 Gbit/s']);
  equal([frequency(undefined), frequency(0), frequency(0.5), frequency(12345.6)], ['--', '0', '0.5', '12,346']);
  equal([memory(512), memory(2048), memory(1536)], ['512 MiB', '2 GiB', '1536 MiB']);
});

test('words of a command line are quoted', () => equal([quoted('vmk2'), quoted(''), quoted("a'b; rm")], ['vmk2', "''", "'a'\\''b; rm'"]));

test('addresses of views keep any name', () => equal(parse(to('hosts', 'a/b <c>', 'summary')), ['hosts', 'a/b <c>', 'summary']));
