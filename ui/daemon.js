// A host's daemon, as views ask it for what it alone knows: the one that serves this page, or another one. The page's daemon asks
// that one for the page (GET /v1/hosts/HOST/...).

export class Daemon {
  #store;

  // `host`: as the inventory has it.
  constructor(store, host) {
    this.#store = store;
    this.name = host.name;
    this.self = host.self;
    this.alive = host.alive;
  }

  // Why the page cannot ask it; '': it can.
  get trouble() {
    if (this.self) return '';
    if (!this.alive) return `${this.name} is not alive: only its own daemon knows this.`;
    return this.#store.has('relay') ? '' : `Only the daemon of ${this.name} knows this. Open its own page, or give the hosts certificates: then each page shows all hosts.`;
  }

  // As Store.detail().
  detail(path) {
    return this.self ? this.#store.detail(path) : this.#store.detail(path.replace('/v1', `/v1/hosts/${encodeURIComponent(this.name)}`), true);
  }

  // As detail(), of what the store has of its own daemon anyway.
  get adapters() {
    return this.#own('adapters');
  }

  get cluster() {
    return this.#own('cluster');
  }

  // The throughput of one of its adapters; undefined: not known yet.
  rate_of(adapter, at_ms) {
    return this.self ? adapter.rate : this.#store.rates.update(`${this.name}/${adapter.name}`, adapter.tx_bytes + adapter.rx_bytes, at_ms);
  }

  // Why its adapters cannot be acted on from this page; '': they can. Daemons only read for each other.
  get cannot_act() {
    return this.self ? this.#store.cannot_act : `Only the page of ${this.name} can do that.`;
  }

  #own(name) {
    return this.self ? { value: this.#store.data[name], at_ms: this.#store.at_ms } : this.detail(`/v1/${name}`);
  }
}
