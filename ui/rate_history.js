// The rates of adapters in the last five minutes.
//
// An adapter has a ring with room for a sample each second, which is made with its first sample, so a page that stays open does not
// grow. All times are by the page's clock.
export const kSpanMs = 300000;
const kSamples = 300;
const kNames = ['tx_messages', 'tx_bytes', 'rx_messages', 'rx_bytes', 'retransmits'];

class Ring {
  newest = undefined;  // the rates that were added last
  newest_ms = 0;
  #times_ms = new Float64Array(kSamples);
  #values = new Float32Array(kNames.length * kSamples);  // the samples of the first name, of the second, ...
  #added = 0;

  add(rates, at_ms) {
    const at = this.#added++ % kSamples;
    this.#times_ms[at] = at_ms;
    kNames.forEach((name, row) => { this.#values[row * kSamples + at] = rates[name] ?? NaN; });
    this.newest = rates;
    this.newest_ms = at_ms;
  }

  points(name, from_ms) {
    const row = kNames.indexOf(name) * kSamples;
    const points = [];
    for (let each = Math.max(0, this.#added - kSamples); each < this.#added; ++each) {
      const at = each % kSamples;
      const value = this.#values[row + at];
      if (this.#times_ms[at] >= from_ms && !Number.isNaN(value)) points.push([this.#times_ms[at], value]);
    }
    return points;
  }
}

export class RateHistory {
  #rings = new Map();

  // rates: as Rates.update() returns them. The same object again is no new sample.
  add(key, rates, at_ms) {
    if (rates === undefined) return;
    if (!this.#rings.has(key)) this.#rings.set(key, new Ring());
    const ring = this.#rings.get(key);
    if (rates !== ring.newest) ring.add(rates, at_ms);
  }

  // [[at_ms, rate]] of one of kNames, the oldest first. A rate that was not known is left out.
  points(key, name, now_ms) {
    return this.#rings.get(key)?.points(name, now_ms - kSpanMs) ?? [];
  }

  // Drops the rings of adapters that have gone.
  forget(now_ms) {
    for (const [key, ring] of this.#rings) {
      if (now_ms - ring.newest_ms > kSpanMs) this.#rings.delete(key);
    }
  }
}
