// A host's daemon, as views ask it for what it alone knows: the one that serves this page, or another one. The page's daemon asks
// that one for the page (GET /v1/hosts/HOST/...).
import { throughput, traffic_of } from './rates.js';

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

  // The value of its answer; undefined: it cannot be asked, or nothing has arrived yet.
  known(path) {
    return this.trouble ? undefined : this.detail(path).value;
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
    return this.self ? adapter.rate : throughput(this.#store.rates.update(this.#key(adapter), traffic_of(adapter), at_ms));
  }

  // Takes the counters of one of its adapters into the history of rates. The store has its own daemon's there anyway.
  note(adapter, { verbs }, at_ms) {
    if (this.self || verbs === undefined) return;
    const rates = this.#store.rates.update(`${this.#key(adapter)}/verbs`, { ...traffic_of(verbs), retransmits: verbs.retransmits }, at_ms);
    this.#store.history.add(this.#key(adapter), rates, at_ms);
  }

  // As RateHistory.points(), of one of its adapters.
  points(adapter, name, now_ms) {
    return this.#store.history.points(this.#key(adapter), name, now_ms);
  }

  // Why its adapters cannot be acted on from this page; '': they can. Daemons only read for each other.
  get cannot_act() {
    return this.self ? this.#store.cannot_act : `Only the page of ${this.name} can do that.`;
  }

  #key({ name }) {
    return this.self ? name : `${this.name}/${name}`;
  }

  #own(name) {
    return this.self ? { value: this.#store.data[name], at_ms: this.#store.at_ms } : this.detail(`/v1/${name}`);
  }
}

// The daemon of a host; of one that the cluster does not have, as of one that is not alive.
export const daemon_of = (store, name) => new Daemon(store, store.data.hosts.find((host) => host.name === name) ?? { name, self: false, alive: false });

// The daemon that serves this page. One that is in no cluster has no name.
export const own_daemon = (store) => new Daemon(store, { name: '', self: true, alive: true });
