// Edit Net.PVRDMAVmknic: one of the host's VMkernel adapters, or none.
import { show } from '../dialog.js';
import { select } from '../fields.js';
import { quoted } from '../format.js';
import { W } from '../words.js';

const kPath = '/Net/PVRDMAVmknic';

export const tag_edit = (host, vmk) => ({ method: 'PUT', path: `/v1/hosts/${encodeURIComponent(host)}/advanced`, body: { path: kPath, value: vmk }, fields: { value: 'vmk' } });

export const tag_command = (host, vmk) => `pvrdmactl system settings advanced set -H ${host} -o ${kPath} -s ${quoted(vmk)}`;

export const edit_advanced = (host) => show({
  title: `${W.edit} Net.PVRDMAVmknic`,
  target: host.name,
  values: { vmk: host.pvrdma_vmknic },
  body: (dialog) => select(dialog, 'vmk', 'Net.PVRDMAVmknic',
    [['', 'none'], ...host.vmks.map((vmk) => [vmk.name, `${vmk.name} (${vmk.address})`])],
    { note: host.vmks.length ? 'PVRDMA traffic between hosts uses the address of this VMkernel adapter.' : `${host.name} has no VMkernel adapter yet: add one first.` }),
  edits: ({ vmk }) => [tag_edit(host.name, vmk)],
  commands: ({ vmk }) => [tag_command(host.name, vmk)],
});
