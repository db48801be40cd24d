// Dialogs and wizards with a store that the test plays.
import { equal, test } from './harness.js';
import { render } from '../../../ui/lit.js';
import { Refusal } from '../../../ui/api.js';
import { after_draw, draw, field_of, show, use } from '../../../ui/dialog.js';
import { Store } from '../../../ui/store.js';
import { edit_firewall } from '../../../ui/dialogs/firewall.js';
import { new_switch } from '../../../ui/dialogs/switch.js';
import { manage_hosts, uplink_changes } from '../../../ui/dialogs/switch_hosts.js';
import { new_vm } from '../../../ui/dialogs/new_vm.js';
import { vmkernel_edit } from '../../../ui/dialogs/vmkernel.js';

const host = (name) => ({ name, alive: true, self: name === 'esx-01', vmnics: [{ name: 'vmnic0', netdev: 'eth0', description: '' }, { name: 'vmnic1', netdev: 'eth1', description: '' }],
                          vmks: [], pvrdma_vmknic: '', ruleset: { enabled: true, allow_all: false, allowed: [] } });
const dvs = { name: 'DSwitch', uplinks: ['uplink1', 'uplink2'], portgroups: [], members: [] };

// A page with dialogs only. `refuse(edits)` returns a Refusal or nothing; `rehearsed` and `made` are the edits that were sent.
function stage({ refuse = () => undefined, hosts = [host('esx-01')] } = {}) {
  document.body.replaceChildren();
  const place = document.body.appendChild(document.createElement('div'));
  const stage = { rehearsed: [], made: [], gate: Promise.resolve(), revision: 1 };
  const answer = async (edits, told) => {
    told.push(edits);
    await stage.gate;
    const refusal = refuse(edits);
    if (refusal) throw refusal;
    return { revision: stage.revision, changes: [{ kind: 'vm', name: `VM of revision ${stage.revision}`, change: 'added', members: [] }],
             answers: edits.map(() => null) };  // as behind the first MiB
  };
  const edit = async (_, __, edits, revision) => {
    if (revision !== undefined && revision !== stage.revision) throw new Refusal('the configuration has changed', 409);
    await answer(edits, stage.made);
  };
  stage.store = { cannot_edit: '', data: { hosts, dvs: [dvs], vms: [] }, rehearse: (edits) => answer(edits, stage.rehearsed), edit };
  stage.redraw = () => { render(draw(), place); after_draw(); };
  use(stage.store, stage.redraw);
  return stage;
}

const settled = () => new Promise((done) => { setTimeout(done, 0); });
const step = () => document.querySelector('dialog .wizard-steps .active').innerText;
const refusal = () => document.querySelector('dialog .alert-danger')?.innerText ?? '';
const field = (name) => document.getElementById(`field-${name}`);

async function click(label) {
  [...document.querySelectorAll('dialog button')].find((each) => each.textContent.trim() === label).click();
  await settled();
}

function type(name, value) {
  field(name).value = value;
  field(name).dispatchEvent(new Event('input'));
}

function tick(name) {
  field(name).checked = true;
  field(name).dispatchEvent(new Event('change'));
}

// Waits until the dialog has ended: the event of that comes later than close().
async function ended() {
  while (document.querySelector('dialog') !== null) await settled();
}

async function close() {
  document.querySelector('dialog').close();
  await ended();
}

const not_a_number = (member) => ([{ body }]) => (typeof body[member] === 'number' ? undefined : new Refusal(`no ${member}`, 400, { index: 0, field: member }));

test('New Virtual Machine: what is wrong at a later step does not stop an earlier one', async () => {
  const { store } = stage({ refuse: not_a_number('memory_mib') });
  new_vm(store);
  type('name', 'VM-01');
  await click('Next');
  await click('Next');
  equal(step(), 'Customize hardware');
  type('memory_mib', '');
  await click('Back');
  await click('Back');
  type('name', 'VM-02');
  await click('Next');
  await click('Next');
  equal([step(), refusal(), field('memory_mib').value], ['Customize hardware', '', '']);
  await close();
});

test('New Distributed Switch: what is wrong at a later step does not stop an earlier one', async () => {
  stage({ refuse: not_a_number('uplinks') });
  new_switch();
  await click('Next');
  await click('Next');
  type('uplinks', '');
  await click('Back');
  await click('Back');
  type('name', 'Other');
  await click('Next');
  await click('Next');
  equal([step(), refusal(), field('uplinks').value], ['Configure settings', '', '']);
  await close();
});

test('a form takes nothing while its edits are under way', async () => {
  const played = stage();
  let open_gate;
  played.gate = new Promise((done) => { open_gate = done; });
  show({ title: 't', target: 't', values: {}, body: () => 'x', edits: () => [{ method: 'DELETE', path: '/v1/vms/VM-01' }], commands: () => [] });
  await click('OK');
  equal(document.querySelector('dialog .modal-body').inert, true);
  open_gate();
  await ended();
  new_switch();
  played.gate = new Promise((done) => { open_gate = done; });
  await click('Next');
  equal(document.querySelector('dialog .modal-body').inert, true);
  open_gate();
  await settled();
  equal(document.querySelector('dialog .modal-body').inert, false);
  await close();
});

test('Finish makes the edits that the last step shows, whatever the store says since', async () => {
  const { store, made, rehearsed, redraw } = stage();
  manage_hosts(store, dvs, 'add', ['esx-01']);
  await click('Next');
  await click('Next');
  equal(step(), 'Ready to complete');
  store.data = { ...store.data, hosts: [host('esx-02')] };  // another administrator removed esx-01
  redraw();
  await click('Finish');
  await ended();
  equal(made, [rehearsed.at(-1)]);
  equal(made[0].map((edit) => edit.path), ['/v1/dvs/DSwitch/hosts/esx-01']);
});

test('an edit of somebody else before Finish shows what these edits change now', async () => {
  const played = stage();
  new_switch();
  for (let times = 0; times < 3; times += 1) await click('Next');
  equal([step(), document.querySelector('dialog .modal-body').innerText.includes('VM of revision 1')], ['Ready to complete', true]);
  played.revision = 2;
  await click('Finish');
  equal([step(), refusal(), document.querySelector('dialog .modal-body').innerText.includes('VM of revision 2')], ['Ready to complete', 'the configuration has changed', true]);
  equal(document.activeElement.className, 'alert alert-danger');
  equal(played.made, []);
  await click('Finish');
  await ended();
  equal(played.made.length, 1);
  location.hash = '';
});

test('Add and Manage Hosts is about the hosts that were there when it opened', async () => {
  const { store, redraw } = stage();
  manage_hosts(store, dvs, 'add');
  await click('Next');
  store.data = { ...store.data, hosts: [...store.data.hosts, host('esx-02')] };
  redraw();
  equal([field('esx-01:chosen') !== null, field('esx-02:chosen')], [true, null]);
  tick('esx-01:chosen');
  await click('Next');
  await click('Next');
  equal(field('esx-01:device').value, 'vmk2');
  await close();
});

test('uplinks are all freed before one is assigned', () => {
  const of = (uplinks) => ({ ...dvs, members: [{ host: 'esx-01', uplinks }] });
  const wanted = (uplink1, uplink2) => ({ 'esx-01:uplink1': uplink1, 'esx-01:uplink2': uplink2 });
  const changes = (before, after) => uplink_changes(of(before), 'esx-01', after);
  equal(changes({ uplink1: 'vmnic1', uplink2: 'vmnic2' }, wanted('vmnic0', '')), [['uplink1', ''], ['uplink2', ''], ['uplink1', 'vmnic0']]);
  equal(changes({ uplink1: 'vmnic0', uplink2: 'vmnic1' }, wanted('vmnic1', 'vmnic0')), [['uplink1', ''], ['uplink2', ''], ['uplink1', 'vmnic1'], ['uplink2', 'vmnic0']]);
  equal(changes({ uplink1: 'vmnic0' }, wanted('vmnic0', 'vmnic1')), [['uplink2', 'vmnic1']]);
  equal(changes({ uplink1: 'vmnic0' }, wanted('vmnic0', '')), []);
});

test('more edits than one request takes are not sent, and the sentence says so', async () => {
  const { store } = stage();
  const real = new Store(() => {});
  real.data = { version: { features: ['batch'] } };
  const sent = window.fetch;
  let asked = 0;
  window.fetch = async () => { asked += 1; return new Response('{"changes": []}'); };
  const edits_of = (count) => Array.from({ length: count }, (_, at) => ({ method: 'DELETE', path: `/v1/vms/VM-${at}` }));
  const dialog_of = async (count) => {
    show({ title: 'Remove', target: 'VMs', values: {}, body: () => '', edits: () => edits_of(count), commands: () => [] });
    await click('OK');
    const told = refusal();
    if (told) await close();
    await ended();
    return told;
  };
  store.edit = async (_, __, edits) => real.rehearse(edits);
  try {
    equal(await dialog_of(65), 'These are 65 edits, and at most 64 are made at once: nothing was changed. Choose less, and do the rest after it.');
    equal(asked, 0);
    equal(await dialog_of(64), '');
    equal(asked, 1);
  } finally {
    window.fetch = sent;
  }
});

test('a firewall with any number of networks is one edit', async () => {
  const { store } = stage();
  let sent = [];
  store.edit = async (_, __, edits) => { sent = edits; };
  edit_firewall(store, host('esx-01'));
  const networks = Array.from({ length: 200 }, (_, at) => `10.0.${at}.0/24`);
  type('allowed', networks.join('\n'));
  await click('OK');
  await ended();
  equal(sent.map(({ method, path, body }) => [method, path, body]), [['PATCH', '/v1/hosts/esx-01/rulesets/pvrdma', { allowed: networks }]]);
});

test('a firewall edit keeps what others changed while the dialog was open', async () => {
  const opened = host('esx-01');
  opened.ruleset.allowed = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
  const { store } = stage({ hosts: [opened] });
  let sent = [];
  store.edit = async (_, __, edits) => { sent = edits; };
  edit_firewall(store, opened);
  type('allowed', '10.0.0.2\n10.0.0.3\n10.0.0.4');
  const newer = host('esx-01');
  newer.ruleset.allowed = ['10.0.0.1', '10.0.0.3', '10.0.0.5'];
  store.data.hosts = [newer];
  await click('OK');
  await ended();
  equal(sent.map(({ body }) => body), [{ allowed: ['10.0.0.3', '10.0.0.5', '10.0.0.4'] }]);
});

test('a firewall edit sends only the flag that was changed', async () => {
  const { store } = stage();
  let sent = [];
  store.edit = async (_, __, edits) => { sent = edits; };
  edit_firewall(store, host('esx-01'));
  document.getElementById('field-allow_all').click();
  await click('OK');
  await ended();
  equal(sent.map(({ body }) => body), [{ allow_all: true }]);
});

test('a refusal stands at its field only if it is about one', () => {
  const values = { name: '', allowed: '', address: '', native_peers: '' };
  const [named, other] = [{ at: 'name' }, { at: 'allowed' }];
  const at = (status, told, edits) => field_of(new Refusal('no', status, told), edits, values);
  equal(at(409, {}, [named]), 'name');
  equal(at(409, { index: 1 }, [named, other]), 'allowed');
  equal(at(409, {}, [named, other]), '');
  for (const status of [0, 401, 403, 413, 500, 503]) equal(at(status, { index: 0 }, [named]), '');
  equal(at(400, { field: 'native_peers.0' }, [named]), 'native_peers');
  equal(at(400, { field: 'adapter.addresses.12' }, [{ fields: { addresses: 'address' } }]), 'address');
  equal(at(409, {}, [vmkernel_edit('esx-01', 'vmk2', '10.0.0.1')]), '');
  equal(at(409, { field: 'address' }, [vmkernel_edit('esx-01', 'vmk2', '10.0.0.1')]), 'address');
});

test('a dialog that needs another token leaves saying so to Login, and keeps what was typed', async () => {
  let refusal = new Refusal('this address needs a token', 401);
  const { store } = stage({ refuse: () => refusal });
  let asked = 0;
  store.refresh = async () => { asked += 1; };
  new_switch();
  type('name', 'Typed');
  await click('Next');
  equal([asked, document.querySelector('dialog .alert'), field('name').value], [1, null, 'Typed']);
  refusal = undefined;
  await click('Next');
  equal(step(), 'Select version');
});
