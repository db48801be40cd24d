// Captures that this page makes: their bytes are kept in the page until somebody saves or discards them.
import { open_stream, Refusal } from './api.js';

export const kMostBytes = 64 * 1024 * 1024;

const kType = 'application/x-pcapng';

export const recordings = [];  // the newest first

let next = 1;

class Recording {
  state = 'runs';  // or why it has ended
  bytes = 0;

  #pieces = [];
  #end = new AbortController();

  constructor(adapter, wish) {
    this.id = next++;
    this.adapter = adapter;
    this.filter = wish.filter ?? '';
    this.at_ms = Date.now();
  }

  // Returns when the daemon has begun. Its refusal is thrown.
  async start(path, wish, changed) {
    const reader = await open_stream(path, wish, this.#end.signal);
    recordings.unshift(this);
    this.#read(reader).finally(changed);
  }

  stop() {
    if (this.state !== 'runs') return;
    this.state = 'stopped';
    this.#end.abort();
  }

  save() {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob(this.#pieces, { type: kType }));
    link.download = `${this.adapter}.pcapng`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  discard() {
    this.stop();
    recordings.splice(recordings.indexOf(this), 1);
  }

  async #read(reader) {
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        this.#pieces.push(value);
        this.bytes += value.length;
        if (this.bytes >= kMostBytes) {
          this.state = 'stopped: the page keeps no more than 64 MiB';
          this.#end.abort();
        }
      }
      if (this.state === 'runs') this.state = 'complete';
    } catch {
      if (this.state === 'runs') this.state = 'cut: the daemon has gone, or this page took too little';
    }
  }
}

// Begins a capture, or throws the daemon's refusal.
export async function record(adapter, path, wish, changed) {
  if (recordings.some((each) => each.state === 'runs' && each.adapter === adapter)) {
    throw new Refusal(`This page captures ${adapter} already: stop that capture first.`, 0);
  }
  await new Recording(adapter, wish).start(path, wish, changed);
}
