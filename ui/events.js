// Server-sent events, read with fetch: EventSource cannot send a token.

// Takes the stream's text in pieces cut anywhere; returns the events that are whole: [{event, data}].
export class EventParser {
  #rest = '';

  feed(text) {
    const blocks = (this.#rest + text).split(/\r?\n\r?\n/);
    this.#rest = blocks.pop();
    return blocks.map(parsed).filter((each) => each.data !== '');
  }
}

function parsed(block) {
  const lines = block.split(/\r?\n/).filter((line) => !line.startsWith(':'));
  const values = (name) => lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /, ''));
  return { event: values('event').at(-1) ?? 'message', data: values('data').join('\n') };
}
