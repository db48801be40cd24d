// /v1/watch: the daemon tells what has changed, in place of being asked for it.
//
// One tab of the browser reads the stream (it has the lock) and tells the others, so a browser has one stream however many tabs
// it has. A tab that nobody has seen for kHiddenMs gives the lock away, and so does a page that was left: the browser may keep it
// for "back", with its stream.
import { headers } from './api.js';
import { EventParser } from './events.js';

const kName = 'pvrdma-watch';
const kSilenceMs = 15000;  // the daemon sends a comment each 10 s
const kAgainMs = 2000;
const kRefusedAgainMs = 30000;  // the daemon has as many watchers as it allows
const kHiddenMs = 60000;

export class Watch {
  #tell;
  #channel = new BroadcastChannel(kName);
  #stop = null;

  // tell(event, data) gets each event, whichever tab reads the stream, and `ended` when the stream has ended or is refused.
  constructor(tell) {
    this.#tell = tell;
    this.#channel.onmessage = ({ data: [event, data] }) => (event === 'ask' ? this.#repeat() : tell(event, data));
  }

  start() {
    let hidden = 0;
    const look = () => {
      clearTimeout(hidden);
      if (document.hidden) hidden = setTimeout(() => this.stop(), kHiddenMs);
      else this.#lead();
    };
    document.addEventListener('visibilitychange', look);
    addEventListener('pagehide', () => {
      clearTimeout(hidden);
      this.stop();
    });
    addEventListener('pageshow', look);
    look();
  }

  stop() {
    this.#stop?.abort();
    this.#stop = null;
  }

  #lead() {
    if (this.#stop) return;
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    this.#channel.postMessage(['ask', null]);  // a tab that leads already says what it knows
    navigator.locks.request(kName, { signal }, () => this.#read_until(signal)).catch(() => {});  // it was stopped while it waited
  }

  #last = new Map();  // the last event of each kind, for tabs that come later

  #repeat() {
    for (const [event, data] of this.#last) this.#channel.postMessage([event, data]);
  }

  #pass({ event, data: text }) {
    const data = JSON.parse(text);
    this.#last.set(event, data);
    this.#tell_all(event, data);
  }

  #tell_all(event, data) {
    this.#channel.postMessage([event, data]);
    this.#tell(event, data);
  }

  async #read_until(signal) {
    while (!signal.aborted) {
      let wait_ms = kAgainMs;
      try {
        if (!await this.#read(signal)) wait_ms = kRefusedAgainMs;
      } catch {
        // The store's own requests say why the daemon is away.
      }
      this.#last.clear();
      this.#tell_all('ended', null);
      if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, wait_ms));
    }
  }

  // False: the daemon refuses. True: the stream has ended.
  async #read(signal) {
    const ended = new AbortController();
    const answer = await fetch('/v1/watch', { headers: headers(), signal: AbortSignal.any([signal, ended.signal]), cache: 'no-store', credentials: 'omit' });
    if (!answer.ok) return false;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    let silence = 0;
    for (;;) {
      silence = setTimeout(() => ended.abort(), kSilenceMs);
      const { value, done } = await reader.read().finally(() => clearTimeout(silence));
      if (done) return true;
      parser.feed(value).forEach((each) => this.#pass(each));
    }
  }
}
