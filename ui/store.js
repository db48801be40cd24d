// What the daemon says: a copy of its inventory, asked for every two seconds, and how fresh it is.
//
// The copy stays when the daemon goes away, and the store tries again after 1, 2, 5 and 10 s. Views draw from `data`, and name
// further paths by detail(): these are asked for as long as a view draws them. A daemon that has /v1/watch tells hosts, switches
// and VMs by itself, or only that they changed if there are many. They are then asked for only after an edit and such a change,
// and the version only when the stream begins again.
import { get, request, Refusal, token } from './api.js';
import { EventFeed } from './event_feed.js';
import { MotionTasks } from './motion_tasks.js';
import { RateHistory } from './rate_history.js';
import { Rates, throughput, traffic_of } from './rates.js';
import { Watch } from './watch.js';

const kPeriodMs = 2000;
const kAgainMs = [1000, 2000, 5000, 10000];
const kHiddenMs = 60000;  // a page that nobody has seen for this long asks no more
const kTasks = 20;
const kLongRows = 2000;  // an answer with more is asked for less often
const kLongMs = 5000;
const kStatsMs = 3000;  // counters of /v1/watch that are older are not used
const kFirstMs = 500;   // the first answers wait this long for the inventory of /v1/watch
const kInventory = ['hosts', 'dvs', 'vms'];  // of an event `inventory` of /v1/watch
const kTold = ['version', ...kInventory];  // asked for only while /v1/watch does not tell
const kPaths = { version: '/v1/version', hosts: '/v1/hosts', dvs: '/v1/dvs', vms: '/v1/vms', cluster: '/v1/cluster', adapters: '/v1/adapters' };

const kOtherToken = 'The daemon has other tokens: this is neither the first line of [api] token_file nor that of read_token_file.';
const kUnknown = 'It is not known whether this was done: look before you do it again.';
const kEditsMax = 64;  // of one request
const kNoBatch = 'This daemon is older than its page and cannot try edits or make several at once: load the page again, or use pvrdmactl.';

export class Store {
  data = null;      // {version, hosts, dvs, vms, cluster, adapters}; null: nothing has arrived yet
  outside = '';     // why the daemon has no inventory: it is not a member of a cluster
  live = false;
  at_ms = 0;        // when `data` arrived
  trouble = '';     // why the last request failed
  login = '';       // '': no token is missing; otherwise the sentence with which the daemon asks for one
  tasks = [];       // edits of this session
  motions = new MotionTasks();
  feed = new EventFeed();
  rates = new Rates();  // by this page's clock
  history = new RateHistory();  // of adapters

  #changed;
  #details = new Map();  // path -> {value, trouble, at_ms, drawn}
  #relayed = Promise.resolve();  // the last request that another host's daemon answers; they are made one after the other
  #failures = 0;
  #timer = 0;
  #round = null;  // the request that is under way
  #looks_next = false;
  #hidden_since_ms = 0;
  #watch = null;    // null: the daemon does not have it, or nothing has arrived yet
  #stats_ms = 0;    // when /v1/watch last told counters
  #told_rates = new Rates();  // of its counters, by the daemon's clock
  #inventory = null;  // what /v1/watch last told of kInventory; null: nothing, or that it has changed
  #tells_inventory = false;  // /v1/watch tells kInventory, or each change of it
  #decided = () => {};  // called when it is known whether /v1/watch tells kInventory

  constructor(changed) {
    this.#changed = changed;
  }

  start() {
    const note = () => { this.#hidden_since_ms = document.hidden ? Date.now() : 0; };
    document.addEventListener('visibilitychange', () => {
      note();
      if (!document.hidden) this.refresh();
    });
    note();  // a tab may be opened in the background
    this.refresh();
  }

  // Asks for everything now.
  refresh() {
    return this.#begin(Object.keys(kPaths));
  }

  // Asks for what the daemon does not tell by itself. Called every two seconds.
  look() {
    const is_told = this.live && this.#tells_inventory && Date.now() - this.#stats_ms < kStatsMs;
    return this.#begin(Object.keys(kPaths).filter((name) => !is_told || !kTold.includes(name)));
  }

  async #begin(names) {
    while (this.#round) await this.#round;
    clearTimeout(this.#timer);
    this.#round = this.#ask_and_note(names);
    await this.#round;
  }

  async #ask_and_note(names) {
    let wait_ms = kPeriodMs;
    try {
      await this.#ask(names);
      this.#failures = 0;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      wait_ms = kAgainMs[Math.min(this.#failures++, kAgainMs.length - 1)];
      this.live = false;
      this.trouble = error.message;
      if (error.status === 401) this.login = token.get() ? kOtherToken : 'This address needs a token.';
      else if (this.login) this.login = error.message;
    } finally {
      this.#round = null;
      this.#timer = setTimeout(() => this.#tick(), wait_ms);
      this.#changed();
    }
  }

  // The answer of a further path: {value, trouble, at_ms}, all undefined until it arrives. `relayed`: another host's daemon answers.
  detail(path, relayed = false) {
    let detail = this.#details.get(path);
    if (detail === undefined) {
      detail = { value: undefined, trouble: undefined, drawn: true, relayed };
      this.#details.set(path, detail);
      if (relayed) this.#ask_relayed(path, detail);
      else this.#ask_detail(path, detail).then(this.#changed);
    }
    detail.drawn = true;
    return detail;
  }

  // Why this host's adapters cannot be acted on; '': they can. That needs no store.
  get cannot_act() {
    if (!this.data || !this.live) return 'The daemon does not answer.';
    return this.data.version.role === 'read-only' ? 'You are logged in with the read-only token.' : '';
  }

  // The same, for what needs one of its adapters.
  get cannot_act_on_adapters() {
    return this.cannot_act || (this.data.adapters.length ? '' : 'This host serves no adapter.');
  }

  // Why the configuration cannot be changed; '': it can.
  get cannot_edit() {
    const why = this.cannot_act || this.outside;
    if (why) return why;
    const { store } = this.data.cluster;
    return store.connected ? '' : 'The store is away.';
  }

  has(feature) {
    return this.data?.version.features?.includes(feature) ?? false;
  }

  // Carries out edits [{method, path, body, patience_ms}], all or none of them. `title` and `target` name the task. With
  // `revision` they are refused if the configuration has another one by then. Returns the daemon's answer.
  async edit(title, target, edits, revision) {
    const task = { title, target, state: 'running', at_ms: Date.now() };
    this.tasks = [task, ...this.tasks].slice(0, kTasks);
    this.#changed();
    try {
      const [edit] = edits;
      const answer = edits.length === 1 && revision === undefined ? await request(edit.method, edit.path, edit.body, edit.patience_ms)
                                                                  : await this.#batch(edits, { revision });
      task.state = 'done';
      return answer;
    } catch (error) {
      if (error.status === 0) error.message += ` ${kUnknown}`;
      task.state = error.status === 0 ? 'unknown' : 'refused';
      task.trouble = error.message;
      throw error;
    } finally {
      const shown = this.refresh();
      if (task.state !== 'unknown') await shown;  // a daemon that did not answer may not answer this either
    }
  }

  // What the edits would change: {revision, changes, answers}.
  rehearse(edits) {
    return this.#batch(edits, { dry_run: true });
  }

  // Several edits as one, without what only dialogs use.
  async #batch(edits, more) {
    if (!this.has('batch')) throw new Refusal(kNoBatch, 501);
    if (edits.length > kEditsMax) {
      throw new Refusal(`These are ${edits.length} edits, and at most ${kEditsMax} are made at once: nothing was changed. Choose less, and do the rest after it.`, 413);
    }
    return request('POST', '/v1/batch', { edits: edits.map(({ method, path, body }) => ({ method, path, body })), ...more });
  }

  async #ask(names) {
    const told = this.#inventory;
    const version = names.includes('version') ? await get(kPaths.version) : this.data.version;
    const wanted = names.filter((name) => name !== 'version');
    const in_cluster = version.host !== null && version.host !== '';
    if (version.features?.includes('watch') && this.#watch === null) {
      this.#watch = new Watch((event, told) => this.#told(event, told));
      this.#watch.start();
    }
    const answers = await this.#answers(in_cluster ? wanted : ['adapters'], in_cluster && this.data === null && this.#watch !== null);
    const known = in_cluster && this.data ? this.data : { hosts: [], dvs: [], vms: [], cluster: null, adapters: [] };
    this.outside = in_cluster ? '' : 'This daemon is not a member of a cluster: its configuration has no [host] table.';
    this.data = { ...known, version, ...answers };
    if (in_cluster && this.#inventory !== told) Object.assign(this.data, this.#inventory);  // an answer may be older than what was told meanwhile
    this.at_ms = Date.now();
    this.live = true;
    this.trouble = '';
    this.login = '';
    this.#take_adapters(this.data.adapters);
    if (this.feed.drawn) {  // after a gap of the watch, or without one
      this.feed.drawn = false;
      this.feed.read().then(this.#changed);
    }
    await Promise.all([...this.#details].map(([path, detail]) => {
      if (!detail.drawn) return this.#details.delete(path);
      detail.drawn = false;
      if (detail.value?.length > kLongRows && Date.now() - detail.at_ms < kLongMs) return undefined;
      return detail.relayed ? this.#ask_relayed(path, detail) : this.#ask_detail(path, detail);
    }));
  }

  // {name: answer}. `first`: kInventory is asked for only if /v1/watch does not tell it.
  async #answers(names, first) {
    const ask = async (some) => Object.fromEntries(await Promise.all(some.map(async (name) => [name, await get(kPaths[name])])));
    if (!first) return ask(names);
    const decided = this.#inventory !== null ? undefined : new Promise((resolve) => {
      this.#decided = resolve;
      setTimeout(resolve, kFirstMs);
    });
    const answers = await ask(names.filter((name) => !kInventory.includes(name)));
    await decided;
    return this.#inventory !== null ? answers : { ...answers, ...await ask(kInventory) };
  }

  // Nobody waits for it: another host may be slow, and what this page's daemon says must not be late for that.
  #ask_relayed(path, detail) {
    if (detail.is_asked) return;
    detail.is_asked = true;
    const ask = async () => {
      await this.#ask_detail(path, detail);
      detail.is_asked = false;
      this.#changed();
    };
    this.#relayed = this.#relayed.then(ask, ask);
  }

  async #ask_detail(path, detail) {
    try {
      detail.value = await get(path);
      detail.at_ms = Date.now();
      detail.trouble = undefined;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      detail.trouble = error.message;
    }
  }

  // An event of /v1/watch, or `ended`: it tells nothing.
  #told(event, data) {
    // Also while the requests fail: these come only once.
    if (event === 'motions') this.#take_motions(data);
    else if (event === 'inventory') this.#take_inventory(true, { hosts: data.hosts, dvs: data.dvs, vms: data.vms });
    else if (event === 'changed' && data.what === 'inventory') this.#take_inventory(true, null);
    else if (event === 'hello' || event === 'ended') this.#take_inventory(false, null);
    if (this.#tells_inventory || event === 'ended') this.#decided();
    if (!this.live) return this.#changed();
    if (event === 'store' && this.data.cluster) Object.assign(this.data.cluster.store, data);
    else if (event === 'stats') this.#take_stats(data);
    else if (event === 'events') this.#take_events(data.events);
    else if (event === 'changed' || event === 'hello') this.refresh();
    this.#changed();
  }

  // Why connections take their paths is a detail, and asked for: now, if something about the paths has happened.
  #take_events(events) {
    if (this.feed.loaded) this.feed.read().then(this.#changed);
    if (events.some(({ type }) => type === 'path')) this.#look_next();
  }

  // Asks once more when the request that is under way has ended.
  async #look_next() {
    if (this.#looks_next) return;
    this.#looks_next = true;
    while (this.#round) await this.#round;
    this.#looks_next = false;
    this.look();
  }

  #take_inventory(is_told, inventory) {
    this.#tells_inventory = is_told;
    this.#inventory = inventory;
    if (this.data) Object.assign(this.data, inventory);
  }

  #take_motions(motions) {
    this.motions.take(motions);
    const detail = this.#details.get('/v1/motions');
    if (detail) Object.assign(detail, { value: motions, trouble: undefined });
  }

  // The adapters as they were asked for. Their counters make the rates while /v1/watch does not tell any.
  #take_adapters(adapters) {
    const is_told = this.at_ms - this.#stats_ms < kStatsMs;
    for (const adapter of adapters) {
      const asked = this.rates.update(adapter.name, traffic_of(adapter), this.at_ms);
      adapter.rate = throughput(is_told ? this.#told_rates.newest(adapter.name) : asked);
      if (!is_told) this.history.add(adapter.name, asked, this.at_ms);
    }
    this.history.forget(this.at_ms);
  }

  // The members of an adapter that /v1/watch sends each second, as raw counters.
  #take_stats({ t, adapters }) {
    this.#stats_ms = Date.now();
    for (const [name, state, link_up, tx_messages, tx_bytes, rx_messages, rx_bytes, retransmits] of adapters) {
      const adapter = this.data.adapters.find((each) => each.name === name);
      if (!adapter) continue;
      const traffic = { tx_messages, tx_bytes, rx_messages, rx_bytes };
      const rates = this.#told_rates.update(name, { ...traffic, retransmits }, t);
      Object.assign(adapter, { state, link_up, ...traffic, rate: throughput(rates) });
      this.history.add(name, rates, this.#stats_ms);
    }
  }

  #tick() {
    if (this.#hidden_since_ms && Date.now() - this.#hidden_since_ms > kHiddenMs) return;  // refresh() when it is seen again
    this.look();
  }
}
