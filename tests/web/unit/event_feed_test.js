// What the page has read of the daemon's events, and motions as tasks.
import { equal, test } from './harness.js';
import { Refusal } from '../../../ui/api.js';
import { EventFeed } from '../../../ui/event_feed.js';
import { MotionTasks } from '../../../ui/motion_tasks.js';

// A daemon with events of these numbers, whose pages have `size` events.
const daemon = (numbers, asked = [], boot = () => '1') => async (path) => {
  asked.push(path);
  const after = Number(/after=(\d+)/.exec(path)[1]);
  const limit = Number(/limit=(\d+)/.exec(path)[1]);
  const events = numbers.filter((number) => number > after).slice(0, limit).map((sequence) => ({ sequence }));
  const last = events.at(-1)?.sequence ?? numbers.at(-1) ?? 0;
  return { boot: boot(), events, last, lost: Math.max(0, last - after - events.length) };
};
const numbers_of = (feed) => feed.events.map(({ sequence }) => sequence);

test('it reads on where it stopped', async () => {
  const numbers = [1, 2];
  const feed = new EventFeed(daemon(numbers));
  await feed.read();
  equal(numbers_of(feed), [1, 2]);
  numbers.push(3);
  await feed.read();
  equal(numbers_of(feed), [1, 2, 3]);
  equal(feed.lost, 0);
});

test('it reads all pages', async () => {
  const numbers = Array.from({ length: 2000 }, (_, index) => index + 1);
  const asked = [];
  const feed = new EventFeed(daemon(numbers, asked));
  await feed.read();
  equal(feed.events.length, 2000);
  equal(asked, ['/v1/events?after=0&limit=1024', '/v1/events?after=1024&limit=1024']);
});

test('it knows how many were lost', async () => {
  const feed = new EventFeed(daemon([5, 6]));
  await feed.read();
  equal(feed.lost, 4);
});

test('another process of the daemon begins anew', async () => {
  let boot = '1';
  const numbers = [1, 2, 3];
  const feed = new EventFeed(daemon(numbers, [], () => boot));
  await feed.read();
  boot = '2';
  numbers.splice(0, 3, 1, 2);
  await feed.read();
  equal(numbers_of(feed), [1, 2]);
});

test('what happens while it reads is read, too', async () => {
  const numbers = [1];
  const answer = daemon(numbers);
  let answered;
  const late = new Promise((done) => { answered = done; });
  const feed = new EventFeed(async (path) => {
    const page = await answer(path);
    await late;
    return page;
  });
  const first = feed.read();
  await Promise.resolve();
  numbers.push(2);
  feed.read();
  answered();
  await first;
  equal(numbers_of(feed), [1, 2]);
});

test('a refusal leaves what is there', async () => {
  let refuses = false;
  const answer = daemon([1]);
  const feed = new EventFeed(async (path) => {
    if (refuses) throw new Refusal('The daemon cannot be reached.', 0);
    return answer(path);
  });
  await feed.read();
  refuses = true;
  await feed.read();
  equal([numbers_of(feed), feed.trouble], [[1], 'The daemon cannot be reached.']);
});

test('motions that run or begin later are tasks', () => {
  const tasks = new MotionTasks();
  const motion = (id, state, error = '') => ({ id, vm: 'VM-01', to: 'esx-02', state, error });
  tasks.take([motion('old', 'done'), motion('now', 'runs')], 5);
  tasks.take([motion('old', 'done'), motion('now', 'failed', 'no memory'), motion('new', 'done')], 9);
  equal(tasks.list, [
    { title: 'Migrate', target: 'VM-01 → esx-02', at_ms: 5, state: 'refused', trouble: 'no memory' },
    { title: 'Migrate', target: 'VM-01 → esx-02', at_ms: 9, state: 'done', trouble: undefined }]);
});

test('a running motion that the daemon no longer lists has ended', () => {
  const tasks = new MotionTasks();
  tasks.take([{ id: 'now', vm: 'VM-01', to: 'esx-02', state: 'runs', error: '' }], 5);
  tasks.take([], 9);
  equal(tasks.list.map(({ state, trouble }) => [state, trouble]), [['ended', 'The daemon no longer lists it: see where the VM is.']]);
});

test('only the newest ended motions are kept, and the others do not come back', () => {
  const tasks = new MotionTasks();
  tasks.take([], 1);
  const motions = Array.from({ length: 50 }, (_, at) => ({ id: `m${at}`, vm: `VM-${at}`, to: 'esx-02', state: 'done', error: '' }));
  tasks.take(motions, 2);
  const kept = tasks.list.map(({ target }) => target);
  equal([kept.length, kept[0], kept[19]], [20, 'VM-30 → esx-02', 'VM-49 → esx-02']);
  tasks.take(motions, 3);
  equal(tasks.list.map(({ target, at_ms }) => [target, at_ms]), kept.map((target) => [target, 2]));
});
