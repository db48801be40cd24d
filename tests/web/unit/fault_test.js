// What the fields of Inject Faults become in the request.
import { equal, test } from './harness.js';
import { filled, number } from '../../../ui/dialogs/fault.js';

test('blanks are no value, and around a value they do not count', () => {
  equal(filled({ adapter: 'VM-01', drop: ' ', delay: '', seed: ' 7 ' }), [['seed', '7']]);
});

test('only decimal numbers become numbers', () => {
  equal(['0', '0.01', '7', '1e3', '0x10', '-1', '.5', '1.', 'Infinity'].map(number), [0, 0.01, 7, '1e3', '0x10', '-1', '.5', '1.', 'Infinity']);
});
