// The form of a VM's memory and its New Network, which New VM and Edit Settings share.
import { html, nothing } from '../lit.js';
import { select, text, tick } from '../fields.js';
import { quoted } from '../format.js';
import { W } from '../words.js';

const kLeastForV2 = 14;

export const network_choices = (store) => [['', 'no PVRDMA adapter'],
  ...store.data.dvs.flatMap((dvs) => dvs.portgroups.map((group) => [`${dvs.name}/${group.name}`, `${group.name} (${dvs.name})`]))];

// The form's values of a VM; of a new one without it.
export const values_of = (vm) => ({
  memory_mib: vm?.memory_mib ?? 512,
  reserve: vm ? vm.memory_reserved_mib === vm.memory_mib : true,
  network: vm?.adapter ? `${vm.adapter.dvs}/${vm.adapter.portgroup}` : '',
  protocol: vm?.adapter?.protocol ?? '',
  profile: vm?.adapter?.profile ?? 'open',
  doorbells: vm?.adapter?.doorbells ?? '',
  mac: vm?.adapter?.mac ?? '',
  addresses: vm?.adapter?.addresses.join(', ') ?? '',
  owner: vm?.adapter?.owner ?? '',
  group: vm?.adapter?.group ?? '',
});

// The fields of members whose names differ.
export const kFields = { dvs: 'network', portgroup: 'network', memory_reserved_mib: 'reserve' };

export const memory_fields = (dialog) => html`
  ${text(dialog, 'memory_mib', `${W.memory} (MiB)`, { type: 'number', min: 1, max: 4294967295, required: true })}
  ${tick(dialog, 'reserve', W.reserveAll, { note: dialog.values.network && !dialog.values.reserve ? 'A VM with a PVRDMA adapter cannot be powered on without this.' : '' })}`;

// `existing`: the VM has an adapter already, and what it cannot change is shown only.
export function network_fields(dialog, store, hardware_version, existing) {
  return html`<fieldset><legend>${W.newNetwork}</legend>
    ${select(dialog, 'network', W.network, network_choices(store))}
    ${dialog.values.network === '' ? nothing : html`
      <div class="field"><span></span><div class="clr-checkbox-wrapper"><input type="checkbox" id="field-connect" checked disabled>
        <label class="clr-control-label" for="field-connect">${W.connectAtPowerOn}</label></div></div>
      <div class="field"><span class="clr-control-label">${W.adapterType}</span><div>PVRDMA</div></div>
      ${select(dialog, 'protocol', W.deviceProtocol, [['', 'by the hardware version'], ['v1', 'RoCE v1'], ['v2', 'RoCE v2']],
               { note: hardware_version < kLeastForV2 ? 'Below hardware version 14 only RoCE v1 is possible.' : '' })}
      ${text(dialog, 'mac', W.macAddress, { placeholder: 'Automatic', disabled: existing, note: existing ? 'The MAC stays. Remove the adapter to choose another one.' : '' })}
      ${select(dialog, 'profile', 'Profile', [['open', 'open'], ['esxi', 'esxi']], { disabled: existing })}
      ${select(dialog, 'doorbells', 'Doorbells', [['', 'default'], ['trapped', 'trapped'], ['mapped', 'mapped']])}
      <details><summary>Addresses, Owner, Group</summary>
        ${text(dialog, 'addresses', 'Addresses', { note: 'the only addresses that the guest may use, separated by commas; empty: any' })}
        ${text(dialog, 'owner', 'Owner', { note: 'the user that its QEMU runs as' })}
        ${text(dialog, 'group', 'Group')}</details>`}</fieldset>`;
}

const listed = (words) => words.split(/[\s,]+/).filter(Boolean);

export const reserved = ({ reserve, memory_mib: memory }, old = 0) => (reserve ? memory : old >= memory ? 0 : old);

const split = (network) => {
  const [dvs, ...rest] = network.split('/');
  return { dvs, portgroup: rest.join('/') };
};

// What was left empty is not sent: the daemon has its defaults.
const filled = (members) => Object.fromEntries(Object.entries(members).filter(([, value]) => value !== '' && value !== undefined));

export const new_adapter = (values) => filled({
  ...split(values.network), protocol: values.protocol, doorbells: values.doorbells, mac: values.mac, profile: values.profile,
  addresses: values.addresses ? listed(values.addresses) : undefined, owner: values.owner, group: values.group,
});

// The changed members of an adapter that exists.
export function adapter_change(values, adapter) {
  const wanted = { ...split(values.network), protocol: values.protocol || adapter.protocol, doorbells: values.doorbells || adapter.doorbells,
                   addresses: listed(values.addresses), owner: values.owner, group: values.group };
  const differs = (name) => JSON.stringify(wanted[name]) !== JSON.stringify(adapter[name]);
  return Object.fromEntries(Object.keys(wanted).filter(differs).map((name) => [name, wanted[name]]));
}

const option = { memory_mib: '--memory', hardware_version: '--hw', dvs: '--dvs', portgroup: '--portgroup', protocol: '--protocol', doorbells: '--doorbells', mac: '--mac',
                 profile: '--profile', owner: '--owner', group: '--group', host: '--host' };

// Members as options of pvrdmactl.
export const options_of = (members) => Object.entries(members).map(([name, value]) =>
  (name === 'memory_reserved_mib' ? ` --reserve ${value}` : name === 'addresses' ? ` --addresses ${value.join(',') || 'any'}` : ` ${option[name]} ${quoted(value)}`)).join('');
