package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// printed is what a program has written so far.
type printed struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// watching runs show_gids --watch until stop is called.
func watching(t *testing.T, args ...string) (out, diag *printed, stop func()) {
	t.Helper()
	out, diag = new(printed), new(printed)
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() { code <- run(ctx, append(args, "--watch=100ms"), out, diag) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if rc := <-code; rc != exitOK {
			t.Errorf("%v: exit code %d, want 0", args, rc)
		}
	})
	t.Cleanup(stop)
	return out, diag, stop
}

// comes waits until a program has written something n times.
func comes(t *testing.T, p *printed, what string, n int) {
	t.Helper()
	testutil.Eventually(t, what, func() bool { return strings.Count(p.String(), what) >= n })
}

func TestShowGIDs_Watch(t *testing.T) {
	const (
		state  = "class/infiniband/mlx5_0/ports/1/state"
		second = "fe80:0000:0000:0000:0000:0000:0000:0002"
	)
	tr := sysfstest.New(t)
	tr.Netdev("eth2", "up", "0x1003", 2, 1500, "")
	tr.Device("mlx5_0", "", "", "")
	tr.Port("mlx5_0", 1, "4: ACTIVE", "Ethernet", "", 4)
	tr.GID("mlx5_0", 1, 0, "fe80:0000:0000:0000:0000:0000:0000:0001", sysfstest.V2, "eth2")
	at := []string{"--sysfs", tr.Root}
	table, _, stopTable := watching(t, append(at, "--columns=index,state")...)
	best, why, stopBest := watching(t, append(at, "--best")...)
	objects, _, stopObjects := watching(t, append(at, "--json")...)
	comes(t, table, "0      ACTIVE", 1)
	comes(t, best, "0\n", 1)
	comes(t, objects, "show_gids", 1)

	tr.GID("mlx5_0", 1, 3, "0000:0000:0000:0000:0000:ffff:0a0a:0a01", sysfstest.V2, "eth2")
	comes(t, table, "3      ACTIVE", 1)
	comes(t, best, "3\n", 1)
	comes(t, objects, "10.10.10.1", 1)

	tr.Write(state, "1: DOWN\n")
	comes(t, table, "3      DOWN", 1)
	comes(t, objects, "DOWN", 2)
	comes(t, why, "port is not ACTIVE", 1)
	tr.Write(state, "4: ACTIVE\n")
	comes(t, table, "3      ACTIVE", 2)
	comes(t, best, "3\n", 2)
	for _, stop := range []func(){stopTable, stopBest, stopObjects} {
		stop()
	}

	const when = `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n`
	// Reading while something is written may show a table more, but never the same one twice.
	tables := regexp.MustCompile("(?m)^"+when).Split(table.String(), -1)
	if len(tables) < 5 || tables[0] != "" || !strings.HasSuffix(tables[1], "\n\n") {
		t.Errorf("tables %q", tables)
	}
	for i := 2; i < len(tables); i++ {
		if strings.TrimSpace(tables[i]) == strings.TrimSpace(tables[i-1]) {
			t.Errorf("the same twice: %q", tables[i])
		}
	}
	if strings.Contains(best.String(), "-") || strings.HasPrefix(objects.String(), "2") {
		t.Errorf("there are times in %q or %q", best.String(), objects.String())
	}
}

// TestShowGIDs_WatchEntry: an entry that cannot be read is an error, and no reason to print the same table again.
func TestShowGIDs_WatchEntry(t *testing.T) {
	tr := sysfstest.New(t)
	tr.Netdev("eth2", "up", "0x1003", 2, 1500, "")
	tr.Device("mlx5_0", "", "", "")
	tr.Port("mlx5_0", 1, "4: ACTIVE", "Ethernet", "", 1)
	tr.GID("mlx5_0", 1, 0, "fe80:0000:0000:0000:0000:0000:0000:0001", sysfstest.V2, "eth2")
	out, diag, stop := watching(t, "--sysfs", tr.Root)
	comes(t, out, "ACTIVE", 1)
	for _, text := range []string{"short", "other"} {
		tr.Write("class/infiniband/mlx5_0/ports/1/gids/3", text)
		comes(t, diag, text, 1)
	}
	stop()
	if n := strings.Count(out.String(), "DEVICE"); n != 1 {
		t.Errorf("%d tables, want 1:\n%s", n, out)
	}
}

// TestShowGIDs_WatchInterrupted: it does not wait for an answer of a name server.
func TestShowGIDs_WatchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	old := net.DefaultResolver
	defer func() { net.DefaultResolver = old }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	var stdout, stderr bytes.Buffer
	args := []string{"--sysfs", sysfstest.Standard(t).Root, "--watch", "--to", "host.invalid."}
	if code := run(ctx, args, &stdout, &stderr); code != exitOK || stdout.Len()+stderr.Len() > 0 {
		t.Errorf("code %d, %q, %q", code, &stdout, &stderr)
	}
}

// TestShowGIDs_WatchEnds: wrong usage, and an output that cannot be written, end it at once.
func TestShowGIDs_WatchEnds(t *testing.T) {
	tr := sysfstest.Standard(t)
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"--sysfs", tr.Root, "--watch"}, full{}, &stderr); code != exitNothing ||
		!strings.Contains(stderr.String(), "no space left") {
		t.Errorf("code %d, stderr %q", code, &stderr)
	}
	if code := run(t.Context(), []string{"--watch", "-p", "0"}, io.Discard, io.Discard); code != exitUsage {
		t.Errorf("wrong usage: code %d", code)
	}
}
