// Counters that grew within the last minute. Their first sample only says how large they were.
const kRecentMs = 60000;

export class Growth {
  #last = new Map();  // key -> {count, at_ms, grew_ms}

  // Takes the samples [[key, count]] of now; what is not among them is forgotten. A count that grew while nobody looked for longer
  // than a minute does not say when.
  update(samples, now_ms) {
    this.#last = new Map(samples.map(([key, count]) => {
      const before = this.#last.get(key);
      const grew = before !== undefined && count > before.count && now_ms - before.at_ms <= kRecentMs;
      return [key, { count, at_ms: now_ms, grew_ms: grew ? now_ms : before?.grew_ms ?? -Infinity }];
    }));
  }

  is_recent(key, now_ms) {
    return now_ms - (this.#last.get(key)?.grew_ms ?? -Infinity) <= kRecentMs;
  }
}
