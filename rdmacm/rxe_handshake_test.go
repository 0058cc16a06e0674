package rdmacm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// What others may do to a connection during its handshake, from Options.Prepare on.
var meddling = map[string]func(c *Conn, cancel func()){
	"closes":    func(c *Conn, _ func()) { _ = c.Close() },
	"shuts":     func(c *Conn, _ func()) { _ = c.Shutdown(context.Background()) },
	"cancels":   func(_ *Conn, cancel func()) { cancel() },
	"fails":     func(c *Conn, _ func()) { _ = c.QP().Modify(&ibv.QPAttr{State: ibv.StateErr}, ibv.MaskState) },
	"looks on":  func(*Conn, func()) {},
	"withdraws": func(c *Conn, _ func()) { _ = c.ID().Disconnect() },
}

// lookOn calls what is safe for concurrent use until the test ends.
func lookOn(c *Conn, stop <-chan struct{}) {
	for !isClosed(stop) {
		_, _, _ = c.RemoteAddr(), c.LocalAddr(), c.Err()
		_, _ = c.Param(), c.PrivateData()
		_, _, _ = c.Peer()
		c.OnDone(func(error) {})
		c.OnClose(func() error { return nil })
		time.Sleep(10 * time.Microsecond)
	}
}

// TestRXE_CM_Handshake has another goroutine meddle with a connection at each point of its handshake, at either end.
// Dial and Accept return, and nothing is left.
func TestRXE_CM_Handshake(t *testing.T) {
	testutil.NeedLogic(t)
	const points = 8
	for _, ps := range []PortSpace{PortSpaceTCP, PortSpaceUDP} {
		for how, f := range meddling {
			for _, dials := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v, %s, dials %v", ps, how, dials), func(t *testing.T) {
					began := time.Now()
					handshake(t, ps, dials, func(*Conn, func()) {})
					took := time.Since(began)
					for i := range points {
						handshake(t, ps, dials, func(c *Conn, cancel func()) {
							time.Sleep(took * time.Duration(i) / (points - 2))
							f(c, cancel)
						})
					}
				})
			}
		}
	}
}

// handshake makes a connection. From Prepare on, f runs on a goroutine of its own, at the end that dials or the other.
func handshake(t *testing.T, ps PortSpace, dials bool, f func(c *Conn, cancel func())) {
	t.Helper()
	ctx, cancel := context.WithCancel(timeout(t))
	defer cancel()
	stop := make(chan struct{})
	var others sync.WaitGroup
	prepare := func(c *Conn) error {
		others.Go(func() { lookOn(c, stop) })
		others.Go(func() { f(c, cancel) })
		return nil
	}
	list := []*Options{{PortSpace: ps}, {PortSpace: ps}}
	if dials {
		list[0].Prepare = prepare
	} else {
		list[1].Prepare = prepare
	}
	l := must(Listen(ctx, local(t).String(), list[1]))(t)
	var conns [2]*Conn
	var errs [2]error
	var ends sync.WaitGroup
	ends.Go(func() {
		r, err := l.Next(ctx)
		if err == nil {
			conns[1], err = r.Accept(ctx, nil)
		}
		errs[1] = err
	})
	ends.Go(func() {
		if conns[0], errs[0] = Dial(ctx, l.Addr().String(), list[0]); errs[0] != nil {
			cancel() // the other end need not wait for a request
		}
	})
	_ = soon(t, "a handshake", func() error { ends.Wait(); return nil })
	close(stop)
	others.Wait()
	for i, err := range errs {
		var op *ibv.OpError
		switch {
		case err == nil:
			if !conns[i].RemoteAddr().IsValid() || !conns[i].LocalAddr().IsValid() {
				t.Errorf("a connection from %v to %v", conns[i].LocalAddr(), conns[i].RemoteAddr())
			}
			ok(t, conns[i].Close())
		case !errors.As(err, &op) && !errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			t.Errorf("end %d: %v", i, err)
		}
	}
	ok(t, l.Close())
}

// stopEnv makes a test binary one that takes part in a handshake up to a step: "END STEP ADDR".
const stopEnv = "PUREVERBS_TEST_HANDSHAKE"

// stopAt is the child of TestRXE_CM_HandshakeKilled: at its step it prints that, and waits to be killed.
func stopAt(arg string) int {
	var end, step, addr string
	if _, err := fmt.Sscan(arg, &end, &step, &addr); err != nil {
		fmt.Println(err)
		return 1
	}
	at := func(now string) {
		if now == step {
			fmt.Println("stops")
			select {}
		}
	}
	opt := &Options{
		Use:     func(*ibv.Device, *Options) error { at("Use"); return nil },
		Prepare: func(*Conn) error { at("Prepare"); return nil },
	}
	err := errors.New("it does not stop")
	ctx := context.Background()
	switch end {
	case "dials":
		if step == "request" || step == "reply" {
			err = askAndStop(addr, at)
			break
		}
		if _, err = Dial(ctx, addr, opt); err == nil {
			at("connection")
		}
	case "accepts":
		var l *Listener
		if l, err = Listen(ctx, addr, opt); err != nil {
			break
		}
		fmt.Println(l.Addr())
		var r *Request
		if r, err = l.Next(ctx); err == nil {
			at("request")
			_, err = r.Accept(ctx, nil)
			at("connection")
		}
	}
	fmt.Println(err)
	return 1
}

// askAndStop requests a connection, and stops before it has read the reply, or before it has confirmed that.
func askAndStop(addr string, at func(string)) error {
	ch, err := NewEventChannel()
	if err != nil {
		return err
	}
	id, err := ch.CreateID(PortSpaceTCP)
	if err != nil {
		return err
	}
	next := func(f func() error) {
		if err == nil {
			err = f()
		}
		if err == nil {
			_, err = ch.Event(context.Background())
		}
	}
	next(func() error { return id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort(addr), wait) })
	next(func() error { return id.ResolveRoute(wait) })
	next(func() error {
		err := id.Connect(&ConnParam{QPN: 0x700000 + uint32(os.Getpid()), RetryCount: 7, RNRRetryCount: 7})
		if err == nil {
			at("request")
		}
		return err
	})
	if err == nil {
		at("reply")
	}
	return err
}

// TestRXE_CM_HandshakeKilled kills a process at each step of a handshake, at either end. The other end returns, and
// takes part in the next.
func TestRXE_CM_HandshakeKilled(t *testing.T) {
	testutil.NeedRXE(t)
	for _, end := range []string{"dials", "accepts"} {
		for _, step := range []string{"Use", "Prepare", "request", "reply", "connection"} {
			if end == "accepts" && step == "reply" {
				continue
			}
			t.Run(end+", "+step, func(t *testing.T) {
				stop := make(chan struct{})
				var others sync.WaitGroup
				opt := &Options{Prepare: func(c *Conn) error {
					others.Go(func() { lookOn(c, stop) })
					return nil
				}}
				defer others.Wait()
				defer close(stop)
				if end == "dials" {
					killDialer(t, step, opt)
				} else {
					killListener(t, step, opt)
				}
			})
		}
	}
}

// stopped starts a child, and returns lines that it prints.
func stopped(t *testing.T, end, step, addr string) (cmd *exec.Cmd, line func() string) {
	t.Helper()
	cmd = exec.Command(must(os.Executable())(t))
	cmd.Env = append(os.Environ(), stopEnv+"="+end+" "+step+" "+addr)
	cmd.Stderr = os.Stderr
	out := bufio.NewReader(must(cmd.StdoutPipe())(t))
	ok(t, cmd.Start())
	return cmd, func() string {
		s, err := out.ReadString('\n')
		if err != nil {
			t.Errorf("the child has ended: %v", err)
		}
		return strings.TrimSpace(s)
	}
}

func kill(t *testing.T, cmd *exec.Cmd, line string) {
	t.Helper()
	if line != "stops" {
		t.Errorf("the child says %s", line)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// killDialer has a child dial. If it has requested a connection, Accept tells of it only if it was made.
func killDialer(t *testing.T, step string, opt *Options) {
	l := must(Listen(timeout(t), local(t).String(), opt))(t)
	ctx, cancel := context.WithCancel(timeout(t))
	accepted := make(chan *Conn, 2)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("accept: %v", err)
				}
				return
			}
			accepted <- c
		}
	})
	cmd, line := stopped(t, "dials", step, l.Addr().String())
	kill(t, cmd, line())
	if step == "connection" {
		c := <-accepted
		<-c.Done()
		ok(t, c.Close())
	}
	good := must(Dial(timeout(t), l.Addr().String(), nil))(t)
	c := <-accepted
	for c.RemoteAddr() != good.LocalAddr() { // the child's, which was confirmed as it died
		<-c.Done()
		ok(t, c.Close())
		c = <-accepted
	}
	ok(t, good.Close())
	ok(t, c.Close())
	cancel()
	accepting.Wait()
	ok(t, l.Close())
}

// killListener has a child listen, and dials.
func killListener(t *testing.T, step string, opt *Options) {
	cmd, line := stopped(t, "accepts", step, local(t).String())
	addr := line()
	done := make(chan error, 1)
	go func() {
		c, err := Dial(timeout(t), addr, opt)
		if err == nil {
			<-c.Done()
			err = c.Err()
			ok(t, c.Close())
		}
		done <- err
	}()
	kill(t, cmd, line())
	err := <-done
	var reject *RejectError
	var event *EventError
	if !errors.As(err, &reject) && !errors.As(err, &event) && !errors.Is(err, ErrDisconnected) {
		t.Errorf("dial: %v", err)
	}
}
