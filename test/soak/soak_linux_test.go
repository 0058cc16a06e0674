// Package soak runs connections of package rdma for a long time: they come and go, are closed, killed and stopped.
package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
	"github.com/pureverbs/pureverbs/rdma"
)

const (
	// lengthEnv says how long the soak runs; "make soak" sets it.
	lengthEnv = "PUREVERBS_SOAK"
	// childEnv makes the test binary a client: MESSAGES STREAMS DATAGRAMS SEED CONNECTIONS HOST, three addresses, two
	// numbers and its own address.
	childEnv = "PUREVERBS_SOAK_CHILD"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		child(strings.Fields(what))
		return
	}
	emulated.Main(m, "leak") // of clients that are killed
}

// crowd is how many connections one client has at a time, once in a soak.
const crowd = 1000

// server is what the soak watches: a process that stays, whose clients come and go.
type server struct {
	engine   *rdma.Engine
	messages *rdma.Listener
	streams  *rdma.StreamListener
	packets  *rdma.PacketConn
	running  sync.WaitGroup
	conns    atomic.Int64 // that were accepted
	leases   atomic.Int64 // that were granted
	echoed   atomic.Int64 // datagrams
	bytes    atomic.Int64
}

func serve(t *testing.T, r testutil.RXE) *server {
	t.Helper()
	s := &server{}
	var err error
	if s.engine, err = rdma.NewEngine(r.Dev[0], nil); err != nil {
		t.Fatal(err)
	}
	o := &rdma.Options{Engine: s.engine, KeepAlive: time.Second, Leases: &rdma.LeaseOptions{
		MaxDuration: 2 * time.Second, Grace: 100 * time.Millisecond, OnRequest: s.lend}}
	at := net.JoinHostPort(r.IP[0], "0")
	if s.messages, err = rdma.Listen(t.Context(), at, o); err != nil {
		t.Fatal(err)
	}
	o = &rdma.Options{Engine: s.engine, KeepAlive: time.Second}
	if s.streams, err = rdma.ListenStream(t.Context(), at, o); err != nil {
		t.Fatal(err)
	}
	if s.packets, err = rdma.ListenPacket(t.Context(), at, &rdma.Options{Engine: s.engine}); err != nil {
		t.Fatal(err)
	}
	s.running.Go(func() {
		b := make([]byte, s.packets.MaxDatagram())
		for {
			n, from, err := s.packets.ReadFrom(b)
			if err != nil {
				return
			}
			if _, err := s.packets.WriteTo(b[:n], from); err == nil { // the client may have gone
				s.echoed.Add(1)
			}
		}
	})
	s.running.Go(func() {
		for {
			c, err := s.messages.Accept(context.Background())
			if err != nil {
				return
			}
			s.conns.Add(1)
			s.running.Go(func() { s.echo(c) })
		}
	})
	s.running.Go(func() {
		for {
			c, err := s.streams.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			s.running.Go(func() {
				n, _ := io.Copy(c, c)
				s.bytes.Add(n)
				_ = c.Close()
			})
		}
	})
	return s
}

// lend grants a request with memory of its own.
func (s *server) lend(ctx context.Context, r *rdma.LeaseRequest) (*rdma.Lease, error) {
	b, err := s.engine.Pool().Get(int(r.Bytes))
	if err != nil {
		return nil, err
	}
	l, err := r.Lend(ctx, b, r.Access, r.Duration)
	if err == nil {
		s.leases.Add(1)
	}
	b.Release() // at the end of the lease
	return l, err
}

// echo sends each message back until the connection ends.
func (s *server) echo(c *rdma.Conn) {
	defer c.Close()
	ctx := context.Background()
	for {
		m, err := c.Recv(ctx)
		if err != nil {
			return
		}
		s.bytes.Add(int64(m.Len()))
		err = c.Send(ctx, m.Bytes())
		m.Release()
		if err != nil {
			return
		}
	}
}

func (s *server) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(s.messages.Close(), s.streams.Close(), s.packets.Close()); err != nil {
		t.Error(err)
	}
	s.running.Wait()
	for end := time.Now().Add(testutil.Patience); s.engine.Stats().Conns > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("connections are left: %+v", s.engine.Stats())
		}
	}
	if st := s.engine.Stats(); st.BlocksFree+st.BlocksPosted != st.Blocks || st.BlocksHeld > 0 || st.Leases > 0 ||
		st.Buffers > 0 || st.Windows > 0 {
		t.Errorf("at the end %+v, want every block free or posted, and no lease or buffer", st)
	}
	if err := s.engine.Close(); err != nil {
		t.Error(err)
	}
}

// witness is an engine of the same process with a connection to itself, which the clients of the other must not
// disturb.
type witness struct {
	engine *rdma.Engine
	stop   context.CancelFunc
	done   chan error
	trips  atomic.Int64
	most   atomic.Int64 // nanoseconds
	first  rdma.Stats
}

func newWitness(t *testing.T, r testutil.RXE) *witness {
	t.Helper()
	w := &witness{done: make(chan error, 1)}
	var err error
	if w.engine, err = rdma.NewEngine(r.Dev[0], nil); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	l, err := rdma.Listen(ctx, net.JoinHostPort(r.IP[0], "0"), &rdma.Options{Engine: w.engine, KeepAlive: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan *rdma.Conn, 1)
	go func() {
		c, _ := l.Accept(ctx)
		accepted <- c
	}()
	a, err := rdma.Dial(ctx, l.Addr().String(), &rdma.Options{Engine: w.engine, KeepAlive: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	b := <-accepted
	if err := w.trip(ctx, a, b); err != nil {
		t.Fatal(err)
	}
	w.first = w.engine.Stats()
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			began := time.Now()
			if err = w.trip(context.Background(), a, b); err == nil {
				w.trips.Add(1)
				w.most.Store(max(w.most.Load(), int64(time.Since(began))))
			}
			time.Sleep(time.Millisecond)
		}
		w.done <- errors.Join(err, a.Close(), b.Close(), l.Close())
	}()
	return w
}

// trip sends a message there and back.
func (w *witness) trip(ctx context.Context, a, b *rdma.Conn) error {
	for _, c := range [][2]*rdma.Conn{{a, b}, {b, a}} {
		if err := c[0].Send(ctx, []byte("witness")); err != nil {
			return err
		}
		m, err := c[1].Recv(ctx)
		if err != nil {
			return err
		}
		m.Release()
	}
	return nil
}

func (w *witness) close(t *testing.T) {
	t.Helper()
	last := w.engine.Stats()
	w.stop()
	if err := <-w.done; err != nil {
		t.Errorf("the second engine's connection: %v", err)
	}
	t.Logf("second engine: %d round trips, the longest %v", w.trips.Load(), time.Duration(w.most.Load()))
	if last.Conns != 2 || last.Blocks != w.first.Blocks || last.Promised != w.first.Promised || last.Refused != 0 {
		t.Errorf("the second engine has %+v, and had %+v at first", last, w.first)
	}
	if err := w.engine.Close(); err != nil {
		t.Error(err)
	}
}

// usage is what a process has.
type usage struct {
	heap, rss               int64 // bytes
	descriptors, goroutines int
}

func (u usage) String() string {
	return fmt.Sprintf("heap %d KiB, resident %d KiB, %d descriptors, %d goroutines", u.heap>>10, u.rss>>10,
		u.descriptors, u.goroutines)
}

// more reports whether a process has more descriptors or goroutines than it had.
func (u usage) more(early usage) bool {
	return u.descriptors > early.descriptors || u.goroutines > early.goroutines
}

// settled waits until the server has no connections, and returns its usage.
func (s *server) settled(t *testing.T) usage {
	t.Helper()
	for end := time.Now().Add(testutil.Patience); s.engine.Stats().Conns > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("connections whose clients are gone are left: %+v\n%s", s.engine.Stats(),
				buf[:runtime.Stack(buf, true)])
		}
	}
	time.Sleep(50 * time.Millisecond) // goroutines that end after the connection
	runtime.GC()
	debug.FreeOSMemory()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u := usage{heap: int64(mem.HeapAlloc), goroutines: runtime.NumGoroutine()}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		pages, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
		u.rss = pages * int64(os.Getpagesize())
	}
	fds, _ := os.ReadDir("/proc/self/fd")
	u.descriptors = len(fds)
	return u
}

// TestRXE_Soak has clients come and go for a while. What the server has when nobody is connected does not grow.
func TestRXE_Soak(t *testing.T) {
	r := testutil.NeedLogic(t)
	length := 6 * time.Second
	if text := os.Getenv(lengthEnv); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := newWitness(t, r)
	s := serve(t, r)
	var early usage
	var killed, stopped, ended int
	begun := time.Now()
	many := os.Getenv(lengthEnv) == "" // once, if there is time for it
	for round := 0; round < 4 || time.Since(begun) < length; round++ {
		n := 1 + rnd.IntN(20)
		if !many && time.Since(begun) > length/2 {
			many, n = true, crowd
		}
		var clients sync.WaitGroup
		for k := range 3 {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), fmt.Sprintf("%s=%v %v %v %d %d %s", childEnv, s.messages.Addr(),
				s.streams.Addr(), s.packets.LocalAddr(), rnd.Uint64(), max(n/(k+1), 1), r.IP[1]))
			c.Stderr = os.Stderr
			in, err := c.StdinPipe() // the client ends with this process
			if err == nil {
				err = c.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			fate, after := rnd.IntN(4), time.Duration(rnd.IntN(500))*time.Millisecond
			switch {
			case n == crowd || fate < 2:
				ended++
			case fate == 2:
				killed++
			default:
				stopped++
			}
			clients.Go(func() {
				defer in.Close()
				if n < crowd && fate >= 2 {
					time.Sleep(after)
					if fate == 3 {
						_ = c.Process.Signal(syscall.SIGSTOP)
						time.Sleep(after)
						_ = c.Process.Signal(syscall.SIGCONT)
						time.Sleep(after)
					}
					_ = c.Process.Kill()
					_ = c.Wait()
					return
				}
				if err := c.Wait(); err != nil {
					t.Errorf("a client with %d connections: %v", n, err)
				}
			})
		}
		clients.Wait()
		u := s.settled(t)
		if time.Since(begun) < length/4 || round < 2 {
			early = usage{max(early.heap, u.heap), max(early.rss, u.rss), max(early.descriptors, u.descriptors),
				max(early.goroutines, u.goroutines)}
		}
		if round%32 == 0 {
			t.Logf("%v: %v, %+v", time.Since(begun).Round(time.Second), u, s.engine.Stats())
		}
	}
	late := s.settled(t)
	// On a busy machine goroutines that end after their connection take longer than settled waits.
	for end := time.Now().Add(testutil.Patience); late.more(early) && time.Now().Before(end); {
		late = s.settled(t)
	}
	t.Logf("%d clients ended, %d were killed, %d stopped and killed; %d connections, %d leases, %d datagrams, %d MiB; "+
		"at first %v; at the end %v, %+v", ended, killed, stopped, s.conns.Load(), s.leases.Load(), s.echoed.Load(),
		s.bytes.Load()>>20, early, late, s.engine.Stats())
	if s.leases.Load() == 0 || s.bytes.Load() == 0 || s.echoed.Load() == 0 {
		t.Error("nothing was lent, or nothing sent")
	}
	if late.more(early) {
		buf := make([]byte, 1<<20)
		t.Errorf("descriptors or goroutines are left\n%s", buf[:runtime.Stack(buf, true)])
	}
	if most := early.heap + early.heap/2 + 4<<20; late.heap > most {
		t.Errorf("the heap has grown above %d KiB", most>>10)
	}
	if most := early.rss + early.rss/2 + 300<<20; late.rss > most { // blocks stay registered
		t.Errorf("the resident memory has grown above %d KiB", most>>10)
	}
	s.close(t)
	w.close(t)
}

// child is a client: it opens connections, uses each for a while, and closes them.
func child(args []string) {
	go func() { // the parent is gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	seed, _ := strconv.ParseUint(args[3], 10, 64)
	n, _ := strconv.Atoi(args[4])
	// On a busy machine a crowd's Closes take their time.
	o := &rdma.Options{KeepAlive: time.Second, Leases: &rdma.LeaseOptions{MaxBytes: rdma.None},
		Linger: testutil.Patience}
	o.LocalAddr = netip.AddrPortFrom(netip.MustParseAddr(args[5]), 0)
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	defer cancel()
	var all sync.WaitGroup
	slots := make(chan struct{}, 32) // that are being dialed
	for k := range n {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(k)))
			var err error
			plain := *o
			plain.Leases = nil
			switch k % 8 {
			case 0, 2, 4:
				err = talk(ctx, args[0], o, rnd, slots)
			case 1, 3:
				err = pour(ctx, args[1], &plain, rnd, slots)
			case 5:
				err = chat(ctx, args[2], &rdma.Options{LocalAddr: o.LocalAddr}, rnd)
			case 6:
				err = ignore(ctx, args[0], o, slots)
			case 7:
				err = ignoreStream(ctx, args[1], &plain, slots)
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "client: connection %d of %d: %v\n", k, n, err)
				os.Exit(1)
			}
		})
	}
	all.Wait()
	os.Exit(0) // Close has waited for what was sent
}

// talk exchanges messages, and borrows memory.
func talk(ctx context.Context, addr string, o *rdma.Options, rnd *rand.Rand, slots chan struct{}) error {
	slots <- struct{}{}
	c, err := rdma.Dial(ctx, addr, o)
	<-slots
	if err != nil {
		return err
	}
	defer c.Close()
	text := make([]byte, 1+rnd.IntN(100_000))
	for range rnd.IntN(20) {
		if err := c.Send(ctx, text); err != nil {
			return err
		}
		m, err := c.Recv(ctx)
		if err != nil {
			return err
		}
		got := m.Len()
		m.Release()
		if got != len(text) {
			return fmt.Errorf("%d bytes came back of %d", got, len(text))
		}
	}
	if rnd.IntN(2) == 0 {
		return c.Close()
	}
	region, err := c.Request(ctx, 1+rnd.Int64N(1<<16), rdma.MayRead|rdma.MayWrite, time.Second)
	if err != nil {
		return err
	}
	local, err := c.Engine().Pool().Get(int(region.Len()))
	if err != nil {
		return err
	}
	defer local.Release()
	if err := region.Write(ctx, local, 0); err != nil && !errors.Is(err, rdma.ErrExpired) {
		return err
	}
	if rnd.IntN(3) == 0 {
		return nil // the lease ends with the connection
	}
	if err := region.Return(ctx); err != nil && !errors.Is(err, rdma.ErrExpired) {
		return err
	}
	return c.Close()
}

// pour writes a stream, and reads it back.
func pour(ctx context.Context, addr string, o *rdma.Options, rnd *rand.Rand, slots chan struct{}) error {
	slots <- struct{}{}
	plain := *o
	plain.Leases = nil // streams have none
	s, err := rdma.DialStream(ctx, addr, &plain)
	<-slots
	if err != nil {
		return err
	}
	defer s.Close()
	size := rnd.IntN(1 << 20)
	failed := make(chan error, 1)
	go func() {
		_, err := s.Write(make([]byte, size))
		failed <- errors.Join(err, s.CloseWrite())
	}()
	got, err := io.Copy(io.Discard, s)
	if err = errors.Join(err, <-failed); err != nil {
		return err
	}
	if got != int64(size) {
		return fmt.Errorf("%d bytes came back of %d", got, size)
	}
	return s.Close()
}

// chat exchanges datagrams, which may be lost.
func chat(ctx context.Context, addr string, o *rdma.Options, rnd *rand.Rand) error {
	c, err := rdma.DialPacket(ctx, addr, o)
	if err != nil {
		return err
	}
	b := make([]byte, c.MaxDatagram())
	for range 1 + rnd.IntN(20) {
		if _, err := c.Write(b[:1+rnd.IntN(len(b))]); err != nil {
			return errors.Join(err, c.Close())
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := c.Read(b); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.Join(err, c.Close())
		}
	}
	return c.Close()
}

// unread is how long a client that reads nothing goes on sending.
const unread = 300 * time.Millisecond

// ignore sends messages and reads no reply, until it can send no more.
func ignore(ctx context.Context, addr string, o *rdma.Options, slots chan struct{}) error {
	slots <- struct{}{}
	c, err := rdma.Dial(ctx, addr, o)
	<-slots
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, unread)
	defer cancel()
	for err == nil {
		err = c.Send(ctx, make([]byte, 20_000))
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(err, c.CloseNow())
	}
	return c.CloseNow()
}

// ignoreStream is ignore for a stream.
func ignoreStream(ctx context.Context, addr string, o *rdma.Options, slots chan struct{}) error {
	slots <- struct{}{}
	s, err := rdma.DialStream(ctx, addr, o)
	<-slots
	if err != nil {
		return err
	}
	_ = s.SetWriteDeadline(time.Now().Add(unread))
	for err == nil {
		_, err = s.Write(make([]byte, 100_000))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.Join(err, s.CloseNow())
	}
	return s.CloseNow()
}
