// Cuts GitHub's OpenAPI description (npm @octokit/openapi, generated/api.github.com.json) down to some operations and
// what they refer to. Examples and prose are left out.
//
//   node trim.mjs api.github.com.json openapi.json OPERATION…
import fs from 'node:fs'

const [, , from, to, ...wanted] = process.argv
const whole = JSON.parse(fs.readFileSync(from, 'utf8'))
const prose = ['description', 'summary', 'externalDocs', 'example', 'examples', 'tags']

// bare returns a node without prose. In a map of names nothing is prose.
function bare(node, names = false) {
  if (Array.isArray(node)) return node.map((item) => bare(item))
  if (node === null || typeof node !== 'object') return node
  const kept = Object.entries(node).filter(([key]) => names || (!prose.includes(key) && !key.startsWith('x-')))
  return Object.fromEntries(kept.map(([key, value]) => [key, bare(value, key === 'properties' && !names)]))
}

const paths = {}
const components = {}
const missing = new Set(wanted)

function follow(node) {
  if (node === null || typeof node !== 'object') return
  if (typeof node.$ref === 'string') {
    const [, , kind, name] = node.$ref.split('/')
    components[kind] ??= {}
    if (!components[kind][name]) {
      components[kind][name] = bare(whole.components[kind][name])
      if (kind === 'responses') components[kind][name].description = ''
      follow(components[kind][name])
    }
  }
  Object.values(node).forEach(follow)
}

for (const [path, methods] of Object.entries(whole.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    if (!missing.delete(operation.operationId)) continue
    const kept = bare(operation)
    for (const response of Object.values(kept.responses)) if (!response.$ref) response.description = ''
    paths[path] = { ...paths[path], [method]: kept }
    follow(kept)
  }
}
if (missing.size > 0) throw new Error('not in the description: ' + [...missing].join(', '))
const { title, version, license } = whole.info
fs.writeFileSync(to, JSON.stringify({ openapi: whole.openapi, info: { title, version, license }, servers: whole.servers, paths, components }, null, 1) + '\n')
