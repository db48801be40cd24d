// Sparklines: the line, its gaps, and the text that says the same.
import { equal, test } from './harness.js';
import { frequency } from '../../../ui/format.js';
import { render } from '../../../ui/lit.js';
import { polylines, sentence, sparkline, summary_of } from '../../../ui/sparkline.js';

const kNow = 1e12;
const ago = (...pairs) => pairs.map(([seconds, value]) => [kNow - seconds * 1000, value]);

test('now is at the right, five minutes ago at the left, the maximum on top', () => {
  equal(polylines(ago([300, 0], [295, 5], [290, 10]), kNow, 300, 22), ['0.0,21.0 5.0,11.0 10.0,1.0']);
  equal(polylines(ago([1, 10], [0, 5]), kNow, 300, 22), ['299.0,1.0 300.0,11.0']);
});

test('zeros are at the bottom', () => equal(polylines(ago([1, 0], [0, 0]), kNow, 300, 22), ['299.0,21.0 300.0,21.0']));

test('a gap breaks the line', () => equal(polylines(ago([12, 1], [11, 1], [1, 1]), kNow, 300, 22), ['288.0,1.0 289.0,1.0', '299.0,1.0']));

test('without points there is no line', () => equal(polylines([], kNow), []));

test('least, most and now', () => {
  equal(summary_of(ago([3, 4], [2, 1], [1, 2]), kNow), { least: 1, most: 4, now: 2 });
  equal(summary_of(ago([30, 4]), kNow), { least: 4, most: 4, now: undefined });
  equal(summary_of([], kNow), { least: undefined, most: undefined, now: undefined });
});

test('the text of a line', () => {
  equal(sentence('Messages/s', { least: 0, most: 1234, now: 0.5 }, frequency), 'Messages/s in the last 5 minutes: least 0, most 1,234, now 0.5');
  equal(sentence('Messages/s', { least: 7, most: 7, now: undefined }, frequency), 'Messages/s in the last 5 minutes: least 7.0, most 7.0, now not known');
  equal(sentence('Messages/s', summary_of([], kNow), frequency), 'Messages/s in the last 5 minutes: not known');
});

test('an image with a text', () => {
  const place = document.createElement('div');
  render(sparkline(ago([20, 1], [1, 1], [0, 2]), kNow, 'what it shows'), place);
  const image = place.querySelector('svg');
  equal([image.getAttribute('role'), image.getAttribute('aria-label')], ['img', 'what it shows']);
  equal([...image.querySelectorAll('polyline')].map((line) => line.namespaceURI), Array(2).fill('http://www.w3.org/2000/svg'));
});
