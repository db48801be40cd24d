// Captures that this page makes: their bytes are kept in the page until somebody saves or discards them.
import { open_stream, Refusal } from './api.js';
import { save } from './save.js';

export const kMostBytes = 64 * 1024 * 1024;

const kType = 'application/x-pcapng';
const kBlockLeast = 12;
// A browser has six connections to one host, and the page itself needs some.
const kRunsMost = 2;

export const recordings = [];  // the newest first

let next = 1;

// How many bytes of a pcapng file are whole blocks. A capture that is stopped ends anywhere.
export function whole_blocks(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  let at = 0;
  while (at + kBlockLeast <= file.length) {
    const length = view.getUint32(at + 4, true);
    if (length < kBlockLeast || at + length > file.length) break;
    at += length;
  }
  return at;
}

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
    const reader = await open_stream(path, wish, kType, this.#end.signal);
    recordings.unshift(this);
    this.#read(reader).finally(changed);
  }

  stop() {
    if (this.state !== 'runs') return;
    this.state = 'stopped';
    this.#end.abort();
  }

  // The whole blocks that have arrived.
  contents() {
    const file = new Uint8Array(this.bytes);
    let at = 0;
    for (const piece of this.#pieces) {
      file.set(piece, at);
      at += piece.length;
    }
    return file.subarray(0, whole_blocks(file));
  }

  get file_name() {
    return `${this.adapter}.pcapng`;
  }

  save() {
    save(this.contents(), kType, this.file_name);
  }

  discard() {
    this.stop();
    const at = recordings.indexOf(this);
    if (at >= 0) recordings.splice(at, 1);
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
  const running = recordings.filter((each) => each.state === 'runs');
  if (running.some((each) => each.adapter === adapter)) throw new Refusal(`This page captures ${adapter} already: stop that capture first.`, 0);
  if (running.length >= kRunsMost) {
    throw new Refusal(`This page makes ${running.length} captures already: stop one of them first, or use the line below.`, 0);
  }
  await new Recording(adapter, wish).start(path, wish, changed);
}
