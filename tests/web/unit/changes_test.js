// How the last step of a wizard shows values.
import { shown } from '../../../ui/changes.js';
import { equal, test } from './harness.js';

test('a value of each kind has a text', () => {
  equal([null, '', 0, false, 'vmk2', 9000].map(shown), ['--', 'none', '0', 'false', 'vmk2', '9000']);
});

test('lists are joined, and an empty object says only that it is there', () => {
  equal([['uplink1', 'uplink2'], [], {}].map(shown), ['uplink1, uplink2', 'none', 'yes']);
});
