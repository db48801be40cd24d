// Edit the ruleset pvrdma: enabled, and the addresses that it admits.
import { html, nothing } from '../lit.js';
import { Daemon } from '../daemon.js';
import { show } from '../dialog.js';
import { lines, tick } from '../fields.js';
import { counted } from '../format.js';
import { holds } from '../networks.js';
import { box } from '../parts.js';
import { W } from '../words.js';

const listed = (text) => text.split(/[\s,]+/).filter(Boolean);

export function edit_firewall(store, host) {
  const ruleset = `/v1/hosts/${encodeURIComponent(host.name)}/rulesets/pvrdma`;
  const old = host.ruleset;
  const changes = ({ enabled, allow_all: any, allowed }) => {
    const wanted = any ? old.allowed : listed(allowed);
    const added = wanted.filter((each) => !old.allowed.includes(each));
    const removed = old.allowed.filter((each) => !wanted.includes(each));
    return { added, removed, flags: { ...(enabled !== old.enabled ? { enabled } : {}), ...(any !== old.allow_all ? { allow_all: any } : {}) } };
  };
  // The daemon takes the whole list: what others changed since the dialog was opened stays.
  const merged = ({ added, removed }) => {
    const now = store.data.hosts.find(({ name }) => name === host.name)?.ruleset.allowed ?? old.allowed;
    return [...now.filter((each) => !removed.includes(each)), ...added.filter((each) => !now.includes(each))];
  };
  show({
    title: `${W.edit} ${W.firewall}`,
    target: host.name,
    values: { enabled: old.enabled, allow_all: old.allow_all, allowed: old.allowed.join('\n') },
    body: (dialog) => html`
      ${tick(dialog, 'enabled', 'pvrdma', { note: 'TCP 28250, in and out' })}
      ${tick(dialog, 'allow_all', W.allowAny)}
      ${lines(dialog, 'allowed', W.allowedIps, { disabled: dialog.values.allow_all, note: 'addresses and networks such as 10.0.0.0/24, one a line' })}
      ${warning(store, host, dialog.values)}`,
    edits: (values) => {
      const { added, removed, flags } = changes(values);
      const networks = added.length + removed.length > 0;
      const body = { ...flags, ...(networks ? { allowed: merged({ added, removed }) } : {}) };
      return Object.keys(body).length > 0 ? [{ method: 'PATCH', path: ruleset, body }] : [];
    },
    commands: (values) => {
      const { added, removed, flags } = changes(values);
      const words = 'pvrdmactl network firewall ruleset';
      return [...added.map((network) => `${words} allowedip add -H ${host.name} -r pvrdma -i ${network}`),
              ...(Object.keys(flags).length > 0 ? [`${words} set -H ${host.name} -r pvrdma${flags.enabled === undefined ? '' : ` -e ${flags.enabled}`}${
                flags.allow_all === undefined ? '' : ` -a ${flags.allow_all}`}`] : []),
              ...removed.map((network) => `${words} allowedip remove -H ${host.name} -r pvrdma -i ${network}`)];
    },
  });
}

// Which other hosts this one loses, and how many connections.
function warning(store, host, { enabled, allow_all: any, allowed }) {
  const others = store.data.hosts.filter((each) => each.alive && each.name !== host.name && each.pvrdma_vmknic);
  if (!enabled) {
    return others.length ? box('warning', `${host.name} then neither listens nor connects: it loses ${connections_with(store, host, others)} with ${counted(others.length, 'other host')}.`) : nothing;
  }
  if (any) return nothing;
  const address_of = (each) => each.vmks.find(({ name }) => name === each.pvrdma_vmknic)?.address ?? '';
  const lost = others.filter((each) => !listed(allowed).some((network) => holds(network, address_of(each))));
  return lost.length ? box('warning', `${host.name} then loses ${connections_with(store, host, lost)} with ${lost.map((each) => `${each.name} (${address_of(each)})`).join(', ')}: no allowed address is theirs.`) : nothing;
}

// The host's connections with these others, with their number if that is known here.
function connections_with(store, host, others) {
  const list = new Daemon(store, host).known('/v1/paths/summary');
  if (list === undefined) return 'its connections';
  const many = list.filter(({ peer_host: peer }) => others.some(({ name }) => name === peer)).reduce((sum, { connections }) => sum + connections, 0);
  return `its ${counted(many, 'connection')}`;
}
