// New Virtual Machine: one request.
import { html } from '../lit.js';
import { select, text } from '../fields.js';
import { quoted } from '../format.js';
import { show_wizard } from '../wizard.js';
import { W } from '../words.js';
import { kFields, memory_fields, network_choices, network_fields, new_adapter, options_of, reserved, values_of } from './vm_form.js';
import { hardware_versions } from './vm.js';

const machine = (values) => ({ host: values.host, hardware_version: values.hardware_version, memory_mib: values.memory_mib, memory_reserved_mib: reserved(values) });

const edit = (values, adapter) => [{ method: 'POST', path: '/v1/vms', body: { name: values.name, ...machine(values), ...(adapter ? { adapter } : {}) },
                                     fields: kFields }];
const kStart = { ...values_of(), name: '', hardware_version: 14 };

export function new_vm(store) {
  const self = store.data.hosts.find((host) => host.self)?.name ?? '';
  show_wizard({
    title: W.newVm,
    target: 'cluster',
    values: { ...kStart, host: self, network: network_choices(store)[1]?.[0] ?? '' },
    steps: [
      { title: W.selectNameAndHost, edits: ({ name, host }) => edit({ ...kStart, name, host }), body: (dialog) => html`
        ${text(dialog, 'name', W.name, { required: true })}
        ${select(dialog, 'host', W.host, store.data.hosts.map((host) => [host.name, host.name]))}` },
      { title: W.selectCompatibility, edits: ({ name, host, hardware_version }) => edit({ ...kStart, name, host, hardware_version }),
        body: (dialog) => select(dialog, 'hardware_version', W.compatibility, hardware_versions(7)) },
      { title: W.customizeHardware, body: (dialog) => html`
        ${memory_fields(dialog)}
        ${network_fields(dialog, store, dialog.values.hardware_version, false)}` },
    ],
    edits: (values) => edit(values, values.network ? new_adapter(values) : undefined),
    commands: (values) => [`pvrdmactl vm create ${quoted(values.name)}${options_of({ ...machine(values), ...(values.network ? new_adapter(values) : {}) })}`],
    done: (values) => { location.hash = `#/vms/${encodeURIComponent(values.name)}`; },
  });
}
