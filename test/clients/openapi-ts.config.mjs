// The client is generated for each test, and never committed. It checks every answer of the node against the description.
export default {
  input: '../../docs/reference/openapi.json',
  output: { path: 'build/api', module: { extension: '.js' } },
  plugins: ['@hey-api/client-fetch', '@hey-api/typescript', 'zod', { name: '@hey-api/sdk', validator: { response: true } }],
}
