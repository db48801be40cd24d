// Migrate: moves a running VM of this host to another one. The dialog shows the daemon's check before anything starts.
import { html } from '../lit.js';
import { Refusal, request } from '../api.js';
import { Dialog, put } from '../dialog.js';
import { select, text } from '../fields.js';
import { quoted } from '../format.js';
import { box, button } from '../parts.js';
import { go } from '../route.js';
import { W } from '../words.js';

const kCheckMs = 30000;  // the daemon asks the other host and QEMU
const kAsks = { kind: 'info', sentence: 'Checking…' };
const kGood = { kind: 'success', sentence: W.compatibilityGood };

const path_of = (vm) => `/v1/vms/${encodeURIComponent(vm.name)}/motion`;

const wish = ({ to, leader, max_pause_ms, patience_s, monitor }) => ({ to, leader, max_pause_ms, patience_s, ...(monitor ? { monitor } : {}) });

const edits = (vm, values) => [{ method: 'POST', path: path_of(vm), body: wish(values) }];

const command = (vm, values) => `pvrdmactl vm migrate ${quoted(vm.name)} --to ${quoted(values.to)} --max-pause ${values.max_pause_ms} --patience ${values.patience_s}${
  values.monitor ? ` --monitor ${quoted(values.monitor)}` : ''}${values.leader === 'libvirt' ? ` --libvirt ${quoted(`qemu+ssh://${values.to}/system`)}` : ''}`;

// What people have to do when the motion waits for QEMU.
const to_do = (vm, { to, leader }) => (leader === 'libvirt'
  ? html`<p>When the motion waits for QEMU, have libvirt migrate the domain live and leave it paused there, or let the line below do both.</p>`
  : html`<p>When the motion waits for QEMU, start one on ${to} with the arguments that <code>pvrdmactl vm qemu-args ${vm.name} --restore</code> prints there.</p>`);

class Migrate extends Dialog {
  #compatibility = null;  // {kind, sentence}; null: what is chosen has not been checked
  #checks = 0;

  constructor(vm, hosts) {
    super({
      title: `${W.migrate} ${vm.name}`,
      target: vm.name,
      ok: W.migrate,
      values: { to: hosts.find((host) => host.alive)?.name ?? hosts[0].name, leader: 'pvrdmad', max_pause_ms: 500, patience_s: 600, monitor: '' },
      edits: (values) => edits(vm, values),
      commands: (values) => [command(vm, values)],
      done: () => go('motions'),
      body: () => html`
        <p>${vm.name} moves from ${vm.host} while it runs, with its connections. Its disks must be reachable from both hosts.</p>
        ${select(this, 'to', W.selectComputeResource, hosts.map((host) => [host.name, host.alive ? host.name : `${host.name} (not alive)`]))}
        <section aria-label=${W.compatibility}><h2 class="section-title">${W.compatibility}</h2>
          <div role="status">${this.#compatibility ? box(this.#compatibility.kind, this.#compatibility.sentence) : html`<p>Not checked yet.</p>`}</div>
          ${button('Check', () => this.check(), this.#compatibility === kAsks ? ' ' : '')}</section>
        <fieldset><legend>Options</legend>
          ${select(this, 'leader', 'Who moves QEMU', [['pvrdmad', 'pvrdmad'], ['libvirt', 'libvirt']])}
          ${text(this, 'max_pause_ms', W.longestPause, { type: 'number', required: true, note: 'The VM stays where it is if it would be paused longer; at most 5000.' })}
          ${text(this, 'patience_s', W.patience, { type: 'number', required: true, note: 'for a QEMU on the other host, and for its memory' })}
          <details><summary>Monitor</summary>
            ${text(this, 'monitor', 'Monitor', { note: "QMP socket of the VM's QEMU on this host; empty: as the page How to power on has it" })}</details>
        </fieldset>
        ${to_do(vm, this.values)}`,
    });
    this.vm = vm;
    this.check();
  }

  set(name, value) {
    super.set(name, value);
    this.#compatibility = null;
    this.#checks += 1;  // an answer that is on its way is about other values
    if (name === 'to' || name === 'leader') this.check();
  }

  buttons(disabled) {
    return super.buttons(disabled || this.#compatibility === kAsks);
  }

  // Checks once more, for the answer may be old, and starts only if nothing speaks against it.
  async submit(element) {
    const checked = await this.attempt(edits(this.vm, this.values), () => this.#ask(this.values));
    this.#compatibility = checked ? kGood : this.refusal && { kind: 'danger', sentence: this.refusal.message };
    if (checked) await this.finish(element);
    else this.redraw();
  }

  // Asks the daemon, and shows the answer unless other values were chosen meanwhile.
  async check() {
    const check = ++this.#checks;
    this.#compatibility = kAsks;
    this.redraw();
    let found = kGood;
    try {
      await this.#ask(this.values);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      found = { kind: 'danger', sentence: error.message };
    }
    if (check !== this.#checks) return;
    this.#compatibility = found;
    this.redraw();
  }

  #ask(values) {
    return request('POST', `${path_of(this.vm)}?check=true`, wish(values), kCheckMs);
  }
}

export const migrate = (store, vm) => put(new Migrate(vm, store.data.hosts.filter((host) => host.name !== vm.host)));

// Why the VM cannot be migrated by this host's daemon; '': it can.
export function cannot_migrate(store, vm) {
  const self = store.data.version.host;
  if (store.cannot_edit) return store.cannot_edit;
  if (store.data.hosts.length < 2) return 'The cluster has no other host.';
  if (vm.host !== self) return `${vm.host} has the VM: its own page migrates it.`;
  if (vm.motion) return `${vm.name} is on its way to ${vm.motion.to}.`;
  return vm.power === 'on' ? '' : `${vm.name} is powered off: only a running VM is migrated.`;
}
