// New Virtual Machine: one request.
import { html } from '../lit.js';
import { select, show, text } from '../dialog.js';
import { quoted } from '../format.js';
import { W } from '../words.js';
import { memory_fields, network_choices, network_fields, new_adapter, options_of, reserved, values_of } from './vm_form.js';
import { hardware_versions } from './vm.js';

export function new_vm(store) {
  const self = store.data.hosts.find((host) => host.self)?.name ?? '';
  const machine = (values) => ({ host: values.host, hardware_version: values.hardware_version, memory_mib: values.memory_mib, memory_reserved_mib: reserved(values) });
  show({
    title: W.newVm,
    target: 'cluster',
    values: { ...values_of(), name: '', host: self, hardware_version: 14, network: network_choices(store)[1]?.[0] ?? '' },
    body: (dialog) => html`
      ${text(dialog, 'name', W.name, { required: true })}
      ${select(dialog, 'host', W.host, store.data.hosts.map((host) => [host.name, host.name]))}
      ${select(dialog, 'hardware_version', W.compatibility, hardware_versions(7))}
      ${memory_fields(dialog)}
      ${network_fields(dialog, store, dialog.values.hardware_version, false)}`,
    edits: (values) => [{ method: 'POST', path: '/v1/vms', body: { name: values.name, ...machine(values), ...(values.network ? { adapter: new_adapter(values) } : {}) } }],
    commands: (values) => [`pvrdmactl vm create ${quoted(values.name || 'NAME')}${options_of({ ...machine(values), ...(values.network ? new_adapter(values) : {}) })}`],
    done: (values) => { location.hash = `#/vms/${encodeURIComponent(values.name)}`; },
  });
}
