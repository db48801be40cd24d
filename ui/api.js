// Requests to the daemon. Each ends with the answer's JSON or with a Refusal, whose message is a sentence for people.
const kTokenKey = 'pvrdma-token';
const kPatienceMs = 10000;

// `status` is HTTP's; 0: no whole answer arrived.
export class Refusal extends Error {
  constructor(message, status, { field, index } = {}) {
    super(message);
    this.status = status;
    this.field = field;  // the member of the request's body that is wrong, if it is one
    this.index = index;  // of a batch: the refused edit
  }
}

export const token = {
  get: () => sessionStorage.getItem(kTokenKey) ?? '',
  set: (text) => sessionStorage.setItem(kTokenKey, text),
  forget: () => sessionStorage.removeItem(kTokenKey),
};

export function headers(more = {}) {
  const secret = token.get();
  return secret ? { ...more, Authorization: `Bearer ${secret}` } : more;
}

// Of a batch without the name of the refused edit, which people have not written.
const sentence_of = ({ error, index }) => (index === undefined ? error : String(error).replace(/^edit \d+, \S+ \S+: /, ''));

// What a refusal's text says; undefined: it is not JSON.
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const unanswered = (method, path, patience_ms) => new Refusal(`The daemon has not answered ${method} ${path} within ${patience_ms / 1000} s.`, 0);

const foreign = (method, path, status, what) => new Refusal(`The answer to ${method} ${path} (status ${status}) is not ${what}: another program answers, or it was cut.`, 0);

const unreachable = () => new Refusal('The daemon cannot be reached.', 0);

function refused(method, path, status, value) {
  const told = value ?? {};
  return new Refusal(sentence_of(told) ?? `${method} ${path}: status ${status}`, status, told);
}

export async function request(method, path, body, patience_ms = kPatienceMs) {
  let status = 0;
  let text = '';
  try {
    const answer = await fetch(path, {
      method,
      headers: headers(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(patience_ms),
      cache: 'no-store',
      credentials: 'omit',
    });
    text = await answer.text();
    ({ status } = answer);
  } catch (error) {
    throw error.name === 'TimeoutError' ? unanswered(method, path, patience_ms) : unreachable();
  }
  const value = parsed(text);
  if (value === undefined) throw foreign(method, path, status, 'JSON');
  if (status >= 400) throw refused(method, path, status, value);
  return value;
}

// The bytes of an answer of this type that has no end of its own, as a reader. `signal` ends it.
export async function open_stream(path, body, type, signal) {
  const late = new AbortController();  // for the head only: the bytes may come for hours
  const timer = setTimeout(() => late.abort(), kPatienceMs);
  let answer;
  let text;
  try {
    answer = await fetch(path, { method: 'POST', headers: headers({ 'Content-Type': 'application/json' }), body: JSON.stringify(body),
                                 signal: AbortSignal.any([signal, late.signal]), cache: 'no-store', credentials: 'omit' });
    if (!answer.ok) text = await answer.text();
  } catch {
    throw late.signal.aborted ? unanswered('POST', path, kPatienceMs) : unreachable();
  } finally {
    clearTimeout(timer);
  }
  if (!answer.ok) {
    const value = parsed(text);
    throw value === undefined ? foreign('POST', path, answer.status, 'JSON') : refused('POST', path, answer.status, value);
  }
  if (answer.headers.get('Content-Type')?.split(';')[0].trim() !== type) {
    answer.body?.cancel().catch(() => {});  // it may have no end
    throw foreign('POST', path, answer.status, type);
  }
  return answer.body.getReader();
}

export const get = (path) => request('GET', path);
