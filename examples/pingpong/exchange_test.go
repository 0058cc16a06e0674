package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/ibv"
)

// wire is what goes over the wire for address(0x11).
const wire = "0000:000011:0a51c3:00000000000000000000ffff0a080001\x00"

var unused = strings.Repeat("0000:000000:000000:00000000000000000000000000000000\x00", slots-1)

func address(qpn uint32) ibv.Endpoint {
	return ibv.Endpoint{Type: ibv.RC, QPN: qpn, PSN: 0x0a51c3, GRH: true,
		GID: ibv.GID{10: 0xff, 11: 0xff, 12: 10, 13: 8, 15: 1}}
}

// freePort finds a TCP port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// start runs exchange in the background. The second result is set when it connects.
func start(t *testing.T, o *options, mine []ibv.Endpoint) (<-chan error, *[]ibv.Endpoint) {
	ended, peers := make(chan error, 1), new([]ibv.Endpoint)
	go func() {
		ended <- exchange(t.Context(), o, io.Discard, mine, func(p []ibv.Endpoint) error { *peers = p; return nil })
	}()
	return ended, peers
}

// dial connects to a server of ours as soon as it listens.
func dial(t *testing.T, port int) net.Conn {
	t.Helper()
	for {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			t.Cleanup(func() { c.Close() })
			return c
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestExchange plays the stock client and the stock server byte by byte.
func TestExchange(t *testing.T) {
	for _, tt := range []struct {
		kind, text string
	}{{"rc", wire}, {"srq", wire + unused}} {
		t.Run(tt.kind+"/server", func(t *testing.T) {
			o := options{kind: tt.kind, tcpPort: freePort(t), gid: 1, timeout: time.Hour}
			ended, peers := start(t, &o, []ibv.Endpoint{address(0x11)})
			c := dial(t, o.tcpPort)
			io.WriteString(c, tt.text)
			got := make([]byte, len(tt.text))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != tt.text {
				t.Fatalf("server says %q, %v", got, err)
			}
			if len(*peers) != 1 {
				t.Error("the server replies before it has connected")
			}
			io.WriteString(c, "done\x00")
			if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
				t.Errorf("after done the server says %q, %v", rest, err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if d := cmp.Diff([]ibv.Endpoint{address(0x11)}, *peers); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
		t.Run(tt.kind+"/client", func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			o := options{kind: tt.kind, host: "127.0.0.1", tcpPort: l.Addr().(*net.TCPAddr).Port, gid: 1,
				timeout: time.Hour}
			ended, peers := start(t, &o, []ibv.Endpoint{address(0x11)})
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			// The stock server takes what one read gives.
			got := make([]byte, len(tt.text)+1)
			if n, err := c.Read(got); err != nil || string(got[:n]) != tt.text {
				t.Fatalf("client says %q, %v", got[:n], err)
			}
			io.WriteString(c, tt.text)
			if rest, err := io.ReadAll(c); err != nil || string(rest) != "done\x00" {
				t.Errorf("the client confirms with %q, %v", rest, err)
			}
			if err := <-ended; err != nil || len(*peers) != 1 {
				t.Error(err, *peers)
			}
		})
	}
}

// TestExchange_Bad has a client say what the stock ones do not.
func TestExchange_Bad(t *testing.T) {
	for _, tt := range []struct{ name, says, want string }{
		{"silence", "", "i/o timeout"},
		{"half", wire[:30], "i/o timeout"},
		{"http", "GET / HTTP/1.1\r\nHost: a-host-with-a-long-name.example.com\r\n\r\n", `address "GET / HTTP`},
		{"binary", strings.Repeat("\xff\x00\x7f\n", 16), `address "\xff\x00`},
		{"no zero byte", wire[:len(wire)-1] + "0", "and a zero byte"},
		{"shifted", "0" + wire, "LID:QPN:PSN:GID"},
		{"digits", "00g0" + wire[4:], "LID:QPN:PSN:GID"},
		{"sign", wire[:5] + "-00011" + wire[11:], "LID:QPN:PSN:GID"},
		{"prefix", wire[:12] + "0x51c3" + wire[18:], "LID:QPN:PSN:GID"},
		{"not used", wire[:5] + "000000" + wire[11:], "the peer has 0 queue pairs, want 1"},
		{"confirmation", wire + "gone\x00", `the client confirms with "gone\x00"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options{kind: "rc", tcpPort: freePort(t), gid: 1, timeout: 200 * time.Millisecond}
			ended, _ := start(t, &o, []ibv.Endpoint{address(0x11)})
			io.WriteString(dial(t, o.tcpPort), tt.says)
			err := <-ended
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\xff") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// A connection that fails is told to the caller, and the client sees that the server has gone.
func TestExchange_ConnectFails(t *testing.T) {
	broken, ended := errors.New("broken"), make(chan error, 1)
	o := options{kind: "rc", tcpPort: freePort(t), gid: 1, timeout: time.Hour}
	go func() {
		ended <- exchange(t.Context(), &o, io.Discard, []ibv.Endpoint{address(0x11)},
			func([]ibv.Endpoint) error { return broken })
	}()
	c := dial(t, o.tcpPort)
	io.WriteString(c, wire)
	if err := <-ended; !errors.Is(err, broken) {
		t.Error(err)
	}
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Errorf("the server says %q, %v", b, err)
	}
}

// On InfiniBand a GID that nobody asked for is not sent.
func TestExchange_InfiniBand(t *testing.T) {
	for gid, want := range map[int]string{
		ibv.BestGID: "0007:000011:0a51c3:00000000000000000000000000000000\x00",
		0:           "0007:000011:0a51c3:00000000000000000000ffff0a080001\x00",
	} {
		o := options{kind: "rc", tcpPort: freePort(t), gid: gid, timeout: time.Hour}
		e := address(0x11)
		e.LID, e.GRH = 7, false
		ended, _ := start(t, &o, []ibv.Endpoint{e})
		c := dial(t, o.tcpPort)
		io.WriteString(c, wire)
		got := make([]byte, addressLen)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Errorf("GID index %d: the server says %q, %v", gid, got, err)
		}
		io.WriteString(c, "done\x00")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func FuzzParseAddresses(f *testing.F) {
	f.Add(wire)
	f.Add(wire[:19] + "zz" + wire[21:])
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) != addressLen {
			return
		}
		p, err := parseAddresses(s, []ibv.Endpoint{{}})
		if err != nil {
			return
		}
		if e := p[0]; fmt.Sprintf("%04x:%06x:%06x:%x\x00", e.LID, e.QPN, e.PSN, e.GID[:]) != s {
			t.Errorf("%q was read as %+v", s, e)
		}
	})
}
