// The site of these pages: "make docs" builds it to .build/site. Its test is TestDocsBrowser in test/docs.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const docs = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const repository = 'https://github.com/pureverbs/pureverbs'

const guide = {
  'Start here': ['rdma', 'ready', 'no-nic', 'first-messages'],
  'Build': ['http-and-grpc', 'lending-memory', 'kv-cache', 'verbs'],
  'Run': ['data-path', 'containers', 'tuning', 'troubleshooting', 'perf'],
  'Look up': ['glossary'],
}
const contributors = ['architecture', 'testing', 'adding-a-verb', 'rdma-protocol', 'emulator-internals'].filter((page) => existsSync(join(docs, page + '.md')))

// title returns the heading of a page.
const title = (page) => readFileSync(join(docs, page + '.md'), 'utf8').match(/^# (.*)$/m)[1].replaceAll('`', '')
const item = (page) => ({ text: title(page), link: '/' + page })

// All other pages of docs are the reference.
const reference = readdirSync(docs)
  .filter((name) => name.endsWith('.md'))
  .map((name) => name.slice(0, -3))
  .filter((page) => page != 'README' && !contributors.includes(page))

// slug is GitHub's, so that a link to a heading works there and here. test/docs has the same in Go.
const slug = (text) =>
  text.trim().toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')

// outside returns the address of a file of the repository that is no page of the site.
const outside = (from, href) => {
  if (/^([a-z]+:|#|\/)/.test(href)) return href
  const [path, anchor] = href.split('#')
  const file = resolve(dirname(from), path)
  if (!relative(docs, file).startsWith('..') && file.endsWith('.md')) return href
  const kind = existsSync(file) && statSync(file).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${relative(dirname(docs), file)}${anchor ? '#' + anchor : ''}`
}

export default defineConfig({
  lang: 'en',
  title: 'pureverbs',
  description: 'RDMA for Go without cgo',
  base: process.env.SITE_BASE ?? '/',
  outDir: '../.build/site',
  cacheDir: '../.build/vitepress',
  rewrites: { 'README.md': 'index.md' },
  srcExclude: ['node_modules/**'],
  lastUpdated: false,
  markdown: {
    anchor: { slugify: slug },
    config(md) {
      const open = md.renderer.rules.link_open
      md.renderer.rules.link_open = (tokens, i, options, env, self) => {
        const href = tokens[i].attrGet('href')
        if (href) tokens[i].attrSet('href', outside(env.path, href))
        return open(tokens, i, options, env, self)
      }
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Guide', link: '/' },
      { text: 'API', link: 'https://pkg.go.dev/github.com/pureverbs/pureverbs' },
      { text: 'Source', link: repository },
    ],
    sidebar: [
      ...Object.entries(guide).map(([text, pages]) => ({ text, items: pages.map((p) => item('guide/' + p)) })),
      { text: 'Reference', items: reference.map(item) },
      { text: 'For contributors', items: contributors.map(item) },
    ],
  },
})
