// Rates of counters by the second: the difference of two samples. A counter that shrinks, or a gap, starts again.
export const kGapMs = 10000;

export class Rates {
  #last = new Map();  // key -> {counts, now_ms, rates}
  #forgot_ms = 0;

  // counts: {name: count}. Returns {name: its growth in a second} since the sample before; undefined: there is none to compare with.
  update(key, counts, now_ms) {
    const before = this.#last.get(key);
    if (before !== undefined && now_ms === before.now_ms) return before.rates;
    const rates = before && growth(before, counts, now_ms);
    this.#last.set(key, { counts, now_ms, rates });
    if (Math.abs(now_ms - this.#forgot_ms) >= kGapMs) this.#forget(now_ms);
    return rates;
  }

  newest(key) {
    return this.#last.get(key)?.rates;
  }

  // Objects come and go: a sample is dropped when it is too old for the next one.
  #forget(now_ms) {
    this.#forgot_ms = now_ms;
    for (const [key, sample] of this.#last) {
      if (Math.abs(now_ms - sample.now_ms) >= kGapMs) this.#last.delete(key);
    }
  }
}

function growth(before, counts, now_ms) {
  const passed_ms = now_ms - before.now_ms;
  if (passed_ms <= 0 || passed_ms >= kGapMs) return undefined;
  const rates = {};
  for (const [name, count] of Object.entries(counts)) {
    if (!(count >= before.counts[name])) return undefined;
    rates[name] = ((count - before.counts[name]) * 1000) / passed_ms;
  }
  return rates;
}

// What counts the traffic of an adapter or of a QP.
export const traffic_of = ({ tx_messages, tx_bytes, rx_messages, rx_bytes }) => ({ tx_messages, tx_bytes, rx_messages, rx_bytes });

// Of the rates of traffic_of(), both directions together: bits and messages in a second.
export const throughput = (rates) => rates && 8 * (rates.tx_bytes + rates.rx_bytes);
export const message_rate = (rates) => rates && rates.tx_messages + rates.rx_messages;
