// The daemon's events as far as this page has read them, oldest first. The page reads on where it stopped when /v1/watch says that
// there are more.
import { get, Refusal } from './api.js';

const kPage = 1024;
const kKept = 4096;

export class EventFeed {
  events = [];
  lost = 0;       // how many the daemon had dropped before this page read them
  loaded = false;
  drawn = false;  // a view shows them
  trouble = '';

  #get;
  #boot = '';
  #last = 0;
  #round = null;  // the request that is under way
  #again = false;  // what came after it began may be missing

  constructor(ask = get) {
    this.#get = ask;
  }

  // Reads what is new. One request at a time: a call while one is under way makes it ask again, because its answer may be older.
  async read() {
    this.#again = this.#round !== null;
    this.#round ??= this.#read_all().finally(() => { this.#round = null; });
    return this.#round;
  }

  async #read_all() {
    try {
      for (let more = true; more;) {
        this.#again = false;
        more = this.#take(await this.#get(`/v1/events?after=${this.#last}&limit=${kPage}`)) || this.#again;
      }
      this.loaded = true;
      this.trouble = '';
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.trouble = error.message;
    }
  }

  // Returns whether there may be more.
  #take({ boot, events, last, lost }) {
    const is_another = this.#boot !== '' && boot !== this.#boot;
    this.#boot = boot;
    if (is_another) {  // another process, whose numbers begin again
      this.events = [];
      this.lost = 0;
      this.#last = 0;
      return true;
    }
    this.events = [...this.events, ...events].slice(-kKept);
    this.lost += lost;
    this.#last = last;
    return events.length === kPage;
  }
}
