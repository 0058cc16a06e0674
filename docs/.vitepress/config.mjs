// The site of these pages: "make docs" builds it to .build/site. Its test is TestDocsBrowser in test/docs.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const repository = 'https://github.com/pureverbs/pureverbs'

// Pages outside of docs, by their place on the site.
const elsewhere = {
  'emu/README.md': 'emu.md',
  'examples/README.md': 'examples.md',
  'deploy/README.md': 'deploy.md',
  'CHANGELOG.md': 'changes.md',
  'SECURITY.md': 'security.md',
}

const markdown = (folder) => readdirSync(join(root, folder)).filter((name) => name.endsWith('.md')).map((name) => folder + '/' + name)
const rewrites = { ...elsewhere }
for (const page of ['docs', 'docs/guide', 'docs/rdmaperf'].flatMap(markdown)) {
  rewrites[page] = page == 'docs/README.md' ? 'index.md' : page.slice('docs/'.length)
}

// All other pages of the repository.
const srcExclude = readdirSync(root)
  .filter((name) => !['docs', 'emu', 'examples', 'deploy'].includes(name) && !rewrites[name])
  .flatMap((name) => (name.endsWith('.md') ? [name] : [name + '/**']))
  .concat('docs/node_modules/**', ...['emu', 'examples', 'deploy'].map((folder) => folder + '/*/**'))

const sections = {
  'Start here': ['docs/guide/rdma', 'docs/guide/ready', 'docs/guide/no-nic', 'docs/guide/first-messages'],
  'Build': ['docs/guide/http-and-grpc', 'docs/guide/lending-memory', 'docs/guide/kv-cache', 'docs/guide/verbs', 'examples/README'],
  'Run': ['docs/guide/containers', 'docs/guide/tuning', 'docs/guide/troubleshooting', 'emu/README'],
  'Measure': ['two-hosts', 'limits', 'mesh', 'perftest'].map((page) => 'docs/rdmaperf/' + page).concat('docs/doctor', 'deploy/README'),
  'Look up': ['docs/guide/glossary', 'CHANGELOG', 'SECURITY'],
}
const contributors = ['architecture', 'testing', 'adding-a-verb', 'rdma-protocol', 'emulator-internals'].map((page) => 'docs/' + page).filter((page) => existsSync(join(root, page + '.md')))
const listed = Object.values(sections).flat().concat(contributors, 'docs/README')
const reference = Object.keys(rewrites).map((page) => page.slice(0, -3)).filter((page) => !listed.includes(page))

// title returns the heading of a page.
const title = (page) => readFileSync(join(root, page + '.md'), 'utf8').match(/^# (.*)$/m)[1].replaceAll('`', '')
const address = (page) => '/' + rewrites[page].slice(0, -3).replace(/^index$/, '')
const item = (page) => ({ text: title(page), link: address(page + '.md') })

// slug is GitHub's, so that a link to a heading works there and here. test/docs has the same in Go.
const slug = (text) =>
  text.trim().toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')

// target returns the address of a file of the repository: on the site, or in the repository.
const target = (from, href) => {
  if (/^([a-z]+:|#|\/)/.test(href)) return href
  const [path, anchor] = href.split('#')
  const file = relative(root, resolve(root, dirname(from), path))
  const at = anchor ? '#' + anchor : ''
  if (rewrites[file]) return address(file) + at
  if (rewrites[file + '/README.md']) return address(file + '/README.md') + at
  const kind = existsSync(join(root, file)) && statSync(join(root, file)).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${file}${at}`
}

// commandsOnly leaves the prompts and the output of a console block out of what is copied.
const commandsOnly = {
  name: 'commands-only',
  code(node) {
    if (this.options.lang != 'console') return
    const text = (n) => (n.type == 'text' ? n.value : (n.children ?? []).map(text).join(''))
    const hidden = (children) => ({ type: 'element', tagName: 'span', properties: { class: 'vp-copy-ignore' }, children })
    let more = false // the last line ended with a backslash
    const out = []
    for (const line of node.children.filter((n) => n.type == 'element')) {
      const words = text(line)
      const command = words.startsWith('$ ')
      if (out.length > 0) out.push(command || more ? { type: 'text', value: '\n' } : hidden([{ type: 'text', value: '\n' }]))
      if (command) {
        line.children = [hidden([{ type: 'text', value: '$ ' }]), { type: 'text', value: words.slice(2) }]
        out.push(line)
      } else {
        out.push(more ? line : hidden([line]))
      }
      more = (command || more) && words.endsWith('\\')
    }
    node.children = out
  },
}

export default defineConfig({
  lang: 'en',
  title: 'pureverbs',
  description: 'RDMA for Go without cgo, and an emulated ConnectX adapter',
  base: process.env.SITE_BASE ?? '/',
  srcDir: '..',
  outDir: '../.build/site',
  cacheDir: '../.build/vitepress',
  rewrites,
  srcExclude,
  lastUpdated: false,
  // Pages outside of docs have no node_modules above them. What renders them is in docs.
  vite: {
    plugins: [{ name: 'vue-of-docs', enforce: 'pre', resolveId: (id, _, { ssr }) => (ssr && /^vue(\/|$)/.test(id) ? { id, external: true } : null) }],
  },
  markdown: {
    anchor: { slugify: slug },
    codeTransformers: [commandsOnly],
    config(md) {
      const open = md.renderer.rules.link_open
      md.renderer.rules.link_open = (tokens, i, options, env, self) => {
        const href = tokens[i].attrGet('href')
        if (href) tokens[i].attrSet('href', target(relative(root, env.realPath ?? env.path), href))
        return open(tokens, i, options, env, self)
      }
      // An option does not break after its dashes.
      const code = md.renderer.rules.code_inline
      md.renderer.rules.code_inline = (...args) =>
        code(...args).replace(/(^|[\s>,(])(--?[A-Za-z][\w-]*)/g, '$1<span class="option">$2</span>')
    },
  },
  themeConfig: {
    // An option such as --test-ports is a word, and so are its parts.
    search: {
      provider: 'local',
      options: {
        miniSearch: {
          options: {
            tokenize: (text) =>
              text.split(/[^\p{L}\p{N}_-]+/u).map((w) => w.replace(/^-+|-+$/g, '')).flatMap((w) => (w.includes('-') ? [w, ...w.split('-')] : [w])),
          },
          searchOptions: { tokenize: (text) => text.split(/[^\p{L}\p{N}_-]+/u).map((w) => w.replace(/^-+|-+$/g, '')) },
        },
      },
    },
    outline: [2, 3],
    nav: [
      { text: 'Guide', link: '/' },
      { text: 'API', link: 'https://pkg.go.dev/github.com/pureverbs/pureverbs' },
      { text: 'Source', link: repository },
    ],
    sidebar: [
      ...Object.entries(sections).map(([text, pages]) => ({ text, items: pages.map(item) })),
      { text: 'Reference', items: reference.map(item) },
      { text: 'For contributors', items: contributors.map(item) },
    ],
  },
})
