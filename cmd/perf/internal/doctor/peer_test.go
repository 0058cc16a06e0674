package doctor

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestServe asks, and has bytes that are no request sent away, while connections that say nothing stand beside.
func TestServe(t *testing.T) {
	l := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, func() *Report { return Examine(newBed(t).Host, "rdmaperf") }) }()
	addr := l.Addr().String()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for range 3 {
		dial() // says nothing
	}
	dial().Close() // a probe
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", strings.Repeat("\xff", 16)} {
		c := dial()
		io.WriteString(c, text)
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Errorf("%q was answered: %q", text, b)
		}
	}
	p, err := Ask(t.Context(), addr)
	if err != nil || p.Hostname != "node1" || len(p.Devices) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := Ask(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "rdmaperf doctor --serve") {
		t.Errorf("nobody there: %v", err)
	}
}

// TestAskHostile: what a server may answer.
func TestAskHostile(t *testing.T) {
	const head = `{"tool":"rdmaperf doctor","schema_version":1,`
	for name, tc := range map[string]struct{ answer, want string }{
		"nothing":    {"", "not a report"},
		"garbage":    {"\x00\xff\x1b", "not a report"},
		"other tool": {`{"tool":"show_gids","schema_version":1}`, `"show_gids"`},
		"newer":      {`{"tool":"rdmaperf doctor","schema_version":2}`, "version 2"},
		"severity":   {head + `"worst":"fatal"}`, "fatal"},
		"devices":    {head + `"devices":[` + strings.Repeat(`{},`, maxDevices) + `{}]}`, "257 devices"},
		"ports":      {head + `"devices":[{"name":"a","ports":[{}],"links":[]}]}`, "1 ports and 0 links"},
		"flood":      {strings.Repeat(" ", maxReport+10), "longer"},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				io.ReadFull(c, make([]byte, len(request)))
				fmt.Fprint(c, tc.answer)
			}()
			if _, err := Ask(t.Context(), l.Addr().String()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	l := listen(t) // accepts, and is silent
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			io.ReadFull(c, make([]byte, len(request)))
			cancel()
			<-t.Context().Done()
		}
	}()
	if _, err := Ask(ctx, l.Addr().String()); err == nil {
		t.Error("a silent server: no error")
	}
}

func FuzzParsePeer(f *testing.F) {
	f.Add([]byte(`{"tool":"rdmaperf doctor","schema_version":1,"devices":[{"ports":[{}],"links":[{}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parsePeer(b); err == nil {
			(&Report{Devices: p.Devices}).Compare(p)
		}
	})
}
