package rdma

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// peers is how many connections each row of TestRXE_CloseMany closes, and with which Linger. PUREVERBS_TEST_PEERS is
// another number, for all rows and the default Linger.
func peers(r testutil.RXE) (n int, linger time.Duration, all bool) {
	n, err := strconv.Atoi(os.Getenv("PUREVERBS_TEST_PEERS"))
	switch {
	case err == nil:
		return n, 5 * time.Second, true
	case testutil.Full() && r.Emulated:
		return 200, time.Second, true
	}
	return 20, time.Second, testutil.Full()
}

// sleeper is the process of the peers: it accepts streams, and reads them if told to.
func sleeper(arg string) int {
	reads, addr, _ := strings.Cut(arg, " ")
	l, err := ListenStream(context.Background(), addr, &Options{Backlog: 4096})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		fmt.Println("accepted")
		go func() {
			if reads == "read" {
				_, _ = io.Copy(io.Discard, c)
			}
			<-context.Background().Done()
			runtime.KeepAlive(c) // else it would be closed
		}()
	}
}

// TestRXE_CloseMany closes many connections one after the other. However the peers behave, it takes no longer than
// Linger and a second, and an error says what was not delivered.
func TestRXE_CloseMany(t *testing.T) {
	needLogic(t)
	r := testutil.NeedRXE(t)
	_, _, all := peers(r)
	for _, c := range []struct {
		peers string // what they read, or what becomes of them
		data  int    // bytes that were written and not read
		lost  bool
	}{
		{"read", 1 << 20, false}, {"read", 0, false},
		{"nothing", 0, false}, {"nothing", 1 << 20, true},
		{"stopped", 0, false}, {"stopped", 1 << 20, true},
		{"dead", 0, false}, {"dead", 1 << 20, true},
		{"unreachable", 0, true}, {"unreachable", 1 << 20, true},
	} {
		for _, by := range []string{"Close", "http.Server.Close", "http.Server.Shutdown"} {
			if by != "Close" && c.data > 0 && !all || c.peers == "unreachable" && !r.Emulated {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d bytes, %s", c.peers, c.data, by), func(t *testing.T) {
				closeMany(t, c.peers, c.data, by, c.lost)
			})
		}
	}
}

func closeMany(t *testing.T, how string, data int, by string, lost bool) {
	r := testutil.NeedRXE(t)
	n, linger, _ := peers(r)
	if how == "read" && data > 0 { // they take in everything, however busy the machine is
		linger = testutil.Patience
	}
	_, client := newEngines(t, nil)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=sleep "+how+" "+net.JoinHostPort(r.IP[0], "0"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines := bufio.NewReader(out)
	addr, err := lines.ReadString('\n')
	ok(t, err)

	o := from(r, client)
	o.Linger = linger
	var list []*Stream
	for range n {
		s, err := DialStream(timeout(t), strings.TrimSpace(addr), o)
		ok(t, err)
		_, err = lines.ReadString('\n')
		ok(t, err)
		list = append(list, s)
	}
	if how == "stopped" {
		ok(t, cmd.Process.Signal(syscall.SIGSTOP))
	}
	buf := make([]byte, data)
	for _, s := range list {
		if data > 0 {
			ok(t, s.SetWriteDeadline(time.Now().Add(5*time.Millisecond)))
			if how == "read" {
				ok(t, s.SetWriteDeadline(time.Time{}))
			}
			_, err := s.Write(buf)
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
	}
	switch how {
	case "unreachable": // as by the end of the host: nothing reaches the peer, and nothing comes
		r.SetLink(t, 0, false)
	case "dead":
		ok(t, cmd.Process.Kill())
	}
	failed, took := closeBy(t, by, list)
	t.Logf("%d peers: %v, %d errors", len(list), took, failed)
	soft := !r.Emulated && !r.Hardware
	most := linger + 5*time.Second // on a busy machine; one linger for each would be 20 s
	if soft {                      // it takes a while, but less than one linger for each
		most += 10 * time.Second
	}
	if took > most {
		t.Errorf("closing %d connections took %v, want at most %v", len(list), took, most)
	}
	late := soft // a FIN may be
	if by == "Close" && (failed > 0) != lost && !(late && !lost) {
		t.Errorf("%d of %d have an error, want some: %v", failed, len(list), lost)
	}
	if how == "stopped" {
		ok(t, cmd.Process.Signal(syscall.SIGCONT))
	}
}

// closeBy closes streams, and returns how many have an error and how long it took.
func closeBy(t *testing.T, by string, list []*Stream) (failed int, took time.Duration) {
	t.Helper()
	if by == "Close" {
		began := time.Now()
		for _, s := range list {
			err := s.Close()
			var lost *UndeliveredError
			var op *net.OpError
			if err != nil && (!errors.As(err, &lost) || !errors.As(err, &op)) {
				t.Errorf("%v, want an *UndeliveredError in a *net.OpError", err)
			}
			if err != nil {
				failed++
			}
		}
		return failed, time.Since(began)
	}
	ready := make(chan struct{}, len(list))
	srv := &http.Server{ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			ready <- struct{}{}
		}
	}}
	l := &listOf{conns: make(chan net.Conn, len(list)), over: make(chan struct{})}
	for _, s := range list {
		l.conns <- s
	}
	served := make(chan error)
	go func() { served <- srv.Serve(l) }()
	for range list {
		<-ready
	}
	began := time.Now()
	if by == "http.Server.Close" {
		_ = srv.Close()
	} else {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_ = srv.Shutdown(ctx) // connections without a request are not idle for the first five seconds
		_ = srv.Close()
	}
	took = time.Since(began)
	if err := <-served; err != http.ErrServerClosed {
		t.Errorf("Serve: %v", err)
	}
	for _, s := range list {
		_ = s.Close()
	}
	return 0, took
}

// listOf is a net.Listener of connections that are there.
type listOf struct {
	conns chan net.Conn
	over  chan struct{}
}

func (l *listOf) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *listOf) Close() error   { close(l.over); return nil }
func (l *listOf) Addr() net.Addr { return &net.TCPAddr{} }

// TestRXE_CloseError closes a connection whose peer takes nothing: the error counts what was not delivered. CloseNow
// does not wait, and the peer learns of it.
func TestRXE_CloseError(t *testing.T) {
	r := testutil.NeedRXE(t)
	server, client := newEngines(t, nil)
	o := &Options{Engine: server, Linger: 50 * time.Millisecond}
	l, err := Listen(timeout(t), net.JoinHostPort(r.IP[0], "0"), o)
	ok(t, err)
	defer l.Close()
	for _, now := range []bool{false, true} {
		a, err := Dial(timeout(t), l.Addr().String(), from(r, client))
		ok(t, err)
		c, err := l.Accept(timeout(t))
		ok(t, err)
		msg := make([]byte, link.DefaultBlock)
		for range link.StartWindow + 3 {
			ok(t, c.Send(timeout(t), msg))
		}
		if now {
			began := time.Now()
			ok(t, c.CloseNow())
			if took := time.Since(began); took > testutil.Patience/4 {
				t.Errorf("CloseNow took %v", took)
			}
		} else {
			var lost *UndeliveredError
			err := c.Close()
			if !errors.As(err, &lost) || !errors.Is(err, os.ErrDeadlineExceeded) || lost.Frames != 3 ||
				lost.Bytes != 3*link.DefaultBlock {
				t.Errorf("Close: %v, want 3 frames to be lost", err)
			}
		}
		for range link.StartWindow { // what the adapter has comes before the end
			m, err := a.Recv(timeout(t))
			ok(t, err)
			m.Release()
		}
		if m, err := a.Recv(timeout(t)); !errors.Is(err, ErrPeerGone) { // nothing comes of what Close has reported
			t.Errorf("the peer, CloseNow %v: %v, %v, want ErrPeerGone", now, m, err)
		}
		_ = a.CloseNow()
		<-c.Done()
		if !errors.Is(c.Err(), net.ErrClosed) {
			t.Errorf("the end: %v", c.Err())
		}
	}
}

// TestRXE_CloseWaits dials an engine that waits for a closed connection: no lock is held meanwhile.
func TestRXE_CloseWaits(t *testing.T) {
	r := testutil.NeedRXE(t)
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	l, err := Listen(timeout(t), net.JoinHostPort(r.IP[0], "0"), &Options{Engine: server})
	ok(t, err)
	defer l.Close()
	for range link.StartWindow + 3 { // b reads nothing
		ok(t, a.Send(timeout(t), make([]byte, link.DefaultBlock)))
	}
	a.l.Close()
	closed := make(chan error, 1)
	go func() { closed <- client.Close() }()
	time.Sleep(10 * time.Millisecond)
	c, err := Dial(timeout(t), l.Addr().String(), from(r, client))
	ok(t, err)
	select {
	case err := <-closed:
		t.Fatalf("the engine has not waited: %v", err)
	default:
	}
	ok(t, b.CloseNow())
	var busy *ibv.BusyError
	if err := <-closed; !errors.As(err, &busy) {
		t.Errorf("Close of an engine with a new connection: %v, want a *BusyError", err)
	}
	ok(t, c.Close())
	d, err := l.Accept(timeout(t))
	ok(t, err)
	_ = d.CloseNow()
}
