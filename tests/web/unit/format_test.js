// Sizes, shares and times as people read them.
import { equal, test } from './harness.js';
import { bytes, count, counted, ms, percent } from '../../../ui/format.js';

test('bytes are shown in the unit that people read', () => {
  const shown = [undefined, 0, 1023, 1024, 1536, 5 * 2 ** 20, 3 * 2 ** 30, 2 ** 42, 2 ** 60].map(bytes);
  equal(shown, ['--', '0 B', '1023 B', '1.0 KiB', '1.5 KiB', '5.0 MiB', '3.0 GiB', '4.0 TiB', '1048576.0 TiB']);
});

test('a percentage of nothing is not known, and 100 % is all of it', () => {
  equal([percent(0, 0), percent(1, 4), percent(9999, 10000), percent(5, 5)], ['--', '25 %', '99 %', '100 %']);
});

test('one thing has no plural', () => equal([0, 1, 2, 1000].map((number) => counted(number, 'port group')), ['0 port groups', '1 port group', '2 port groups', '1,000 port groups']));

test('large numbers are grouped', () => equal([0, 999, 16777216].map(count), ['0', '999', '16,777,216']));

test('microseconds are shown as milliseconds', () => equal(ms(40125), '40.1 ms'));
