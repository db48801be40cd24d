// Upgrade VM Compatibility, and the removal of a VM.
import { html } from '../lit.js';
import { show } from '../dialog.js';
import { select } from '../fields.js';
import { W } from '../words.js';

export const kNewest = 21;
const kNone = 16;  // VMware has no such version

// Choices from `first` to the newest.
export const hardware_versions = (first) => Array.from({ length: kNewest - first + 1 }, (_, index) => first + index)
  .filter((version) => version !== kNone).map((version) => [version, `VM version ${version}`]);

export function upgrade_vm(vm) {
  const choices = hardware_versions(vm.hardware_version + 1);
  show({
    title: `${W.upgrade}: ${vm.name}`,
    target: vm.name,
    values: { hardware_version: choices[0][0] },
    body: (dialog) => html`
      ${select(dialog, 'hardware_version', W.compatibility, choices)}
      <p>There is no way back.${vm.adapter ? ` The adapter keeps RoCE ${vm.adapter.protocol}.` : ''}</p>`,
    edits: (values) => [{ method: 'POST', path: `/v1/vms/${encodeURIComponent(vm.name)}/upgrade`, body: values }],
    commands: (values) => [`pvrdmactl vm upgrade ${vm.name} --hw ${values.hardware_version}`],
  });
}

export const remove_vm = (vm) => show({
  title: `Remove ${vm.name}`,
  target: 'cluster',
  ok: 'Remove',
  danger: true,
  values: {},
  body: () => html`<p>Removes the VM ${vm.name}${vm.adapter ? ' with its PVRDMA adapter' : ''} from the cluster. Its disks are not pvrdmad's and stay.</p>`,
  edits: () => [{ method: 'DELETE', path: `/v1/vms/${encodeURIComponent(vm.name)}` }],
  commands: () => [`pvrdmactl vm delete ${vm.name}`],
  done: () => { location.hash = '#/vms'; },
});
