// Counters that grew within the last minute.
import { equal, test } from './harness.js';
import { Growth } from '../../../ui/growth.js';

test('the first sample is no growth, a larger one is for a minute', () => {
  const growth = new Growth();
  growth.update([['a', 7]], 1000);
  equal(growth.is_recent('a', 1000), false);
  growth.update([['a', 8]], 2000);
  equal(growth.is_recent('a', 2000), true);
  growth.update([['a', 8]], 50000);
  equal([growth.is_recent('a', 62000), growth.is_recent('a', 62001)], [true, false]);
});

test('what grew at an unknown time, shrank or has gone is not recent', () => {
  const growth = new Growth();
  growth.update([['a', 1], ['b', 9]], 0);
  growth.update([['a', 2], ['b', 1]], 60001);
  equal([growth.is_recent('a', 60001), growth.is_recent('b', 60001)], [false, false]);
  growth.update([['a', 3]], 60002);
  growth.update([], 60003);
  equal(growth.is_recent('a', 60003), false);
});
