// Add networking: a VMkernel adapter. Remove one.
import { html } from '../lit.js';
import { show } from '../dialog.js';
import { text, tick } from '../fields.js';
import { quoted } from '../format.js';
import { W } from '../words.js';
import { tag_command, tag_edit } from './advanced.js';

export function next_free_vmk(host) {
  let number = 2;
  while (host.vmks.some((vmk) => vmk.name === `vmk${number}`)) number += 1;
  return `vmk${number}`;
}

const path = (host) => `/v1/hosts/${encodeURIComponent(host)}/vmks`;

export const vmkernel_edit = (host, name, address) => ({ method: 'POST', path: path(host), body: { name, address } });

export const vmkernel_command = (host, name, address) => `pvrdmactl network ip interface add -H ${host} -i ${quoted(name)} --address ${quoted(address)}`;

export const add_vmkernel = (store, host) => show({
  title: W.addNetworking,
  target: host.name,
  values: { name: next_free_vmk(host), address: '', tagged: !host.pvrdma_vmknic },
  body: (dialog) => html`
    ${text(dialog, 'name', W.device, { required: true })}
    ${text(dialog, 'address', W.ipAddress, { required: true, note: 'An address that the host has already, so there is no mask and no DHCP to set.' })}
    ${tick(dialog, 'tagged', W.useForPvrdma, { note: 'sets Net.PVRDMAVmknic' })}`,
  edits: ({ name, address, tagged }) => [vmkernel_edit(host.name, name, address), ...(tagged ? [tag_edit(host.name, name)] : [])],
  commands: ({ name, address, tagged }) => [vmkernel_command(host.name, name, address), ...(tagged ? [tag_command(host.name, name)] : [])],
});

export const remove_vmkernel = (host, vmk) => show({
  title: `Remove ${vmk.name}`,
  target: host.name,
  ok: 'Remove',
  danger: true,
  values: {},
  body: () => html`<p>Removes the VMkernel adapter ${vmk.name} (${vmk.address}) of ${host.name}. The address itself stays on the host.</p>`,
  edits: () => [{ method: 'DELETE', path: `${path(host.name)}/${encodeURIComponent(vmk.name)}` }],
  commands: () => [`pvrdmactl network ip interface remove -H ${host.name} -i ${vmk.name}`],
});
