// Rates of counters: the difference of two samples. A counter that shrinks, or a gap, starts again.
const kGapMs = 10000;

export class Rates {
  #last = new Map();

  // The bits of a second since the sample before; undefined: there is none to compare with.
  update(key, bytes, now_ms) {
    const before = this.#last.get(key);
    if (before !== undefined && now_ms === before.now_ms) return before.rate;
    const passed_ms = before === undefined ? 0 : now_ms - before.now_ms;
    const usable = passed_ms > 0 && passed_ms < kGapMs && bytes >= before.bytes;
    const rate = usable ? ((bytes - before.bytes) * 8000) / passed_ms : undefined;
    this.#last.set(key, { bytes, now_ms, rate });
    return rate;
  }

  newest(key) {
    return this.#last.get(key)?.rate;
  }
}
