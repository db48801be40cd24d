// What the daemon tells by itself, after a request for the same failed and in place of requests; and what other hosts are asked for.
import { equal, test } from './harness.js';
import { Store } from '../../../ui/store.js';

const answers = { '/v1/version': [200, { host: '', features: ['watch'] }], '/v1/adapters': [200, []], '/v1/watch': [503, { error: 'no' }],
                  '/v1/motions': [503, { error: 'the store is away' }] };

test('what /v1/watch tells is not asked for, until it tells no more', async () => {
  let asked = [];
  let meanwhile = () => {};  // what happens while /v1/hosts is answered
  const own = { '/v1/version': { host: 'esx-01', features: ['watch'] }, '/v1/hosts': ['asked'], '/v1/dvs': [], '/v1/vms': [], '/v1/cluster': { store: {} }, '/v1/adapters': [] };
  globalThis.fetch = async (path) => {
    if (path !== '/v1/watch') asked.push(path);
    if (path === '/v1/hosts') await meanwhile();
    return new Response(JSON.stringify(own[path] ?? { error: 'no' }), { status: own[path] ? 200 : 503 });
  };
  const changes = [];
  const store = new Store(() => changes.forEach((done) => done()));
  const until = (look) => new Promise((done) => { changes.push(() => look() && done()); if (look()) done(); });
  const [timer, clock] = [globalThis.setTimeout, Date.now];
  let now = 1e12;
  globalThis.setTimeout = () => 0;  // nothing is asked for but by this test
  Date.now = () => now;
  const stream = new BroadcastChannel('pvrdma-watch');  // as a tab that reads the stream
  const tell = (hosts) => {
    stream.postMessage(['stats', { t: 1, adapters: [] }]);
    stream.postMessage(['inventory', { hosts: [hosts], dvs: [], vms: [] }]);
    return until(() => store.data.hosts[0] === hosts);
  };
  const asked_by = async (work) => {
    asked = [];
    await work();
    return asked.sort();
  };
  const [little, all] = [['/v1/adapters', '/v1/cluster'], ['/v1/adapters', '/v1/cluster', '/v1/dvs', '/v1/hosts', '/v1/version', '/v1/vms']];
  equal(await asked_by(() => store.refresh()), all);
  await tell('told');
  equal(await asked_by(() => store.look()), little);
  equal(store.data.hosts, ['told']);
  equal(await asked_by(() => store.refresh()), all);
  equal(store.data.hosts, ['asked']);
  meanwhile = () => tell('told while it answered');
  await store.refresh();
  equal(store.data.hosts, ['told while it answered']);
  meanwhile = () => {};
  stream.postMessage(['changed', { what: 'inventory' }]);  // it is too large to be told
  await until(() => store.data.hosts[0] === 'asked');
  equal(await asked_by(() => store.look()), little);
  own['/v1/hosts'] = ['changed'];
  stream.postMessage(['changed', { what: 'inventory' }]);
  await until(() => store.data.hosts[0] === 'changed');
  equal(await asked_by(() => store.look()), little);
  own['/v1/hosts'] = ['asked'];
  stream.postMessage(['ended', null]);
  stream.postMessage(['store', { trouble: 'told after it' }]);
  await until(() => store.data.cluster.store.trouble === 'told after it');
  equal(await asked_by(() => store.look()), all);
  await tell('told again');
  equal(await asked_by(() => store.look()), little);
  delete own['/v1/adapters'];
  await store.look();
  equal(store.live, false);
  await tell('told while requests failed');
  own['/v1/adapters'] = [];
  equal(await asked_by(() => store.look()), all);
  await tell('told again');
  now += 4000;  // no counters came for longer than three seconds
  equal(await asked_by(() => store.look()), all);
  await tell('told again');
  own['/v1/version'] = { ...own['/v1/version'], role: 'read-only' };
  stream.postMessage(['hello', { boot: 'another' }]);  // the stream begins again: it may be another daemon
  await until(() => store.data.version.role === 'read-only');
  [globalThis.setTimeout, Date.now] = [timer, clock];
});

test('the first inventory is what /v1/watch tells', async () => {
  const asked = [];
  const own = { '/v1/version': { host: 'esx-01', features: ['watch'] }, '/v1/cluster': { store: {} }, '/v1/adapters': [] };
  globalThis.fetch = async (path) => {
    asked.push(path);
    return new Response(JSON.stringify(own[path] ?? { error: 'no' }), { status: own[path] ? 200 : 503 });
  };
  const stream = new BroadcastChannel('pvrdma-watch');  // a tab that reads the stream, and tells what it knows when it is asked
  stream.onmessage = ({ data: [event] }) => event === 'ask' && stream.postMessage(['inventory', { hosts: ['told'], dvs: ['a switch'], vms: [] }]);
  const store = new Store(() => {});
  await store.refresh();
  stream.close();
  equal(asked.filter((path) => path !== '/v1/watch').sort(), ['/v1/adapters', '/v1/cluster', '/v1/version']);
  equal([store.live, store.data.hosts, store.data.dvs, store.data.vms], [true, ['told'], ['a switch'], []]);
});

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

test('another host that is slow holds up only what other hosts are asked for', async () => {
  const own = { '/v1/version': { host: '', features: [] }, '/v1/adapters': [], '/v1/stats': { adapters: [] } };
  const asked = [];
  const answer = {};  // of another host, by path
  globalThis.fetch = async (path) => {
    if (own[path]) return new Response(JSON.stringify(own[path]), { status: 200 });
    if (path.startsWith('/v1/hosts/')) asked.push(path);
    return new Promise((done) => { answer[path] = () => done(new Response('[7]', { status: 200 })); });
  };
  const [slow_path, next_path] = ['/v1/hosts/esx-02/paths', '/v1/hosts/esx-03/paths'];
  const changes = [];
  const store = new Store(() => changes.forEach((done) => done()));
  const until = (look) => new Promise((done) => { changes.push(() => look() && done()); if (look()) done(); });
  await store.refresh();
  const slow = store.detail(slow_path, true);
  const next = store.detail(next_path, true);
  const stats = store.detail('/v1/stats');
  await until(() => stats.value !== undefined);
  for (let round = 0; round < 2; ++round) {
    slow.drawn = next.drawn = true;
    await store.refresh();
  }
  equal(asked, [slow_path]);
  answer[slow_path]();
  await until(() => slow.value !== undefined);
  await new Promise((done) => setTimeout(done));  // the next one is asked right after
  equal(asked, [slow_path, next_path]);
  answer[next_path]();
  await until(() => next.value !== undefined);
  equal([slow.value, next.value], [[7], [7]]);
});
