// New Distributed Switch, and the removal of one.
import { html, nothing } from '../lit.js';
import { show } from '../dialog.js';
import { select, text, tick } from '../fields.js';
import { counted, quoted } from '../format.js';
import { box } from '../parts.js';
import { show_wizard } from '../wizard.js';
import { W } from '../words.js';
import { mtu_field, vlan_fields, vlan_of } from './port_group.js';

const kVersions = ['8.0.0', '7.0.3', '7.0.2', '7.0.0', '6.6.0', '6.5.0', '6.0.0'];
const kTooOld = '6.0.0';  // for PVRDMA
const path = (name) => `/v1/dvs/${encodeURIComponent(name)}`;

const kStart = { name: 'DSwitch', version: kVersions[0], uplinks: 2, with_group: true, group: 'DPortGroup', vlan_type: 'none', vlan: 1, mtu: 1500 };

const switch_edit = (values) => ({ method: 'POST', path: '/v1/dvs', body: { name: values.name, version: values.version, uplinks: values.uplinks } });
const group_edit = (values) => ({ method: 'PUT', path: `${path(values.name)}/portgroups/${encodeURIComponent(values.group)}`, at: 'group',
                                  body: { vlan: vlan_of(values), mtu: values.mtu } });

export const new_switch = () => show_wizard({
  title: W.newSwitch,
  target: 'cluster',
  values: kStart,
  steps: [
    { title: W.nameAndLocation, edits: ({ name }) => [switch_edit({ ...kStart, name })], body: (dialog) => text(dialog, 'name', W.name, { required: true }) },
    { title: W.selectVersion, edits: ({ name, version }) => [switch_edit({ ...kStart, name, version })],
      body: (dialog) => html`${select(dialog, 'version', W.version, kVersions.map((version) => [version, version]))}
        ${dialog.values.version === kTooOld ? box('warning', 'PVRDMA needs 6.5.0 or later: no VM gets a PVRDMA adapter on this switch.') : nothing}` },
    { title: W.configureSettings, body: (dialog) => html`
      ${text(dialog, 'uplinks', W.numberOfUplinks, { type: 'number', min: 1, max: 32, required: true })}
      ${tick(dialog, 'with_group', W.defaultPortGroup)}
      ${dialog.values.with_group ? html`${text(dialog, 'group', W.portGroupName, { required: true })}${vlan_fields(dialog)}${mtu_field(dialog)}` : nothing}` },
  ],
  edits: (values) => [switch_edit(values), ...(values.with_group ? [group_edit(values)] : [])],
  commands: (values) => [
    `pvrdmactl dvs create ${quoted(values.name)} --version ${values.version} --uplinks ${values.uplinks}`,
    ...(values.with_group ? [`pvrdmactl dvs portgroup add ${quoted(values.name)} ${quoted(values.group)} --vlan ${vlan_of(values)} --mtu ${values.mtu}`] : [])],
  done: (values) => { location.hash = `#/networking/${encodeURIComponent(values.name)}`; },
});

export const remove_switch = (dvs) => show({
  title: `Remove ${dvs.name}`,
  target: 'cluster',
  ok: 'Remove',
  danger: true,
  values: {},
  body: () => html`<p>Removes the distributed switch ${dvs.name} with its ${counted(dvs.portgroups.length, 'port group')}.</p>`,
  edits: () => [{ method: 'DELETE', path: path(dvs.name) }],
  commands: () => [`pvrdmactl dvs delete ${dvs.name}`],
  done: () => { location.hash = '#/networking'; },
});
