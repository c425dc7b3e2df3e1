// The model must say hello.
const methods = {
  initialize: () => ({ protocol: 1, name: 'hello', toolsets: [], abilities: ['oracle'] }),
  rows: ({ split }) => ({ rows: [{ id: split + '-1', prompt: 'Say hello.' }] }),
  score: ({ episode }) => ({ reward: episode.answer === 'hello' ? 1 : 0 }),
  oracle: () => ({ messages: [{ role: 'assistant', content: 'hello' }] }),
};
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  console.log(JSON.stringify({ jsonrpc: '2.0', id, result: methods[method](params) }));
});
