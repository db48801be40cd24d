// Motions: VMs that move from this host to another one, and those that did.
import { daemon_of, own_daemon } from '../daemon.js';
import { html } from '../lit.js';
import { cancel_motion } from '../dialogs/cancel_motion.js';
import { bytes, dateAndTime, ms, percent } from '../format.js';
import { answer, bar, box, button, facts, section, stacked_bar, title } from '../parts.js';
import { to } from '../route.js';
import { table } from '../table.js';
import { W } from '../words.js';

const kPath = '/v1/motions';

// The parts of a pause, in their order.
const parts = [['freeze_us', 'stopping the adapter'], ['pages_us', 'showing written pages to QEMU'], ['state_us', "the adapter's state"],
               ['memory_us', 'the last memory'], ['commit_us', 'commit in the store'], ['go_on_us', 'starting the VM there']];

// Phases of a motion of libvirt's in which somebody has to act, and what: pvrdmactl's sentences.
const stuck = {
  stands: ({ vm, from, to }) => `VM ${vm} does not go to host ${to}, and is paused on host ${from} until libvirt resumes it: virsh resume ${vm}`,
  lost: ({ vm, from, to }) => `VM ${vm} has left host ${from}, and its connections are lost: let libvirt resume it on host ${to}, and reload its driver there (the log of pvrdmad says why)`,
};
const to_act = (motion) => (motion.state === 'runs' && Object.hasOwn(stuck, motion.phase) ? stuck[motion.phase](motion) : '');

const colours = { done: 'good', failed: 'bad' };
const colour = (motion) => (to_act(motion) ? 'bad' : colours[motion.state] ?? '');

const moved = (motion) => (motion.state === 'done' ? motion.ram_bytes : motion.ram_bytes - motion.remaining_bytes);

// A motion learns how much memory the VM has when QEMU begins to send it.
const memory = (motion) => (motion.ram_bytes > 0 ? `${bytes(motion.ram_bytes)}, ${bytes(motion.remaining_bytes)} left` : '--');
const progress = (motion) => html`${bar(moved(motion), motion.ram_bytes)}${percent(moved(motion), motion.ram_bytes)}`;

// What is known of the VM's motion: the one under way, or else the newest one that began on this host. The VM's host knows the one
// under way, also if that is another host.
export function motion_part(store, vm) {
  const list_of = (daemon, draw) => answer(daemon.detail(kPath), draw);
  if (!vm.motion) {
    return list_of(own_daemon(store), (list) => {
      const newest = list.find((each) => each.vm === vm.name);
      return newest ? motion_detail(store, newest) : '';
    });
  }
  const leader = daemon_of(store, vm.host);
  const unknown = (why) => box('info', `${vm.host} leads this motion of ${vm.name} to ${vm.motion.to}, and knows its progress. ${why}`.trim(),
                               cancel_button(store, { vm: vm.name, from: vm.host, to: vm.motion.to }));
  if (leader.trouble) return unknown(leader.trouble);
  return list_of(leader, (list) => {
    const motion = list.find((each) => each.id === vm.motion.id);
    return motion ? motion_detail(store, motion) : unknown('');
  });
}

const cancel_action = (store, motion) => ['Cancel motion', () => cancel_motion(motion), store.cannot_edit || cannot_cancel(store, motion)];
const cancel_button = (store, motion) => button(...cancel_action(store, motion));

// A motion is cancelled on the host that the VM leaves; anywhere if neither of its hosts is alive.
function cannot_cancel(store, { from, to: target }) {
  const { self, alive } = daemon_of(store, from);
  return self || !(alive || daemon_of(store, target).alive) ? '' : `Only the page of ${from} can cancel it.`;
}

const since = (motion) => dateAndTime(Date.parse(motion.since));

const columns = [
  { key: 'vm', title: 'VM', value: (motion) => motion.vm, cell: (motion) => html`<a tabindex="-1" href=${to('vms', motion.vm)}>${motion.vm}</a>` },
  { key: 'from', title: W.from, value: (motion) => motion.from },
  { key: 'to', title: W.to, value: (motion) => motion.to },
  { key: 'state', title: W.state, value: (motion) => motion.state, cell: (motion) => html`<span class=${colour(motion)}>${motion.state}</span>` },
  { key: 'phase', title: W.phase, value: (motion) => (motion.state === 'runs' ? motion.phase : '--'),
    cell: (motion) => (motion.state === 'runs' ? html`<span class=${colour(motion)}>${motion.phase}</span>` : '--') },
  { key: 'progress', title: W.progress, value: (motion) => percent(moved(motion), motion.ram_bytes), cell: progress },
  { key: 'since', title: W.since, value: since },
  { key: 'pause', title: W.pause, value: (motion) => (motion.state === 'done' ? motion.pause_us / 1000 : ''), number: true,
    cell: (motion) => (motion.state === 'done' ? ms(motion.pause_us) : '--') },
  { key: 'result', title: W.result, value: (motion) => motion.error || (motion.state === 'done' ? 'done' : '--') },
];

export function motions(store) {
  return html`${title(W.motions)}
    <p class="empty">The newest motion of each VM that left this host. Other hosts know theirs.</p>
    ${answer(store.detail(kPath), (list) => {
      const grid = table('motions', columns, { label: W.motions, key: (motion) => motion.id, empty: 'No VM has left this host since its daemon started.',
        actions: (motion) => (motion.state === 'runs' ? [cancel_action(store, motion)] : []) });
      const chosen = grid.chosen(list);
      return html`${grid.draw(list)}${chosen ? motion_detail(store, chosen) : ''}`;
    })}`;
}

// What the motion does, or what came of it.
const motion_detail = (store, motion) => html`<section class="detail" aria-label="Motion of ${motion.vm}">
  <h2 class="section-title">Motion of ${motion.vm}: ${motion.from} → ${motion.to}</h2>
  ${motion.error ? box(motion.state === 'failed' ? 'danger' : 'warning', motion.error) : ''}
  ${to_act(motion) ? box('danger', to_act(motion)) : ''}
  ${motion.state === 'runs' ? cancel_button(store, motion) : ''}
  ${facts([[W.state, motion.state], ...(motion.state === 'runs' ? [[W.phase, motion.phase]] : []), [W.since, since(motion)],
           [W.progress, progress(motion)], [W.memory, memory(motion)],
           ["The adapter's pages", bytes(motion.page_bytes)], ["The adapter's state", bytes(motion.state_bytes)],
           ...(motion.state === 'done' ? [['Took', `${(motion.took_us / 1e6).toFixed(2)} s`]] : [])])}
  ${motion.state === 'done' ? html`${section(`${W.pause}: ${ms(motion.pause_us)}`)}
    ${stacked_bar(parts.map(([key, label]) => [label, motion[key]]), ms)}` : ''}</section>`;
