// What can be done with a VM, as buttons of its page and of its row: [[label, run, why, off]].
import { edit_settings } from './dialogs/edit_settings.js';
import { cannot_migrate, migrate } from './dialogs/migrate.js';
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
  const newest = vm.hardware_version >= kNewest ? 'It has the newest version.' : '';
  return [[W.editSettings, () => edit_settings(store, vm), why],
          [W.upgrade, () => upgrade_vm(vm), why ? '' : newest, why !== '' || newest !== ''],
          [W.migrate, () => migrate(store, vm), cannot_migrate(store, vm)],
          ['Remove', () => remove_vm(vm), '', why !== '']];
}
