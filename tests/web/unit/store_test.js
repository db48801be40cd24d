// What the daemon tells by itself, after a request for the same failed.
import { equal, test } from './harness.js';
import { Store } from '../../../ui/store.js';

const answers = { '/v1/version': [200, { host: '', features: ['watch'] }], '/v1/adapters': [200, []], '/v1/watch': [503, { error: 'no' }],
                  '/v1/motions': [503, { error: 'the store is away' }] };

test('an event of /v1/watch ends the trouble of its path', async () => {
  globalThis.fetch = async (path) => new Response(JSON.stringify(answers[path][1]), { status: answers[path][0] });
  const changes = [];
  const store = new Store(() => changes.forEach((done) => done()));
  const until = (look) => new Promise((done) => { changes.push(() => look() && done()); if (look()) done(); });
  await store.refresh();
  const motions = store.detail('/v1/motions');
  await until(() => motions.trouble === 'the store is away');
  new BroadcastChannel('pvrdma-watch').postMessage(['motions', [{ id: 'm1' }]]);  // as from a tab that reads the stream
  await until(() => motions.value !== undefined);
  equal([motions.value, motions.trouble], [[{ id: 'm1' }], undefined]);
});
