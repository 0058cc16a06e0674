package docs

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/browser"
)

// facts is what a page says of itself.
type facts struct {
	Width  int      // that its content takes
	Links  []string // to other pages of the site, and within the page
	IDs    []string
	Copied []string // by the button of each block of code
	Broken []string // options of commands on two lines
	Dark   bool
}

const ask = `(() => {
  return {
    Width: document.documentElement.scrollWidth,
    Links: [...document.querySelectorAll('a[href]')].map(a => a.href).filter(h => h.startsWith(location.origin)),
    IDs: [...document.querySelectorAll('[id]')].map(e => e.id),
    Copied: [...document.querySelectorAll('.vp-doc div[class*=language-] > button.copy')].map(b => {
      let text = null
      navigator.clipboard.writeText = t => (text = t, Promise.resolve())
      b.click()
      return text
    }),
    Broken: [...document.querySelectorAll('.vp-doc .option')].filter(e => e.getClientRects().length > 1).map(e => e.textContent),
    Dark: document.documentElement.classList.contains('dark'),
  }
})()`

// open opens a page of the site and waits until its scripts have taken it over.
func open(t *testing.T, b *browser.Browser, address string, width int, scheme string) {
	t.Helper()
	b.Open(t, address, width, 900, scheme, "screen")
	testutil.Eventually(t, address+" is taken over by its scripts", func() bool {
		var ready bool
		b.Eval(t, `document.fonts.status == "loaded" && !!document.querySelector("#app")?.__vue_app__`, &ready)
		return ready
	})
}

// elsewhere is the Markdown of pages that are not at their place in docs.
var elsewhere = map[string]string{"index.html": "docs/README.md", "emu.html": "emu/README.md",
	"examples.html": "examples/README.md", "deploy.html": "deploy/README.md", "changes.html": "CHANGELOG.md",
	"security.html": "SECURITY.md"}

// copied returns what a reader wants of a block: of a console block its commands.
func (b block) copied(t *testing.T) string {
	t.Helper()
	if b.lang != "console" {
		return strings.TrimSpace(b.text())
	}
	cs, err := b.commands()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range cs {
		lines = append(lines, c.text)
	}
	return strings.Join(lines, "\n")
}

// search looks for words as a reader does, and returns the pages that are found, the best one first.
func search(t *testing.T, b *browser.Browser, address, words string) []string {
	t.Helper()
	open(t, b, address, 1280, "light")
	b.Eval(t, `document.querySelector("#local-search button").click()`, nil)
	var found []string
	testutil.Eventually(t, "the search finds "+words, func() bool {
		b.Eval(t, `(() => {
  const input = document.querySelector("#localsearch-input")
  if (!input) return []
  if (input.value != `+strconv.Quote(words)+`) {
    input.value = `+strconv.Quote(words)+`
    input.dispatchEvent(new Event("input"))
  }
  return [...document.querySelectorAll(".VPLocalSearchBox a.result")].map(a => new URL(a.href).pathname)
})()`, &found)
		return len(found) > 0
	})
	return found
}

// sitePages returns the pages of the site that were built, and the Markdown of each.
func sitePages(t *testing.T, site string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(site, func(file string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".html" || d.Name() == "404.html" {
			return err
		}
		name, err := filepath.Rel(site, file)
		source := elsewhere[name]
		if source == "" {
			source = path.Join("docs", strings.TrimSuffix(name, ".html")+".md")
		}
		out[name] = source
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDocsBrowser builds the site and opens each page in a browser. It keeps pictures in .build/artifacts.
func TestDocsBrowser(t *testing.T) {
	if !testutil.Full() {
		t.Skip("a full run downloads the browser, and what builds the site")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the browser is Debian's for amd64")
	}
	build := exec.Command("make", "docs")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("make docs, which needs nodejs and npm: %v\n%s", err, out)
	}
	site := filepath.Join(repository, ".build", "site")
	artifacts := filepath.Join(repository, ".build", "artifacts")
	if err := os.MkdirAll(artifacts, 0o755); err != nil {
		t.Fatal(err)
	}
	pages := sitePages(t, site)
	markdown, err := filepath.Glob(filepath.Join(repository, "docs", "*", "*.md"))
	more, err2 := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	markdown = slices.DeleteFunc(append(markdown, more...), func(file string) bool {
		return strings.Contains(file, "node_modules")
	})
	if want := len(markdown) + len(elsewhere) - 1; err != nil || err2 != nil || len(pages) != want {
		t.Errorf("the site has %d pages, want %d", len(pages), want)
	}

	server := httptest.NewServer(http.FileServer(http.Dir(site)))
	defer server.Close()
	b := browser.Start(t, repository)
	ids := map[string]map[string]bool{}
	links := map[string][]string{}
	for name, source := range pages {
		for _, scheme := range []string{"light", "dark"} {
			open(t, b, server.URL+"/"+name, 1280, scheme)
			var f facts
			b.Eval(t, ask, &f)
			if f.Dark != (scheme == "dark") {
				t.Errorf("%s: dark is %v for a reader who wants %s", name, f.Dark, scheme)
			}
			for _, text := range b.Faint(t, ".vp-doc :is(h1, h2, p, li, td, th, a, code, pre span)", 3) {
				t.Errorf("%s, %s: hard to read: %s", name, scheme, text)
			}
			ids[name] = map[string]bool{}
			for _, id := range f.IDs {
				ids[name][id] = true
			}
			links[name] = f.Links
			p, err := readPage(source)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, block := range blocksOf(t, p) {
				want = append(want, block.copied(t))
			}
			for i := range f.Copied {
				f.Copied[i] = strings.TrimSpace(f.Copied[i])
			}
			if !slices.Equal(f.Copied, want) {
				t.Errorf("%s: the buttons copy %q, want %q", name, f.Copied, want)
			}
		}
		open(t, b, server.URL+"/"+name, 420, "light")
		var f facts
		b.Eval(t, ask, &f)
		if f.Width > 420 {
			t.Errorf("%s takes %d of 420 pixels", name, f.Width)
		}
		if len(f.Broken) > 0 {
			t.Errorf("%s breaks %q", name, f.Broken)
		}
	}
	for name, hrefs := range links {
		for _, href := range hrefs {
			u, err := url.Parse(href)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			to := strings.TrimPrefix(u.Path, "/")
			if to == "" {
				to = "index.html"
			}
			if path.Ext(to) == "" {
				to += ".html"
			}
			switch {
			case ids[to] == nil:
				t.Errorf("%s: there is no %s", name, href)
			case u.Fragment != "" && !ids[to][u.Fragment]:
				t.Errorf("%s: %s has no #%s", name, to, u.Fragment)
			}
		}
	}
	for words, want := range map[string]string{"--test-ports": "/rdmaperf/", "memlock": "/guide/containers"} {
		if found := search(t, b, server.URL+"/index.html", words); !strings.HasPrefix(found[0], want) {
			t.Errorf("a search for %s finds %v", words, found)
		}
	}
	for _, s := range []struct {
		name, scheme string
		width        int
	}{
		{"index", "light", 1280}, {"index", "dark", 1280}, {"index", "light", 420},
		{"guide/first-messages", "light", 1280}, {"guide/first-messages", "dark", 1280},
		{"guide/first-messages", "dark", 420},
		{"guide/troubleshooting", "light", 1280}, {"guide/troubleshooting", "light", 420}, {"rdma", "dark", 1280},
		{"rdmaperf/two-hosts", "dark", 420}, {"rdmaperf/limits", "light", 1280},
	} {
		open(t, b, server.URL+"/"+s.name+".html", s.width, s.scheme)
		b.Shot(t, filepath.Join(artifacts, fmt.Sprintf("docs-%s-%s-%d.png", path.Base(s.name), s.scheme, s.width)))
	}

	for _, trouble := range b.Trouble() {
		t.Errorf("an error in the browser: %s", trouble)
	}
	for _, host := range b.Hosts() {
		if "http://"+host != server.URL {
			t.Errorf("the site asks %s for something", host)
		}
	}
}
