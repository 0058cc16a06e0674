package pingpong

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// wire is what goes over the wire for address(0x11).
const wire = "0000:000011:0a51c3:00000000000000000000ffff0a080001\x00"

func address(qpn uint32) ibv.Endpoint {
	return ibv.Endpoint{Type: ibv.RC, QPN: qpn, PSN: 0x0a51c3, GID: ibv.GID{10: 0xff, 11: 0xff, 12: 10, 13: 8, 15: 1}}
}

// giveUp is how long a test waits for what must not hang.
const giveUp = testutil.Patience

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

// start runs Exchange in the background.
func start(ctx context.Context, o *Options, mine []ibv.Endpoint, connect func([]ibv.Endpoint) error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- Exchange(ctx, o, io.Discard, mine, connect) }()
	return ended
}

func wait(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(giveUp):
		t.Fatal("the exchange hangs")
		return nil
	}
}

// dial connects to a server of ours as soon as it listens.
func dial(t *testing.T, port int) net.Conn {
	t.Helper()
	for deadline := time.Now().Add(giveUp); ; {
		c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err == nil {
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(giveUp))
			return c
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestExchange(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    Program
		qps  int
	}{
		{"one", Program{}, 1},
		{"many", Program{QPs: 16}, 3},
		{"most", Program{QPs: 16}, MaxQPs - 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := Options{Program: tt.p, TCPPort: freePort(t), GID: ibv.BestGID, Timeout: giveUp}
			client := server
			client.Server = "127.0.0.1"
			var a, b []ibv.Endpoint
			for q := range tt.qps {
				a, b = append(a, address(uint32(0x11+q))), append(b, address(uint32(0xf00+q)))
			}
			var order []string
			var gotA, gotB []ibv.Endpoint
			s := start(t.Context(), &server, a, func(p []ibv.Endpoint) error {
				order, gotB = append(order, "server"), p
				return nil
			})
			var err error
			for range 1000 { // until the server listens
				err = Exchange(t.Context(), &client, io.Discard, b, func(p []ibv.Endpoint) error {
					order, gotA = append(order, "client"), p
					return nil
				})
				if !errors.Is(err, syscall.ECONNREFUSED) {
					break
				}
				time.Sleep(time.Millisecond)
			}
			if err := errors.Join(err, wait(t, s)); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"server", "client"}, order); d != "" {
				t.Errorf("order of connecting (-want +got)\n%s", d)
			}
			if d := cmp.Diff(a, gotA); d != "" {
				t.Errorf("what the client got (-want +got)\n%s", d)
			}
			if d := cmp.Diff(b, gotB); d != "" {
				t.Errorf("what the server got (-want +got)\n%s", d)
			}
		})
	}
}

// TestExchangeBytes plays the stock client and the stock server byte by byte.
func TestExchangeBytes(t *testing.T) {
	unused := "0000:000000:000000:00000000000000000000000000000000\x00"
	for _, tt := range []struct {
		name string
		p    Program
		text string
	}{
		{"one", Program{}, wire},
		{"many", Program{QPs: 16}, wire + strings.Repeat(unused, MaxQPs-1)},
	} {
		t.Run(tt.name+"/server", func(t *testing.T) {
			o := Options{Program: tt.p, TCPPort: freePort(t), GID: 1, Timeout: giveUp}
			connected := false
			ended := start(t.Context(), &o, []ibv.Endpoint{address(0x11)},
				func([]ibv.Endpoint) error { connected = true; return nil })
			c := dial(t, o.TCPPort)
			io.WriteString(c, tt.text)
			got := make([]byte, len(tt.text))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != tt.text {
				t.Fatalf("server says %q, %v", got, err)
			}
			if !connected {
				t.Error("the server answers before it has connected")
			}
			io.WriteString(c, "done\x00")
			if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
				t.Errorf("after done the server says %q, %v", rest, err)
			}
			if err := wait(t, ended); err != nil {
				t.Error(err)
			}
		})
		t.Run(tt.name+"/client", func(t *testing.T) {
			o, conns := fakeServer(t, tt.p)
			ended := start(t.Context(), o, []ibv.Endpoint{address(0x11)}, func([]ibv.Endpoint) error { return nil })
			c := <-conns
			// The stock server takes what one read gives.
			got := make([]byte, len(tt.text)+1)
			if n, err := c.Read(got); err != nil || string(got[:n]) != tt.text {
				t.Fatalf("client says %q, %v", got[:n], err)
			}
			io.WriteString(c, tt.text)
			if rest, err := io.ReadAll(c); err != nil || string(rest) != "done\x00" {
				t.Errorf("the client confirms with %q, %v", rest, err)
			}
			if err := wait(t, ended); err != nil {
				t.Error(err)
			}
		})
	}
}

// fakeServer listens, and gives the options of a client for it.
func fakeServer(t *testing.T, p Program) (*Options, <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	conns := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.SetDeadline(time.Now().Add(giveUp))
		t.Cleanup(func() { c.Close() })
		conns <- c
	}()
	return &Options{Program: p, Server: "127.0.0.1", TCPPort: l.Addr().(*net.TCPAddr).Port, GID: 1, Timeout: giveUp},
		conns
}

// isMessage tells a *MessageError about the field.
func isMessage(field string) func(error) bool {
	return func(err error) bool {
		var e *MessageError
		return errors.As(err, &e) && e.Field == field
	}
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// badAddresses are what neither side accepts as an address.
var badAddresses = []struct {
	name  string
	says  string
	close bool
	want  func(error) bool
}{
	{"silence", "", false, is(os.ErrDeadlineExceeded)},
	{"early close", "", true, is(io.EOF)},
	{"half", wire[:30], false, is(os.ErrDeadlineExceeded)},
	{"half and close", wire[:30], true, is(io.ErrUnexpectedEOF)},
	{"one byte short", wire[:len(wire)-1], true, is(io.ErrUnexpectedEOF)},
	{"http", "GET / HTTP/1.1\r\nHost: a-host-with-a-long-name.example.com\r\n\r\n", false, isMessage("address")},
	{"binary", strings.Repeat("\xff\x00\x7f\n", 16), false, isMessage("address")},
	{"no zero byte", wire[:len(wire)-1] + "0", false, isMessage("address")},
	{"shifted", "0" + wire, false, isMessage("address")},
	{"lid", "00g0" + wire[4:], false, isMessage("lid")},
	{"long lid", "00000:00011" + wire[11:], false, isMessage("lid")},
	{"qpn", wire[:5] + "-00011" + wire[11:], false, isMessage("qpn")},
	{"psn", wire[:12] + "0x51c3" + wire[18:], false, isMessage("psn")},
	{"gid", wire[:19] + "zz" + wire[21:], false, isMessage("gid")},
	{"qpn 0", wire[:5] + "000000" + wire[11:], false, isMessage("queue pairs")},
}

// checkBad wants a typed error that says what is wrong, in time.
func checkBad(t *testing.T, err error, want func(error) bool) {
	t.Helper()
	var x *ExchangeError
	if !errors.As(err, &x) || !want(err) {
		t.Fatalf("got %T %v", err, err)
	}
	if s := err.Error(); strings.ContainsAny(s, "\x00\n") || strings.Contains(s, "\xff") {
		t.Errorf("the error has what the stranger sent as it came: %q", s)
	}
}

func neverConnect(t *testing.T) func([]ibv.Endpoint) error {
	return func(p []ibv.Endpoint) error {
		t.Errorf("connects to %v", p)
		return nil
	}
}

func TestExchangeServer_BadClient(t *testing.T) {
	for _, tt := range badAddresses {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{TCPPort: freePort(t), GID: 1, Timeout: 100 * time.Millisecond}
			ended := start(t.Context(), &o, []ibv.Endpoint{address(0x11)}, neverConnect(t))
			c := dial(t, o.TCPPort)
			io.WriteString(c, tt.says)
			if tt.close {
				c.Close()
			}
			checkBad(t, wait(t, ended), tt.want)
		})
	}
}

func TestExchangeServer_BadConfirmation(t *testing.T) {
	for _, tt := range []struct {
		name  string
		says  string
		close bool
		want  func(error) bool
	}{
		{"silence", "", false, is(os.ErrDeadlineExceeded)},
		{"early close", "", true, is(io.EOF)},
		{"half", "do", true, is(io.ErrUnexpectedEOF)},
		{"other", "gone\x00", false, isMessage("confirmation")},
		{"address again", wire, false, isMessage("confirmation")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{TCPPort: freePort(t), GID: 1, Timeout: 200 * time.Millisecond}
			ended := start(t.Context(), &o, []ibv.Endpoint{address(0x11)}, func([]ibv.Endpoint) error { return nil })
			c := dial(t, o.TCPPort)
			io.WriteString(c, wire)
			if _, err := io.ReadFull(c, make([]byte, len(wire))); err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, tt.says)
			if tt.close {
				c.Close()
			}
			checkBad(t, wait(t, ended), tt.want)
		})
	}
}

func TestExchangeClient_BadServer(t *testing.T) {
	for _, tt := range badAddresses {
		t.Run(tt.name, func(t *testing.T) {
			o, conns := fakeServer(t, Program{})
			o.Timeout = 100 * time.Millisecond
			ended := start(t.Context(), o, []ibv.Endpoint{address(0x11)}, neverConnect(t))
			c := <-conns
			io.ReadFull(c, make([]byte, len(wire)))
			io.WriteString(c, tt.says)
			if tt.close {
				c.Close()
			}
			checkBad(t, wait(t, ended), tt.want)
		})
	}
}

func TestExchange_OtherNumberOfQPs(t *testing.T) {
	o, conns := fakeServer(t, Program{QPs: 16})
	ended := start(t.Context(), o, []ibv.Endpoint{address(0x11), address(0x12)}, neverConnect(t))
	c := <-conns
	io.ReadFull(c, make([]byte, MaxQPs*addressLen))
	for q := range uint32(MaxQPs) {
		io.WriteString(c, formatAddress(ibv.Endpoint{QPN: max(q, 3) - 3})) // 252 of them
	}
	err := wait(t, ended)
	checkBad(t, err, isMessage("queue pairs"))
	if !strings.Contains(err.Error(), "got 252, want 2") {
		t.Error(err)
	}
}

// A connection that fails is told to the caller, and the client sees that the
// server has gone.
func TestExchange_ConnectFails(t *testing.T) {
	broken := errors.New("broken")
	o := Options{TCPPort: freePort(t), GID: 1, Timeout: giveUp}
	ended := start(t.Context(), &o, []ibv.Endpoint{address(0x11)}, func([]ibv.Endpoint) error { return broken })
	c := dial(t, o.TCPPort)
	io.WriteString(c, wire)
	if err := wait(t, ended); !errors.Is(err, broken) {
		t.Error(err)
	}
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Errorf("the server says %q, %v", b, err)
	}
}

func TestExchange_Interrupted(t *testing.T) {
	t.Run("while nobody comes", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{TCPPort: freePort(t), GID: 1, Timeout: time.Hour}
		ended := start(ctx, &o, []ibv.Endpoint{address(0x11)}, neverConnect(t))
		time.Sleep(10 * time.Millisecond)
		cancel()
		checkBad(t, wait(t, ended), is(context.Canceled))
	})
	t.Run("while the peer is silent", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{TCPPort: freePort(t), GID: 1, Timeout: time.Hour}
		ended := start(ctx, &o, []ibv.Endpoint{address(0x11)}, neverConnect(t))
		dial(t, o.TCPPort)
		time.Sleep(10 * time.Millisecond)
		cancel()
		checkBad(t, wait(t, ended), is(context.Canceled))
	})
}

func TestExchange_NoServer(t *testing.T) {
	o := Options{Server: "127.0.0.1", TCPPort: freePort(t), GID: 1, Timeout: giveUp}
	checkBad(t, wait(t, start(t.Context(), &o, []ibv.Endpoint{address(0x11)}, neverConnect(t))),
		is(syscall.ECONNREFUSED))
}

func TestExchange_PortTaken(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := Options{TCPPort: l.Addr().(*net.TCPAddr).Port, GID: 1, Timeout: giveUp}
	checkBad(t, wait(t, start(t.Context(), &o, []ibv.Endpoint{address(0x11)}, neverConnect(t))), is(syscall.EADDRINUSE))
}

// The second of two clients is refused, and does not disturb the first.
func TestExchange_TwoClients(t *testing.T) {
	o := Options{TCPPort: freePort(t), GID: 1, Timeout: giveUp}
	ended := start(t.Context(), &o, []ibv.Endpoint{address(0x11)}, func([]ibv.Endpoint) error { return nil })
	first := dial(t, o.TCPPort)
	io.WriteString(first, wire)
	if _, err := io.ReadFull(first, make([]byte, len(wire))); err != nil {
		t.Fatal(err)
	}
	second := o
	second.Server = "127.0.0.1"
	checkBad(t, wait(t, start(t.Context(), &second, []ibv.Endpoint{address(0x12)}, neverConnect(t))),
		func(err error) bool {
			return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
		})
	io.WriteString(first, "done\x00")
	if err := wait(t, ended); err != nil {
		t.Error(err)
	}
}

// On InfiniBand a GID that nobody asked for is not told.
func TestExchange_InfiniBand(t *testing.T) {
	for _, tt := range []struct {
		name string
		gid  int
		want string
	}{
		{"chosen", ibv.BestGID, "0007:000011:0a51c3:00000000000000000000000000000000\x00"},
		{"asked for", 0, "0007:000011:0a51c3:00000000000000000000ffff0a080001\x00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, conns := fakeServer(t, Program{})
			o.GID = tt.gid
			e := address(0x11)
			e.LID = 7
			var out bytes.Buffer
			ended := make(chan error, 1)
			go func() {
				ended <- Exchange(t.Context(), o, &out, []ibv.Endpoint{e}, func([]ibv.Endpoint) error { return nil })
			}()
			c := <-conns
			got := make([]byte, addressLen)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != tt.want {
				t.Errorf("client says %q, %v", got, err)
			}
			io.WriteString(c, wire)
			if err := wait(t, ended); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), "local address:  LID 0x0007, QPN 0x000011, PSN 0x0a51c3, GID ::") ||
				!strings.Contains(out.String(), "remote address: LID 0x0000, QPN 0x000011, PSN 0x0a51c3, GID "+
					"::ffff:10.8.0.1") {
				t.Errorf("output:\n%s", out.String())
			}
		})
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add([]byte(wire))
	for _, b := range badAddresses {
		f.Add([]byte(b.says))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseAddress(b)
		if err == nil && !strings.EqualFold(formatAddress(e), string(b)) {
			t.Errorf("%q was read as %q", b, formatAddress(e))
		}
	})
}
