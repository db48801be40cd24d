// What can be done with a VM, as buttons of its page and of its row: [[label, run, why, off]].
import { edit_settings } from './dialogs/edit_settings.js';
import { cannot_migrate, migrate } from './dialogs/migrate.js';
import { manage_hosts } from './dialogs/switch_hosts.js';
import { kNewest, remove_vm, upgrade_vm } from './dialogs/vm.js';
import { W } from './words.js';

// Why the VM cannot be changed now; '': it can.
export function locked(store, vm) {
  if (store.cannot_edit) return store.cannot_edit;
  if (vm.motion) return `${vm.name} is on its way to ${vm.motion.to}.`;
  return vm.power === 'on' ? `${vm.name} is powered on.` : '';
}

export function vm_actions(store, vm) {
  const why = locked(store, vm);
  const stays = cannot_migrate(store, vm);
  const newest = vm.hardware_version >= kNewest ? 'It has the newest version.' : '';
  return [[W.editSettings, () => edit_settings(store, vm), why],
          [W.upgrade, () => upgrade_vm(vm), why ? '' : newest, why !== '' || newest !== ''],
          [W.migrate, () => migrate(store, vm), stays === why ? '' : stays, stays !== ''],
          ['Remove', () => remove_vm(vm), '', why !== '']];
}

// What mends the daemon's reason why the VM cannot be powered on or is not served, by the command that the reason names:
// {label, run, why}; undefined: nothing here does.
export function mend_of(store, vm, reason) {
  const why = locked(store, vm);
  const hosts = (label, task) => ({ label, run: () => manage_hosts(store, store.data.dvs.find(({ name }) => name === vm.adapter.dvs), task, [vm.host]), why: store.cannot_edit });
  if (reason.includes('pvrdmactl dvs add-host')) return hosts(W.addHost, 'add');
  if (reason.includes('(no teaming)')) return hosts(W.manageHost, 'manage');
  if (reason.includes('pvrdmactl vm upgrade')) return { label: W.upgrade, run: () => upgrade_vm(vm), why };
  return reason === vm.power_on_refusal || reason.includes('pvrdmactl vm') ? { label: W.editSettings, run: () => edit_settings(store, vm), why } : undefined;
}
