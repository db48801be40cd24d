// Addresses of views: #/hosts/esx-01/configure/firewall is ['hosts', 'esx-01', 'configure', 'firewall'].

export function parse(hash) {
  const parts = hash.replace(/^#\/?/, '').split('/').filter(Boolean);
  try {
    return parts.map(decodeURIComponent);
  } catch {
    return parts;  // not an address of ours
  }
}

export const to = (...parts) => `#/${parts.map(encodeURIComponent).join('/')}`;

export const go = (...parts) => {
  location.hash = to(...parts);
};
