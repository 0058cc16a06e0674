// Package browser drives a headless browser over two pipes, in Chromium's protocol: JSON objects that end with a zero
// byte.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// Browser is a headless browser with one page.
type Browser struct {
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

// Start starts Debian's Chromium, which scripts/debian-root has unpacked, with one empty page. The repository is the
// folder that has scripts.
func Start(t *testing.T, repository string) *Browser {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "browser") // the browser's root shares /tmp with this one
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
	b := &Browser{out: ours, waiting: map[int]chan reply{}, loaded: make(chan struct{}, 16),
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
	b.Call(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.Call(t, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.Call(t, domain+".enable", nil, nil)
	}
	return b
}

// read takes what the browser says until it ends.
func (b *Browser) read(in *os.File) {
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
func (b *Browser) event(m reply) {
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

// Call has the browser do something: a method of Chromium's protocol.
func (b *Browser) Call(t *testing.T, method string, params map[string]any, result any) {
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

// Eval evaluates an expression of JavaScript in the page.
func (b *Browser) Eval(t *testing.T, expression string, result any) {
	t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.Call(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	if result != nil {
		if err := json.Unmarshal(r.Result.Value, result); err != nil {
			t.Fatalf("%v: %s", err, r.Result.Value)
		}
	}
}

// faint is a function that returns how many elements of a selector have text, and those whose text has less than a
// contrast with what is behind it: WCAG's ratio, 1 for the same colour and 21 for black on white.
const faint = `((selector, least) => {
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
  let texts = 0
  for (const e of document.querySelectorAll(selector)) {
    if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())) continue
    texts++
    const a = light(channels(getComputedStyle(e).color)), b = light(behind(e))
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    if (ratio < least) faint.push(e.tagName + ' ' + ratio.toFixed(1) + ' ' + e.textContent.slice(0, 40))
  }
  return {Texts: texts, Faint: faint}
})`

// Faint returns the elements with text that is hard to read: those of a selector whose text has less than a contrast
// with what is behind it, from 1 to 21. The page must have such text.
func (b *Browser) Faint(t *testing.T, selector string, least float64) []string {
	t.Helper()
	var r struct {
		Texts int
		Faint []string
	}
	b.Eval(t, fmt.Sprintf("%s(%q, %v)", faint, selector, least), &r)
	if r.Texts == 0 {
		t.Errorf("the page has no text in %s", selector)
	}
	return r.Faint
}

// Open opens a page and waits until it is loaded. The scheme is "light" or "dark", the media "screen" or "print".
func (b *Browser) Open(t *testing.T, address string, width, height int, scheme, media string) {
	t.Helper()
	b.Call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
		"deviceScaleFactor": 1, "mobile": false}, nil)
	b.Call(t, "Emulation.setEmulatedMedia", map[string]any{"media": media, "features": []map[string]string{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}}, nil)
	b.Call(t, "Page.navigate", map[string]any{"url": address}, nil)
	select {
	case <-b.loaded:
	case <-time.After(testutil.Patience):
		t.Fatalf("%s does not load", address)
	}
}

// Shot returns a picture of what is in the window as a PNG, and keeps it in a file.
func (b *Browser) Shot(t *testing.T, file string) []byte {
	t.Helper()
	var r struct{ Data string }
	b.Call(t, "Page.captureScreenshot", nil, &r)
	picture, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, picture, 0o644); err != nil {
		t.Fatal(err)
	}
	return picture
}

// Trouble returns the errors and warnings of all pages so far.
func (b *Browser) Trouble() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.trouble)
}

// Hosts returns the hosts that pages asked for something.
func (b *Browser) Hosts() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.hosts))
}
