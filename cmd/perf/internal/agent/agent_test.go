package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/starve"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// asPerf acts as the rdmaperf that an agent starts: a server stays, a client prints its arguments.
const asPerf = `case "$*" in
*" -s 666 "*" -p 0") echo "rdmaperf: no memory" >&2; exit 1 ;;
*" -p 0") echo "rdmaperf: waiting for a client on TCP port 4711" >&2; exec sleep 600 ;;
*bad.host) echo "rdmaperf: it is broken" >&2; exit 1 ;;
*unmet.host) echo "rdmaperf: connect to it: connection refused, $RDMAPERF_TEST_SECRET" >&2; exit 4 ;;
*) printf '{"args": "%s"}\n' "$*" ;;
esac`

var (
	good = Token{[]byte("0123456789abcdef")}
	test = wire.Params{Verb: wire.Write, Metric: wire.Bandwidth, Size: 4096, Iters: 100, QPs: 2}
	sh   = Child{[]string{"/bin/sh", "-c", asPerf, "rdmaperf"}}
)

// startAgent starts an agent and returns its port.
func startAgent(t *testing.T, c Config) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Token, c.Child = new(atomic.Pointer[Token]), sh
	c.Token.Store(&good)
	c.Runner = c.Child
	if c.Log == nil {
		c.Log = t.Logf
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- Serve(ctx, ln, c) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return ln.Addr().(*net.TCPAddr).Port
}

func dial(t *testing.T, port int) *Client {
	t.Helper()
	c, err := Dial(context.Background(), "127.0.0.1", port, good, testutil.Patience, testutil.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAgentRunsTests(t *testing.T) {
	port := startAgent(t, Config{Worker: Worker{Hello: Hello{Most: 2}}})
	first, err := dial(t, port).ask(request{Op: opHold}, testutil.Patience)
	if err != nil || first.Most != 2 || first.ID == "" {
		t.Errorf("Hold: %+v, %v", first, err)
	}
	if again, err := dial(t, port).ask(request{Op: opHold}, testutil.Patience); err != nil || again != first {
		t.Errorf("Hold: %+v, %v, before %+v", again, err, first)
	}
	if p, err := dial(t, port).Server(test, testutil.Patience); err != nil || p != 4711 {
		t.Errorf("Server: port %d, %v", p, err)
	}
	bad := test
	bad.Size = 666
	var refused *RefusedError
	_, err = dial(t, port).Server(bad, testutil.Patience)
	if !errors.As(err, &refused) || refused.Message != "no memory" {
		t.Errorf("Server that fails: %v", err)
	}
}

// TestChild has clients of tests.
func TestChild(t *testing.T) {
	run := func(p wire.Params, host string) (string, error) {
		out, err := sh.output(t.Context(), Task{Test: p, Host: host, Port: 99}, nil, new(starve.Waits))
		return strings.TrimSpace(string(out)), err
	}
	out, err := run(test, "a.host")
	want := `{"args": "write bw --json -c RC -q 2 -s 4096 -n 100 -p 99 -- a.host"}`
	if err != nil || out != want {
		t.Errorf("Client: %s, %v, want %s", out, err, want)
	}
	endless := wire.Params{Verb: wire.Write, Metric: wire.Bandwidth, Size: 128, QPs: 1, All: true, Infinite: true,
		Bidirectional: true, ReportBoth: true, Sizes: "[64 128]"}
	out, err = run(endless, "a.host")
	want = `{"args": "write bw --json -c RC -q 1 --sizes 64,128 --run-infinitely -b --report-both -p 99 -- a.host"}`
	if err != nil || out != want {
		t.Errorf("Client: %s, %v, want %s", out, err, want)
	}
	if _, err := run(test, "bad.host"); err == nil || err.Error() != "it is broken" {
		t.Errorf("Client that fails: %v", err)
	}
}

// TestAgentQueues has one place: who comes second waits until the first one leaves, which ends its test.
func TestAgentQueues(t *testing.T) {
	waits := make(chan struct{})
	port := startAgent(t, Config{Worker: Worker{Hello: Hello{Most: 1}}})
	first, second := dial(t, port), dial(t, port)
	if _, err := first.Server(test, testutil.Patience); err != nil {
		t.Fatal(err)
	}
	var left atomic.Bool
	go func() {
		defer close(waits)
		if _, err := second.Server(test, testutil.Patience); err != nil {
			t.Errorf("the second client: %v", err)
		}
		if !left.Load() {
			t.Error("the second client did not wait for the first one")
		}
	}()
	time.Sleep(20 * time.Millisecond) // long enough to find an agent that does not queue, most times
	left.Store(true)
	first.Close()
	<-waits
}

func TestAgentRefuses(t *testing.T) {
	port := startAgent(t, Config{Worker: Worker{Hello: Hello{Most: 4}}})
	params := func(f func(*wire.Params)) wire.Params { p := test; f(&p); return p }
	for name, tc := range map[string]struct {
		r    request
		want string
	}{
		"size":      {request{Op: opServer, Test: params(func(p *wire.Params) { p.Size = mostBytes })}, "size"},
		"no size":   {request{Op: opServer, Test: params(func(p *wire.Params) { p.Size = 0 })}, "size 0"},
		"overflow":  {request{Op: opServer, Test: params(func(p *wire.Params) { p.Size = math.MaxUint64 })}, "size"},
		"a list":    {request{Op: opServer, Test: params(func(p *wire.Params) { p.Sizes = "[1 --x]" })}, "list of"},
		"its size":  {request{Op: opServer, Test: params(func(p *wire.Params) { p.Sizes = "[64 99999]" })}, "list of"},
		"qps":       {request{Op: opServer, Test: params(func(p *wire.Params) { p.QPs = 1e6 })}, "1000000 queue pairs"},
		"no qps":    {request{Op: opServer, Test: params(func(p *wire.Params) { p.QPs = -1 })}, "-1 queue pairs"},
		"iters":     {request{Op: opServer, Test: params(func(p *wire.Params) { p.Iters = 1e18 })}, "iterations"},
		"duration":  {request{Op: opServer, Test: params(func(p *wire.Params) { p.Duration = time.Hour })}, "1h0m0s"},
		"timeout":   {request{Op: opServer, Test: params(func(p *wire.Params) { p.Silence = 1e17 })}, "timeout 27777h"},
		"verb":      {request{Op: opServer, Test: params(func(p *wire.Params) { p.Verb = 9 })}, "Verb(9)"},
		"metric":    {request{Op: opServer, Test: params(func(p *wire.Params) { p.Metric = 9 })}, "Metric(9)"},
		"transport": {request{Op: opServer, Test: params(func(p *wire.Params) { p.Transport = 9 })}, "Transport(9)"},
		"frames":    {request{Op: opServer, Test: params(func(p *wire.Params) { p.Transport = 3 })}, "RawEth"},
		"operation": {request{Op: "reboot"}, `"reboot"`},
	} {
		var refused *RefusedError
		if _, err := dial(t, port).ask(tc.r, testutil.Patience); !errors.As(err, &refused) ||
			!strings.Contains(refused.Message, tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestTaskRefuses has the tests of a mesh whose server is nowhere.
func TestTaskRefuses(t *testing.T) {
	for want, m := range map[string]message{
		`host "--version"`:   {Op: opTest, Test: &test, Host: "--version", Port: 1},
		`host ""`:            {Op: opTest, Test: &test, Port: 1},
		"neither a name nor": {Op: opTest, Test: &test, Host: "a;reboot", Port: 1},
		"port 70000":         {Op: opTest, Test: &test, Host: "a", Port: 70000},
	} {
		if task, err := m.task(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", task, err, want)
		}
	}
}

// TestAgentAndStrangers sends what no client sends. The agent answers nothing, and works on.
func TestAgentAndStrangers(t *testing.T) {
	port := startAgent(t, Config{Worker: Worker{Hello: Hello{Most: 1}}, Log: func(string, ...any) {}})
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	raw := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(testutil.Patience))
		return c
	}
	const alert = 7 // bytes of TLS
	raw().Close()   // a probe
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html,*/*\r\n\r\n", "\x00",
		strings.Repeat("x", 1<<16)} {
		c := raw()
		io.WriteString(c, text)
		c.(*net.TCPConn).CloseWrite()
		got, _ := io.ReadAll(c)
		if len(got) > len(greeting)+len(filler)+1+alert {
			t.Errorf("the agent answers %q to %.20q", got, text)
		}
	}
	wrong := Token{[]byte("fedcba9876543210")}
	if _, err := Dial(context.Background(), "127.0.0.1", port, wrong, testutil.Patience, 0); !errors.Is(err, ErrToken) {
		t.Errorf("another token: %v", err)
	}
	for range 2 * mostStrange { // a flood of connections that say nothing
		raw()
	}
	if _, err := dial(t, port).Hold(testutil.Patience); err != nil {
		t.Errorf("behind a flood: %v", err)
	}
	c := dial(t, port)
	c.f.Write(bytes.Repeat([]byte{0xff}, 1000)) // a frame of 4 GiB
	if _, err := c.reply(testutil.Patience); err == nil {
		t.Error("a reply to a frame of 4 GiB")
	}
	c = dial(t, port)
	c.f.raw.Write(bytes.Repeat([]byte{0xff}, 1000))
	if _, err := c.reply(testutil.Patience); err == nil {
		t.Error("a reply to what is not encrypted")
	}
}

// TestAnotherServer connects to what is no agent, or one of another version.
func TestAnotherServer(t *testing.T) {
	for greeting, want := range map[string]error{"SSH-2.0 ": ErrNoAgent, "pureverbs-agent 12 ": ErrVersion,
		"pureverbs-agent 1 ": ErrVersion} {
		testAnotherServer(t, greeting, want)
	}
}

func testAnotherServer(t *testing.T, greeting string, want error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err == nil {
			io.WriteString(c, strings.Repeat(greeting, 20))
			io.Copy(io.Discard, c)
		}
	}()
	_, err = Dial(context.Background(), "127.0.0.1", ln.Addr().(*net.TCPAddr).Port, good, testutil.Patience, 0)
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		name := filepath.Join(dir, "token")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	t.Setenv(TokenEnv, "")
	for text, want := range map[string]string{"short": "5 bytes", strings.Repeat("x", 2000): "2000 bytes",
		"": "no token"} {
		if _, err := ReadToken(file(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("token %.10q: %v, want %q", text, err, want)
		}
	}
	t.Setenv("SUDO_USER", "me")
	if _, err := ReadToken(""); err == nil ||
		!strings.Contains(err.Error(), "sudo --preserve-env=RDMAPERF_TOKEN,RDMAPERF_JOIN") {
		t.Errorf("below sudo: %v", err)
	}
	if _, err := ReadToken(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if tok, err := ReadToken(file("0123456789abcdef\n")); err != nil || string(tok.secret) != string(good.secret) {
		t.Errorf("%q, %v", tok.secret, err)
	}
	t.Setenv(TokenEnv, "0123456789abcdef")
	if tok, err := ReadToken(""); err != nil || string(tok.secret) != string(good.secret) {
		t.Errorf("environment: %q, %v", tok.secret, err)
	}
}

func TestNotify(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify(); err != nil {
		t.Errorf("without systemd: %v", err)
	}
	name := filepath.Join(t.TempDir(), "s")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	if err := Notify(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "READY=1\nSTATUS=ready" {
		t.Errorf("systemd is told %q, %v", b[:n], err)
	}
	if err := NotifyWaiting("a\nb"); err != nil || !Supervised() {
		t.Error(err)
	}
	if n, err := c.Read(b); err != nil || string(b[:n]) != "READY=1\nSTATUS=waiting: a; b" {
		t.Errorf("systemd is told %q, %v", b[:n], err)
	}
	t.Setenv("NOTIFY_SOCKET", name+"-gone")
	if err := Notify(); err == nil {
		t.Error("no error from a socket that is gone")
	}
}

// TestUnmet: an agent says of a test whose ends did not meet that it says nothing of the NICs. The process of the test
// has its secret in the environment, where other users of the host do not see it.
func TestUnmet(t *testing.T) {
	port := startAgent(t, Config{Worker: Worker{Hello: Hello{Most: 2}}})
	r, err := Meet(t.Context(), "127.0.0.1", port, good, testutil.Patience, testutil.Patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Admit(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	defer r.Refuse("")
	p := test
	p.Secret = wire.NewSecret()
	for host, want := range map[string]bool{"unmet.host": true, "bad.host": false} {
		_, err := r.Test(t.Context(), "", p, host, 99)
		meet := (*wire.MeetError)(nil)
		if errors.As(err, &meet) != want || err == nil || want && !strings.Contains(err.Error(), string(p.Secret)) {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, err := range []error{wire.ErrBusy, &net.OpError{Op: "accept", Err: syscall.EMFILE}, syscall.ENFILE,
		fmt.Errorf("create the queue pair: %w", syscall.ENOMEM)} {
		if !unmet(err) {
			t.Errorf("%v is a failure of a NIC", err)
		}
	}
	for _, err := range []error{io.EOF, wire.ErrSilent, wire.ErrClosed, syscall.ETIMEDOUT, syscall.EHOSTUNREACH} {
		if unmet(err) {
			t.Errorf("%v is no failure of a NIC", err)
		}
	}
}
