// Captures that the page makes: how they end, and what stays of them.
import { equal, test } from './harness.js';
import { kMostBytes, record, recordings, whole_blocks } from '../../../ui/recordings.js';

const kPath = '/v1/adapters/VM-01/capture';
const kPcapng = { headers: { 'Content-Type': 'application/x-pcapng' } };
const kMiB = 1024 * 1024;

// fetch() answers with `pull`'s stream; the returned promise ends when the recording has.
async function begin(adapter, pull) {
  globalThis.fetch = async (_, { signal }) => new Response(new ReadableStream({
    start: (stream) => signal.addEventListener('abort', () => stream.error(new DOMException('stopped', 'AbortError'))),
    pull,
  }), kPcapng);
  let ended;
  const end = new Promise((resolve) => { ended = resolve; });
  await record(adapter, kPath, { filter: 'in' }, ended);
  return end;
}

test('a file whose stream ends is complete', async () => {
  let left = 3;
  await begin('VM-01', (stream) => (left-- > 0 ? stream.enqueue(new Uint8Array(10)) : stream.close()));
  equal([recordings[0].state, recordings[0].bytes, recordings[0].filter], ['complete', 30, 'in']);
  recordings[0].discard();
  equal(recordings.length, 0);
});

test('a stream that is cut says so, and its bytes stay', async () => {
  let left = 1;
  await begin('VM-01', (stream) => (left-- > 0 ? stream.enqueue(new Uint8Array(10)) : stream.error(new TypeError('cut'))));
  equal([recordings[0].state.split(':')[0], recordings[0].bytes], ['cut', 10]);
  recordings[0].discard();
});

test('the page keeps no more than it has room for', async () => {
  await begin('VM-01', (stream) => stream.enqueue(new Uint8Array(kMiB)));
  equal([recordings[0].state.split(':')[0], recordings[0].bytes], ['stopped', kMostBytes]);
  recordings[0].discard();
});

// A block of pcapng: type, length, nothing, length.
function block(type, length) {
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, type, true);
  view.setUint32(4, length, true);
  view.setUint32(length - 4, length, true);
  return bytes;
}

test('a stream that ends in the middle of a block is saved up to that block', async () => {
  const pieces = [block(0x0a0d0d0a, 28), block(6, 40).subarray(0, 30), block(6, 40).subarray(30), block(6, 1000).subarray(0, 500)];
  const left = [...pieces];
  await begin('VM-01', (stream) => (left.length > 0 ? stream.enqueue(left.shift()) : stream.error(new TypeError('cut'))));
  const [file] = recordings;
  equal([file.bytes, file.contents().length, [...file.contents().subarray(28, 32)]], [568, 68, [6, 0, 0, 0]]);
  file.discard();
});

test('lengths of blocks that cannot be end the file', () => {
  const whole = block(6, 12);
  for (const bad of [[0, 0, 0, 0], [11, 0, 0, 0], [255, 255, 255, 255]]) {
    equal(whole_blocks(new Uint8Array([...whole, 6, 0, 0, 0, ...bad, 0, 0, 0, 0])), 12);
  }
  equal([whole_blocks(new Uint8Array(0)), whole_blocks(whole.subarray(0, 11)), whole_blocks(whole)], [0, 0, 12]);
});

test('a file that is discarded twice takes no other with it', async () => {
  for (const name of ['VM-01', 'VM-02']) await begin(name, (stream) => stream.close());
  const [second, first] = recordings;
  second.discard();
  second.discard();
  equal(recordings.map((each) => each.adapter), ['VM-01']);
  first.discard();
});

test('a third capture at once is refused, because a browser has few connections', async () => {
  const ends = [];
  for (const name of ['VM-01', 'VM-02']) {
    ends.push(begin(name, () => new Promise(() => {})));
    while (recordings[0]?.adapter !== name) await new Promise((resolve) => { setTimeout(resolve, 1); });
  }
  let refused = '';
  await record('VM-03', kPath, {}, () => {}).catch((error) => { refused = error.message; });
  equal([refused.split(':')[0], recordings.length], ['This page makes 2 captures already', 2]);
  recordings[0].stop();
  await ends[1];
  await begin('VM-03', (stream) => stream.close());
  equal(recordings[0].state, 'complete');
  for (const each of [...recordings]) each.discard();
  await ends[0];
});

// fetch() answers so; returns the refusal.
async function refusal_of(fetch) {
  globalThis.fetch = fetch;
  let refused = '';
  await record('VM-01', kPath, {}, () => {}).catch((error) => { refused = error.message; });
  equal(recordings.length, 0);
  return refused;
}

test('an answer that is no capture begins none', async () => {
  const other = 'The answer to POST /v1/adapters/VM-01/capture';
  let cancelled = false;
  const endless = new ReadableStream({ pull: (stream) => stream.enqueue(new Uint8Array(10)), cancel: () => { cancelled = true; } });
  equal(await refusal_of(async () => new Response(endless, { headers: { 'Content-Type': 'text/html' } })),
        `${other} (status 200) is not application/x-pcapng: another program answers, or it was cut.`);
  equal(cancelled, true);
  equal(await refusal_of(async () => new Response('<html>', { status: 502 })), `${other} (status 502) is not JSON: another program answers, or it was cut.`);
  equal(await refusal_of(async () => new Response('null', { status: 502 })), 'POST /v1/adapters/VM-01/capture: status 502');
  const cut = new ReadableStream({ pull: (stream) => stream.error(new TypeError('cut')) });
  equal(await refusal_of(async () => new Response(cut, { status: 409 })), 'The daemon cannot be reached.');
});

test('one adapter is captured once at a time, and a stopped capture makes room', async () => {
  const end = begin('VM-01', () => new Promise(() => {}));
  await Promise.resolve();
  while (recordings.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  let refused = '';
  await record('VM-01', kPath, {}, () => {}).catch((error) => { refused = error.message; });
  equal(refused, 'This page captures VM-01 already: stop that capture first.');
  recordings[0].stop();
  await end;
  equal(recordings[0].state, 'stopped');
  await begin('VM-01', (stream) => stream.close());
  equal(recordings.map(({ state }) => state), ['complete', 'stopped']);
  while (recordings.length > 0) recordings[0].discard();
});

test("the daemon's refusal is thrown, and leaves no file", async () => {
  globalThis.fetch = async () => new Response('{"error":"there are 4 captures already: end one of them"}', { status: 409 });
  let refused = '';
  await record('VM-01', kPath, {}, () => {}).catch((error) => { refused = error.message; });
  equal([refused, recordings.length], ['there are 4 captures already: end one of them', 0]);
});
