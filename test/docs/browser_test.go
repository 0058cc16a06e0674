package docs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// browser is a headless browser that is told what to do over two pipes, in Chromium's protocol: JSON objects that end
// with a zero byte.
type browser struct {
	out     *os.File
	mu      sync.Mutex
	last    int
	waiting map[int]chan reply
	loaded  chan struct{}
	trouble []string            // errors of pages
	hosts   map[string]struct{} // that pages asked for something
	session string
}

type reply struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startBrowser starts Debian's Chromium with one empty page.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "docs") // the browser's root shares /tmp with this one
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(repository, "scripts", "in-debian"), "bookworm-browser",
		"chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
		"--user-data-dir="+filepath.Join(dir, "profile"))
	var diag bytes.Buffer
	cmd.Stderr, cmd.ExtraFiles = &diag, []*os.File{theirs, answers}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirs.Close(), answers.Close()
	b := &browser{out: ours, waiting: map[int]chan reply{}, loaded: make(chan struct{}, 16),
		hosts: map[string]struct{}{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.read(in)
	}()
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		_ = ours.Close()
		<-done
		_ = in.Close()
		_ = os.RemoveAll(dir)
		if t.Failed() {
			t.Logf("the browser: %s", diag.String())
		}
	})
	var target struct{ TargetID string }
	b.call(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(t, domain+".enable", nil, nil)
	}
	return b
}

// read takes what the browser says until it ends.
func (b *browser) read(in *os.File) {
	r := bufio.NewReader(in)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m reply
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m) != nil {
			continue
		}
		b.mu.Lock()
		if c := b.waiting[m.ID]; m.ID != 0 && c != nil {
			delete(b.waiting, m.ID)
			c <- m
		}
		b.event(m)
		b.mu.Unlock()
	}
}

// event keeps what a page must not do.
func (b *browser) event(m reply) {
	switch m.Method {
	case "Page.loadEventFired":
		b.loaded <- struct{}{}
	case "Runtime.exceptionThrown":
		b.trouble = append(b.trouble, string(m.Params))
	case "Runtime.consoleAPICalled":
		var p struct{ Type string }
		if json.Unmarshal(m.Params, &p) == nil && (p.Type == "error" || p.Type == "warning") {
			b.trouble = append(b.trouble, string(m.Params))
		}
	case "Log.entryAdded":
		var p struct{ Entry struct{ Level string } }
		if json.Unmarshal(m.Params, &p) == nil && p.Entry.Level == "error" {
			b.trouble = append(b.trouble, string(m.Params))
		}
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if json.Unmarshal(m.Params, &p) == nil {
			if u, err := url.Parse(p.Request.URL); err == nil && u.Host != "" {
				b.hosts[u.Host] = struct{}{}
			}
		}
	}
}

// call has the browser do something.
func (b *browser) call(t *testing.T, method string, params map[string]any, result any) {
	t.Helper()
	b.mu.Lock()
	b.last++
	id, c := b.last, make(chan reply, 1)
	b.waiting[id] = c
	b.mu.Unlock()
	if params == nil {
		params = map[string]any{}
	}
	m := map[string]any{"id": id, "method": method, "params": params}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.out.Write(append(text, 0)); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-c:
		if r.Error != nil {
			t.Fatalf("%s: %s", method, r.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(r.Result, result); err != nil {
				t.Fatal(err)
			}
		}
	case <-time.After(testutil.Patience):
		t.Fatalf("%s: no reply", method)
	}
}

// eval evaluates an expression of JavaScript in the page.
func (b *browser) eval(t *testing.T, expression string, result any) {
	t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	if result != nil {
		if err := json.Unmarshal(r.Result.Value, result); err != nil {
			t.Fatalf("%v: %s", err, r.Result.Value)
		}
	}
}

// open opens a page and waits until its scripts have taken it over.
func (b *browser) open(t *testing.T, address string, width, height int, scheme string) {
	t.Helper()
	b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
		"deviceScaleFactor": 1, "mobile": false}, nil)
	b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
	b.call(t, "Page.navigate", map[string]any{"url": address}, nil)
	select {
	case <-b.loaded:
	case <-time.After(testutil.Patience):
		t.Fatalf("%s does not load", address)
	}
	testutil.Eventually(t, address+" is taken over by its scripts", func() bool {
		var ready bool
		b.eval(t, `document.fonts.status == "loaded" && !!document.querySelector("#app")?.__vue_app__`, &ready)
		return ready
	})
}

// shot keeps a picture of what is in the window.
func (b *browser) shot(t *testing.T, file string) {
	t.Helper()
	var r struct{ Data string }
	b.call(t, "Page.captureScreenshot", nil, &r)
	picture, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

// facts is what a page says of itself.
type facts struct {
	Width  int      // that its content takes
	Links  []string // to other pages of the site, and within the page
	IDs    []string
	Blocks int      // of code
	Faint  []string // text that does not stand out from what is behind it
	Dark   bool
}

const ask = `(() => {
  const channels = c => (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number)
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = channels(getComputedStyle(e).backgroundColor)
      if (c.length < 4 || c[3] > 0.9) return c
    }
    return [255, 255, 255]
  }
  const light = c => {
    const [r, g, b] = c.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const faint = []
  for (const e of document.querySelectorAll('.vp-doc :is(h1, h2, p, li, td, th, a, code, pre span)')) {
    if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())) continue
    const a = light(channels(getComputedStyle(e).color)), b = light(behind(e))
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    if (ratio < 3) faint.push(e.tagName + ' ' + ratio.toFixed(1) + ' ' + e.textContent.slice(0, 40))
  }
  return {
    Width: document.documentElement.scrollWidth,
    Links: [...document.querySelectorAll('a[href]')].map(a => a.href).filter(h => h.startsWith(location.origin)),
    IDs: [...document.querySelectorAll('[id]')].map(e => e.id),
    Blocks: document.querySelectorAll('.vp-doc div[class*=language-] pre').length,
    Faint: faint,
    Dark: document.documentElement.classList.contains('dark'),
  }
})()`

// sitePages returns the pages of the site that were built, and the Markdown of each.
func sitePages(t *testing.T, site string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(site, func(file string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".html" || d.Name() == "404.html" {
			return err
		}
		name, err := filepath.Rel(site, file)
		source := path.Join("docs", strings.TrimSuffix(name, ".html")+".md")
		if name == "index.html" {
			source = "docs/README.md"
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
	markdown, err := filepath.Glob(filepath.Join(repository, "docs", "guide", "*.md"))
	if more, err2 := filepath.Glob(filepath.Join(repository, "docs", "*.md")); err != nil || err2 != nil ||
		len(pages) != len(markdown)+len(more) {
		t.Errorf("the site has %d pages, docs has %d", len(pages), len(markdown)+len(more))
	}

	server := httptest.NewServer(http.FileServer(http.Dir(site)))
	defer server.Close()
	b := startBrowser(t)
	ids := map[string]map[string]bool{}
	links := map[string][]string{}
	for name, source := range pages {
		for _, scheme := range []string{"light", "dark"} {
			b.open(t, server.URL+"/"+name, 1280, 900, scheme)
			var f facts
			b.eval(t, ask, &f)
			if f.Dark != (scheme == "dark") {
				t.Errorf("%s: dark is %v for a reader who wants %s", name, f.Dark, scheme)
			}
			for _, text := range f.Faint {
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
			if want := len(blocksOf(t, p)); f.Blocks < want {
				t.Errorf("%s: %d blocks of code, %s has %d", name, f.Blocks, source, want)
			}
		}
		b.open(t, server.URL+"/"+name, 420, 900, "light")
		var f facts
		b.eval(t, ask, &f)
		if f.Width > 420 {
			t.Errorf("%s takes %d of 420 pixels", name, f.Width)
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
	for _, s := range []struct {
		name, scheme string
		width        int
	}{
		{"index", "light", 1280}, {"index", "dark", 1280}, {"index", "light", 420},
		{"guide/first-messages", "light", 1280}, {"guide/first-messages", "dark", 1280},
		{"guide/first-messages", "dark", 420},
		{"guide/troubleshooting", "light", 1280}, {"guide/troubleshooting", "light", 420}, {"rdma", "dark", 1280},
	} {
		b.open(t, server.URL+"/"+s.name+".html", s.width, 900, s.scheme)
		b.shot(t, filepath.Join(artifacts, fmt.Sprintf("docs-%s-%s-%d.png", path.Base(s.name), s.scheme, s.width)))
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	for _, trouble := range b.trouble {
		t.Errorf("an error in the browser: %s", trouble)
	}
	for host := range b.hosts {
		if "http://"+host != server.URL {
			t.Errorf("the site asks %s for something", host)
		}
	}
}
