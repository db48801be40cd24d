// Edit Settings of a VM: memory, and New Network with the adapter type PVRDMA.
import { html } from '../lit.js';
import { show } from '../dialog.js';
import { button } from '../parts.js';
import { W } from '../words.js';
import { adapter_change, kFields, memory_fields, network_fields, new_adapter, options_of, reserved, values_of } from './vm_form.js';

export function edit_settings(store, vm) {
  const path = `/v1/vms/${encodeURIComponent(vm.name)}`;
  // What PATCH changes: memory, and the members of an adapter that stays.
  const change = (values) => ({
    ...(values.memory_mib === vm.memory_mib ? {} : { memory_mib: values.memory_mib }),
    ...(reserved(values, vm.memory_reserved_mib) === vm.memory_reserved_mib ? {} : { memory_reserved_mib: reserved(values, vm.memory_reserved_mib) }),
    ...(vm.adapter && values.network ? adapter_change(values, vm.adapter) : {}),
  });
  const removes = (values) => vm.adapter && !values.network;
  const adds = (values) => !vm.adapter && values.network;
  const changes = (values) => Object.keys(change(values)).length > 0;
  show({
    title: `${W.editSettings}: ${vm.name}`,
    target: vm.name,
    values: values_of(vm),
    body: (dialog) => html`${memory_fields(dialog)}${network_fields(dialog, store, vm.hardware_version, Boolean(vm.adapter))}
      ${vm.adapter ? html`<p>${button('Add new network', () => {}, 'A VM can have one PVRDMA adapter.')}</p>` : ''}`,
    edits: (values) => [...(removes(values) ? [{ method: 'DELETE', path: `${path}/adapter` }] : []),
                        ...(changes(values) ? [{ method: 'PATCH', path, body: change(values), fields: kFields }] : []),
                        ...(adds(values) ? [{ method: 'PUT', path: `${path}/adapter`, body: new_adapter(values), fields: kFields }] : [])],
    commands: (values) => [...(removes(values) ? [`pvrdmactl vm adapter remove ${vm.name}`] : []),
                           ...(changes(values) ? [`pvrdmactl vm set ${vm.name}${options_of(change(values))}`] : []),
                           ...(adds(values) ? [`pvrdmactl vm adapter add ${vm.name}${options_of(new_adapter(values))}`] : [])],
  });
}
