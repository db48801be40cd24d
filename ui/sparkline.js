// A sparkline: how a value went in the last five minutes, as a line from 0 to its maximum. A text says the same.
//
// Points are [[at_ms, value]], the oldest first. The right edge is now. Where no value is known, the line is broken.
import { html, svg } from './lit.js';
import { kSpanMs } from './rate_history.js';
import { kGapMs } from './rates.js';

const kWidth = 200;
const kHeight = 24;
const kEdge = 1;  // room for half of the line's width

const values = (points) => points.map(([, value]) => value);

// The values that the text and the view name; undefined: not known.
export function summary_of(points, now_ms) {
  if (points.length === 0) return { least: undefined, most: undefined, now: undefined };
  const [at_ms, value] = points.at(-1);
  return { least: Math.min(...values(points)), most: Math.max(...values(points)), now: now_ms - at_ms < kGapMs ? value : undefined };
}

// The attributes `points` of polylines, one for each stretch without a gap.
export function polylines(points, now_ms, width = kWidth, height = kHeight) {
  const most = Math.max(...values(points));
  const x = (at_ms) => width * (1 - (now_ms - at_ms) / kSpanMs);
  const y = (value) => height - kEdge - (most > 0 ? ((height - 2 * kEdge) * value) / most : 0);
  const stretches = [];
  let before_ms = -Infinity;
  for (const [at_ms, value] of points) {
    if (at_ms - before_ms >= kGapMs) stretches.push([]);
    stretches.at(-1).push(`${x(at_ms).toFixed(1)},${y(value).toFixed(1)}`);
    before_ms = at_ms;
  }
  return stretches.map((stretch) => stretch.join(' '));
}

// "Throughput in the last 5 minutes: least 0, most 7, now 5". `format` makes the text of a value.
export function sentence(label, { least, most, now }, format) {
  const about = `${label} in the last 5 minutes`;
  if (most === undefined) return `${about}: not known`;
  return `${about}: least ${format(least)}, most ${format(most)}, now ${now === undefined ? 'not known' : format(now)}`;
}

// `text`: what the line shows, for those who do not see it.
export const sparkline = (points, now_ms, text) => html`<svg class="sparkline" role="img" aria-label=${text} viewBox="0 0 ${kWidth} ${kHeight}"
  preserveAspectRatio="none">${polylines(points, now_ms).map((line) => svg`<polyline points=${line}></polyline>`)}</svg>`;
