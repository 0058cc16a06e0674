package rdma

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// A way is what a function of the program does instead of its work.
type way string

const (
	byPanic       way = "panics"
	byGoexit      way = "ends its goroutine"
	byBlocking    way = "never returns"
	byCallingBack way = "calls back"
	byClosing     way = "closes"
)

var ways = []way{byPanic, byGoexit, byBlocking, byCallingBack, byClosing}

// misdeed is a function of the program that does not do its work.
type misdeed struct {
	way     way
	called  atomic.Int32
	never   chan struct{} // closed by end
	once    sync.Once
	ready   chan struct{} // closed when the next ones are set
	back    func()        // calls back
	close   func()        // closes what calls the function
	goodbye chan struct{} // closed when back or close has returned
}

func newMisdeed(t *testing.T, w way) *misdeed {
	m := &misdeed{way: w, never: make(chan struct{}), ready: make(chan struct{}), goodbye: make(chan struct{})}
	t.Cleanup(m.end)
	return m
}

// end lets a function that never returns return.
func (m *misdeed) end() { m.once.Do(func() { close(m.never) }) }

// do is called by the function, the first time that it is called.
func (m *misdeed) do() {
	if m.called.Add(1) > 1 {
		return
	}
	switch m.way {
	case byPanic:
		panic("a function of the program")
	case byGoexit:
		runtime.Goexit()
	case byBlocking:
		<-m.never
	case byCallingBack:
		<-m.ready
		m.back()
		close(m.goodbye)
	case byClosing:
		<-m.ready
		m.close()
		close(m.goodbye)
	}
}

// set sets what the function calls.
func (m *misdeed) set(back, closing func()) {
	m.back, m.close = back, closing
	close(m.ready)
}

// returned waits until what the function called has returned.
func (m *misdeed) returned(t *testing.T) {
	t.Helper()
	if m.way == byCallingBack || m.way == byClosing {
		select {
		case <-m.goodbye:
		case <-time.After(testutil.Patience):
			t.Fatalf("the function %s, and that does not return", m.way)
		}
	}
}

// ends runs f, which must end.
func ends(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(testutil.Patience):
		t.Fatal(what, "does not end")
	}
}

// foreignCase calls one function of the program.
type foreignCase struct {
	own  bool // it runs on the caller's goroutine, which a panic and runtime.Goexit end as usual
	run  func(t *testing.T, m *misdeed)
	need func(t *testing.T) // skips where it cannot be called
}

// foreignCases has all functions that a program gives the package, by their place in the API. Those of context.Context
// are in TestForeignContext. Those that need a device are in TestRXE_Foreign.
var foreignCases = map[string]foreignCase{
	"Serve":                  {own: false, run: foreignHandler},
	"LeaseOptions.OnRequest": {own: false, run: foreignOnRequest},
	"Options.Authorize":      {own: false, run: foreignAuthorizeTCP},
	"Stream.ReadFrom":        {own: true, run: foreignReader},
	"Stream.WriteTo":         {own: true, run: foreignWriter},
	"log handler":            {own: false, run: foreignLog},
}

// foreignDevice are those of TestRXE_Foreign.
var foreignDevice = map[string]foreignCase{
	"Options.Authorize":     {own: false, run: foreignAuthorize},
	"EngineOptions.OnEvent": {own: false, run: foreignOnEvent, need: needOwnEvents},
	"PacketConn.WriteTo":    {own: true, run: foreignAddr},
}

// TestForeign has every function of the program end in every way.
func TestForeign(t *testing.T) { foreignTable(t, foreignCases) }

func foreignTable(t *testing.T, cases map[string]foreignCase) {
	if os.Getenv("FOREIGN_PANIC") != "" {
		ok(t, syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}))
	}
	for name, c := range cases {
		for _, w := range ways {
			t.Run(name+" "+string(w), func(t *testing.T) {
				if c.need != nil {
					c.need(t)
				}
				if w == byPanic && !c.own && os.Getenv("FOREIGN_PANIC") == "" {
					foreignPanic(t)
					return
				}
				c.run(t, newMisdeed(t, w))
			})
		}
	}
}

// foreignPanic runs a subtest in a process of its own. The panic ends that, with its own trace. It does so by a signal:
// then strict mode does not ask why the process has destroyed nothing.
func foreignPanic(t *testing.T) {
	t.Helper()
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	cmd := exec.Command(os.Args[0], "-test.run="+pattern)
	cmd.Env = append(os.Environ(), "FOREIGN_PANIC=1", "GOTRACEBACK=crash")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Exited() || !bytes.Contains(out, []byte("panic: a function of the program")) ||
		!bytes.Contains(out, []byte("(*misdeed).do")) {
		t.Errorf("%v, want a panic with its trace\n%s", err, out)
	}
}

// own runs what calls a function of the program on a goroutine of the program's, and reports how that ended.
func (m *misdeed) own(t *testing.T, f func()) {
	t.Helper()
	ended := make(chan string, 1)
	go func() {
		how := byGoexit
		defer func() {
			if r := recover(); r == "a function of the program" {
				how = byPanic
			} else if r != nil {
				panic(r)
			}
			ended <- string(how)
		}()
		f()
		how = "returns"
	}()
	var how string
	select {
	case how = <-ended:
	case <-time.After(testutil.Patience):
		t.Fatal("the call does not end")
	}
	if want := string(m.way); (m.way == byPanic || m.way == byGoexit) && how != want {
		t.Errorf("the goroutine %s, want that it %s", how, want)
	}
}

// foreignHandler: a call whose handler does not return has an error, and others are handled.
func foreignHandler(t *testing.T, m *misdeed) {
	a, b, err := Pipe(nil)
	ok(t, err)
	caller, err := NewCaller(a)
	ok(t, err)
	m.set(func() { _, _, _ = b.Err(), b.Engine().Stats(), b.Flush(context.Background()) }, func() { _ = b.Close() })
	serving := make(chan error, 1)
	go func() {
		serving <- Serve(context.Background(), b, func(_ context.Context, q *Message) ([]byte, error) {
			if string(q.Bytes()) == "bad" {
				m.do()
			}
			return []byte("done"), nil
		})
	}()
	call := func(ctx context.Context, request string) (string, error) {
		r, err := caller.Call(ctx, []byte(request))
		if err != nil {
			return "", err
		}
		defer r.Release()
		return string(r.Bytes()), nil
	}
	ctx, cancel := context.WithCancel(timeout(t))
	defer cancel()
	if m.way == byBlocking {
		go func() { // the call ends with its context
			for m.called.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
	}
	got, err := call(ctx, "bad")
	var failed *CallError
	switch m.way {
	case byGoexit:
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("the caller hears %v", err)
		}
	case byBlocking:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the caller hears %v", err)
		}
	case byCallingBack:
		if got != "done" || err != nil {
			t.Errorf("the caller hears %q, %v", got, err)
		}
	case byClosing:
		if err == nil {
			t.Error("the caller hears nothing of the end")
		}
	}
	m.returned(t)
	if m.way != byClosing {
		for range 2 * callsMost { // no place is lost
			got, err := call(timeout(t), "good")
			ok(t, err)
			if got != "done" {
				t.Fatalf("another call: %q", got)
			}
		}
	}
	ends(t, "Close", func() { _ = caller.Close(); _ = b.CloseNow() })
	if m.way == byBlocking {
		return // Serve waits for its handler
	}
	ends(t, "Serve", func() { <-serving })
}

// foreignOnRequest: the request is refused, and later ones are decided.
func foreignOnRequest(t *testing.T, m *misdeed) {
	var a, b *Conn
	o := &LeaseOptions{OnRequest: func(context.Context, *LeaseRequest) (*Lease, error) {
		m.do()
		return nil, errors.New("refused")
	}}
	a, b, err := Pipe(&Options{Leases: o})
	ok(t, err)
	m.set(func() { _, _, _ = b.Err(), b.Engine().Stats(), b.Flush(context.Background()) }, func() { _ = b.Close() })
	ctx, cancel := context.WithCancel(timeout(t))
	defer cancel()
	if m.way == byBlocking {
		go func() {
			for m.called.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
	}
	_, err = a.Request(ctx, 1, MayRead, 0)
	var refused *RefusedError
	switch m.way {
	case byGoexit, byCallingBack:
		if !errors.As(err, &refused) || refused.Reason != RefusedByHandler {
			t.Errorf("the request: %v", err)
		}
		for range 100 {
			if _, err = a.Request(timeout(t), 1, MayRead, 0); !errors.As(err, &refused) {
				t.Fatalf("another request: %v", err)
			}
		}
	case byBlocking:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the request: %v", err)
		}
	case byClosing:
		if err == nil {
			t.Error("the requester hears nothing of the end")
		}
	}
	m.returned(t)
	ends(t, "Close", func() { _ = a.CloseNow(); _ = b.CloseNow() })
	ends(t, "CloseIdle", func() { ok(t, CloseIdle()) })
}

// authorizedBy is a listener whose Authorize does not do its work for the first peer.
func (m *misdeed) authorizedBy(o Options) *Options {
	o.Timeout = 200 * time.Millisecond
	if m.way != byBlocking {
		o.Timeout = testutil.Patience
	}
	o.Authorize = func(context.Context, ConnRequest) error {
		m.do()
		return nil
	}
	return &o
}

// foreignAuthorizeTCP: a peer by TCP is refused, and later ones are not.
func foreignAuthorizeTCP(t *testing.T, m *misdeed) {
	l, err := ListenStream(timeout(t), "127.0.0.1:0", m.authorizedBy(Options{Fallback: true}))
	ok(t, err)
	m.set(func() { _, _ = l.Addr(), l.Refused() }, func() { _ = l.Close() })
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			s, err := l.AcceptStream(context.Background())
			if err != nil {
				return
			}
			_, _ = s.Write([]byte("x"))
			_ = s.Close()
		}
	}()
	dial := func() error {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		ok(t, c.SetReadDeadline(time.Now().Add(testutil.Patience)))
		_, err = c.Read(make([]byte, 1))
		return err
	}
	err = dial()
	if refused := err != nil; refused == (m.way == byCallingBack) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the peer hears %v", err)
	}
	m.returned(t)
	if m.way != byClosing {
		ok(t, dial())
		want := uint64(1)
		if m.way == byCallingBack {
			want = 0
		}
		if n := l.Refused(); n != want {
			t.Errorf("%d peers are refused, want %d", n, want)
		}
	}
	ends(t, "Close", func() { ok(t, l.Close()); <-accepting })
}

// foreignStreams is a pair of streams in memory, and another one of the same engines.
func foreignStreams(t *testing.T) (a, b, c, d *Stream) {
	engines := memoryEngines(t, both(nil))
	pair := func() (*Stream, *Stream) {
		x, y := inMemory(t, engines, wire.Stream, [2]*Options{{Linger: None}, {Linger: None}})
		return newStream(x), newStream(y)
	}
	a, b = pair()
	c, d = pair()
	return a, b, c, d
}

// foreignReader: io.Copy from a Reader. The stream, and others of the engine, work on.
func foreignReader(t *testing.T, m *misdeed) {
	a, b, c, d := foreignStreams(t)
	m.set(func() { _, _ = a.Write([]byte("hello")); _ = a.Engine().Stats() }, func() { _ = a.Close() })
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		m.own(t, func() { _, _ = a.ReadFrom(readerFunc(func([]byte) (int, error) { m.do(); return 0, io.EOF })) })
	}()
	foreignCopied(t, m, copied, a, b, c, d)
}

// foreignWriter: io.Copy to a Writer.
func foreignWriter(t *testing.T, m *misdeed) {
	a, b, c, d := foreignStreams(t)
	_, err := b.Write([]byte("first"))
	ok(t, err)
	m.set(func() {
		_, _ = a.Write([]byte("hello"))
		_ = a.Engine().Stats()
		ok(t, b.CloseWrite())
	}, func() { _ = a.Close() })
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		m.own(t, func() { _, _ = a.WriteTo(writerFunc(func(p []byte) (int, error) { m.do(); return len(p), nil })) })
	}()
	foreignCopied(t, m, copied, a, b, c, d)
}

// foreignCopied checks the streams while or after a copy of a.
func foreignCopied(t *testing.T, m *misdeed, copied chan struct{}, a, b, c, d *Stream) {
	t.Helper()
	testutil.Eventually(t, "the function is called", func() bool { return m.called.Load() > 0 })
	if m.way != byBlocking {
		ends(t, "the copy", func() { <-copied })
	}
	m.returned(t)
	if m.way != byClosing {
		_, err := a.Write([]byte("hello"))
		ok(t, err)
		got := make([]byte, 5)
		_, err = io.ReadFull(b, got)
		ok(t, err)
		if string(got) != "hello" {
			t.Errorf("%q", got)
		}
	}
	exchange(t, c, d)
	for _, s := range []*Stream{a, b, c, d} {
		ends(t, "Close", func() { _ = s.CloseNow() })
	}
	m.end()
	<-copied
}

// logFunc is a handler of package slog.
type logFunc struct {
	slog.Handler
	f func()
}

func (h logFunc) Handle(context.Context, slog.Record) error { h.f(); return nil }

// foreignLog: a handler of the log delays a dial at most.
func foreignLog(t *testing.T, m *misdeed) {
	l, err := ListenStream(timeout(t), "127.0.0.1:0", &Options{Fallback: true})
	ok(t, err)
	old := slog.Default()
	slog.SetDefault(slog.New(logFunc{slog.NewTextHandler(io.Discard, nil), m.do}))
	defer slog.SetDefault(old)
	fallbackLogged.Store(false)
	m.set(func() { _, _ = l.Addr(), l.Refused() }, func() { _ = l.Close() })
	ends(t, "DialStream", func() {
		s, err := DialStream(timeout(t), l.Addr().String(), &Options{Fallback: true})
		if err == nil {
			err = s.Close()
		}
		if m.way != byClosing {
			ok(t, err)
		}
	})
	// Either side has the line, and the listener's may come later.
	testutil.Eventually(t, "a line is logged", func() bool { return m.called.Load() > 0 })
	m.returned(t)
	ends(t, "Close", func() { ok(t, l.Close()) })
}

// TestForeignList: the API has no other function of the program than those that the tables call.
func TestForeignList(t *testing.T) {
	api, err := os.ReadFile("../testdata/api/rdma.txt")
	ok(t, err)
	want := foreignAPI(string(api))
	got := slices.Concat(slices.Collect(maps.Keys(foreignCases)), slices.Collect(maps.Keys(foreignDevice)))
	got = slices.DeleteFunc(got, func(s string) bool { return s == "log handler" }) // not given to the package
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("tested: %q\nin the API: %q", got, want)
	}
	const more = "type X struct, F func()\nmethod (*Y) M(io.Seeker)\nfunc Z(context.Context, func() int) error\n" +
		"method (*W) N(context.Context) (net.Conn, error)\n"
	if got := foreignAPI(more); !slices.Equal(got, []string{"X.F", "Y.M", "Z"}) {
		t.Errorf("found %q", got)
	}
}

// foreignAPI returns the fields and functions of a list of names that take functions, or interfaces of other packages.
func foreignAPI(list string) (names []string) {
	field := regexp.MustCompile(`^type (\w+) struct, (\w+) func\(`)
	function := regexp.MustCompile(`^(?:func|method) (?:\(\*?(\w+)\) )?(\w+)(\(.*)$`)
	foreign := regexp.MustCompile(`\bfunc\(|\bio\.[A-Z]|\bnet\.(Addr|Conn|PacketConn|Listener|Error)\b`)
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if f := field.FindStringSubmatch(line); f != nil {
			names = append(names, f[1]+"."+f[2])
		} else if f := function.FindStringSubmatch(line); f != nil && foreign.MatchString(parameters(f[3])) {
			names = append(names, strings.TrimPrefix(f[1]+"."+f[2], "."))
		}
	}
	slices.Sort(names)
	return names
}

// parameters returns the first list in parentheses.
func parameters(s string) string {
	depth := 0
	for i, c := range s {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return s[:i]
			}
		}
	}
	return s
}

// pokingContext is a context whose functions call back.
type pokingContext struct {
	context.Context
	poke func()
}

func (c pokingContext) Done() <-chan struct{} { c.poke(); return c.Context.Done() }
func (c pokingContext) Err() error            { c.poke(); return c.Context.Err() }

// TestForeignContext has the functions of a context call back, while a method waits and when the context ends: the
// package calls them without a lock.
func TestForeignContext(t *testing.T) {
	stuck := func(context.Context, *LeaseRequest) (*Lease, error) { select {} }
	a, b, err := Pipe(&Options{Leases: &LeaseOptions{OnRequest: stuck}})
	ok(t, err)
	x, y, err := Pipe(&Options{Leases: &LeaseOptions{}})
	ok(t, err)
	var calls atomic.Int32
	poke := func() {
		calls.Add(1)
		for _, c := range []*Conn{a, b, x, y} {
			_, _, _ = c.Err(), c.Engine().Stats(), c.Peer()
		}
		m, some, _ := b.TryRecv()
		if some {
			m.Release()
		}
	}
	caller, err := NewCaller(x)
	ok(t, err)
	block, err := a.Engine().Pool().Get(4096)
	ok(t, err)
	lease, err := b.Lend(timeout(t), block, MayRead|MayWrite|MayAtomic, 0)
	ok(t, err)
	region, err := a.Borrow(timeout(t))
	ok(t, err)
	mine, err := a.Engine().Pool().Get(8)
	ok(t, err)
	flood := make([]byte, 32<<10)
	for name, f := range map[string]func(ctx context.Context) error{
		"Conn.Recv":   func(ctx context.Context) error { _, err := a.Recv(ctx); return err },
		"Conn.Borrow": func(ctx context.Context) error { _, err := a.Borrow(ctx); return err },
		"Conn.Request": func(ctx context.Context) error {
			_, err := a.Request(ctx, 1, MayRead, 0)
			return err
		},
		"Conn.Send": func(ctx context.Context) error {
			for {
				if err := y.Send(ctx, flood); err != nil {
					return err
				}
			}
		},
		"Caller.Call": func(ctx context.Context) error { _, err := caller.Call(ctx, nil); return err },
		"Lease.Wait":  func(ctx context.Context) error { _, err := lease.Wait(ctx); return err },
		"Pool.GetWait": func(ctx context.Context) error {
			for {
				buf, err := x.Engine().Pool().GetWait(ctx, 4<<20)
				if err != nil {
					return err
				}
				t.Cleanup(buf.Release)
			}
		},
		"Region.Read": func(ctx context.Context) error {
			for {
				if err := region.Read(ctx, mine, 0); err != nil {
					return err
				}
			}
		},
		"Region.FetchAdd": func(ctx context.Context) error {
			for {
				if _, err := region.FetchAdd(ctx, 0, 1); err != nil {
					return err
				}
			}
		},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		began := calls.Load()
		go func() {
			for calls.Load() == began {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(5 * time.Millisecond) // so that most have begun to wait: either is good
			cancel()
		}()
		ends(t, name, func() {
			if err := f(pokingContext{ctx, poke}); !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNoMemory) {
				t.Errorf("%s: %v", name, err)
			}
		})
		cancel()
	}
	mine.Release()
	ends(t, "Close", func() {
		ok(t, caller.Close())
		for _, c := range []*Conn{a, b, x, y} {
			ok(t, c.CloseNow())
		}
	})
}
