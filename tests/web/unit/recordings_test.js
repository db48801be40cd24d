// Captures that the page makes: how they end, and what stays of them.
import { equal, test } from './harness.js';
import { kMostBytes, record, recordings } from '../../../ui/recordings.js';

const kPath = '/v1/adapters/VM-01/capture';
const kMiB = 1024 * 1024;

// fetch() answers with `pull`'s stream; the returned promise ends when the recording has.
async function begin(adapter, pull) {
  globalThis.fetch = async (_, { signal }) => new Response(new ReadableStream({
    start: (stream) => signal.addEventListener('abort', () => stream.error(new DOMException('stopped', 'AbortError'))),
    pull,
  }));
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

test('one adapter is captured once at a time, and a stopped capture makes room', async () => {
  const end = begin('VM-01', () => new Promise(() => {}));
  await Promise.resolve();
  while (recordings.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  let refused = '';
  await record('VM-01', kPath, {}, () => {}).catch((error) => { refused = error.message; });
  equal(refused, 'This page captures VM-01 already: stop that capture first.');
  recordings[0].stop();
  await (await end);
  equal(recordings[0].state, 'stopped');
  recordings[0].discard();
});

test("the daemon's refusal is thrown, and leaves no file", async () => {
  globalThis.fetch = async () => new Response('{"error":"there are 4 captures already: end one of them"}', { status: 409 });
  let refused = '';
  await record('VM-01', kPath, {}, () => {}).catch((error) => { refused = error.message; });
  equal([refused, recordings.length], ['there are 4 captures already: end one of them', 0]);
});
