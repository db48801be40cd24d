// Host > Configure > System: advanced system settings and firewall.
import { html } from '../lit.js';
import { edit_advanced } from '../dialogs/advanced.js';
import { edit_firewall } from '../dialogs/firewall.js';
import { ports } from '../format.js';
import { answer, box, buttons, facts, section } from '../parts.js';
import { table } from '../table.js';
import { W } from '../words.js';

// VMware's pages write Net.PVRDMAVmknic, the API /Net/PVRDMAVmknic.
const shown_path = (path) => path.replace(/^\//, '').replaceAll('/', '.');

export function advanced(store, host) {
  const columns = [
    { key: 'name', title: W.name, value: (setting) => shown_path(setting.path) },
    { key: 'value', title: W.value, value: (setting) => setting.value, cell: (setting) => setting.value || html`<i>empty</i>` },
    { key: 'default', title: W.default, value: (setting) => setting.default, cell: (setting) => setting.default || html`<i>empty</i>` },
    { key: 'description', title: W.description, value: (setting) => setting.description },
  ];
  const actions = () => [[W.edit, () => edit_advanced(host), store.cannot_edit]];
  return html`${section(W.advanced)}
    ${answer(store.detail(`/v1/hosts/${encodeURIComponent(host.name)}/advanced`), (settings) => table(`advanced/${host.name}`, columns, { label: W.advanced, key: (setting) => setting.path, actions })
      .draw(settings, buttons(actions())))}`;
}

export function firewall(store, host) {
  const rulesets = [host.ruleset];
  const rules = store.detail(`/v1/hosts/${encodeURIComponent(host.name)}/rulesets/pvrdma/rules`);
  const columns = [
    { key: 'name', title: W.name, value: (ruleset) => ruleset.name },
    { key: 'in', title: W.incomingPorts, value: () => ports(rules.value ?? [], 'Inbound') },
    { key: 'out', title: W.outgoingPorts, value: () => ports(rules.value ?? [], 'Outbound') },
    { key: 'protocol', title: W.protocol, value: () => [...new Set((rules.value ?? []).map((rule) => rule.protocol))].join(', ') },
    { key: 'state', title: W.state, value: (ruleset) => (ruleset.enabled ? 'Enabled' : 'Disabled') },
  ];
  const actions = () => [[W.edit, () => edit_firewall(store, host), store.cannot_edit]];
  return html`${section(W.firewall)}
    ${host.firewall ? '' : box('info', `The firewall of ${host.name} is disabled: the ruleset has no effect.`)}
    ${table(`firewall/${host.name}`, columns, { label: W.firewall, key: (ruleset) => ruleset.name, actions })
      .draw(rulesets, buttons(actions()))}
    <section class="detail" aria-label="Ruleset pvrdma"><h3 class="section-title">pvrdma</h3>
    ${facts([[W.allowedIps, host.ruleset.allow_all ? 'All' : host.ruleset.allowed.join(', ') || 'none: nothing is admitted']])}</section>`;
}
