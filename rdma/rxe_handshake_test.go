package rdma

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
	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// serveAll accepts connections, and calls f with each, until stop is called. stop waits until f is over.
func serveAll(l *listener, f func(l *link.Link)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.accept(ctx)
			if err != nil {
				return
			}
			served.Go(func() { f(c) })
		}
	})
	return func() {
		cancel()
		served.Wait()
	}
}

// untilOver waits until the peer has ended a connection.
func untilOver(l *link.Link) {
	<-l.End.Done()
	l.Close()
}

// TestRXE_HandshakeCloseNow has clients leave as soon as they are connected, or before, and servers that leave at once.
// A RESET comes while the other end finishes its handshake. Nothing is left: see newEngines.
func TestRXE_HandshakeCloseNow(t *testing.T) {
	r := testutil.NeedLogic(t)
	leave := map[string]func(l *link.Link){
		"CloseNow": (*link.Link).CloseNow,
		"Close":    (*link.Link).Close,
		"waits":    untilOver,
	}
	for _, kind := range []wire.ConnKind{wire.Messages, wire.Stream} {
		for _, how := range [][2]string{{"CloseNow", "waits"}, {"CloseNow", "CloseNow"}, {"waits", "CloseNow"},
			{"Close", "CloseNow"}, {"CloseNow", "Close"}} {
			t.Run(fmt.Sprintf("%v, %s by the client, %s by the server", kind, how[0], how[1]), func(t *testing.T) {
				server, client := newEngines(t, nil)
				l, err := listen(timeout(t), r.IP[0]+":0", kind, &Options{Engine: server})
				ok(t, err)
				stop := serveAll(l, leave[how[1]])
				var clients sync.WaitGroup
				for range 4 {
					clients.Go(func() {
						for range 6 {
							c, err := dial(timeout(t), l.addr().String(), kind, from(r, client), new(attempts.Finish))
							if err == nil {
								leave[how[0]](c)
							} else if errors.Is(err, context.DeadlineExceeded) {
								t.Error(err)
							}
						}
					})
				}
				clients.Wait()
				untilNoConns(t, client)
				stop()
				ok(t, l.close())
				untilNoConns(t, server)
			})
		}
	}
}

// raw is a queue pair of a peer that takes part in a handshake step by step.
type raw struct {
	cq *ibv.CQ
	qp *ibv.QP
	mr *ibv.MR
}

func newRaw(t *testing.T, id *rdmacm.ID) raw {
	t.Helper()
	dev, err := id.Verbs()
	ok(t, err)
	pd, err := dev.AllocPD()
	ok(t, err)
	cq, err := dev.CreateCQ(64, nil)
	ok(t, err)
	qp, err := pd.CreateQP(cq, cq, nil)
	ok(t, err)
	mr, err := pd.AllocMR(4096, ibv.LocalWrite, nil)
	ok(t, err)
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{qp, cq, mr, pd} {
			ok(t, c.Close())
		}
	})
	ok(t, id.InitQP(qp))
	for range 32 {
		_, err := qp.PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{mr.SGE(1024, 1024)}}})
		ok(t, err)
	}
	return raw{cq, qp, mr}
}

func (r raw) param(kind wire.ConnKind) *rdmacm.ConnParam {
	return &rdmacm.ConnParam{QPN: r.qp.Num(), PrivateData: goodHello(kind), RetryCount: 7, RNRRetryCount: 7}
}

const resetID = 1

// reset sends a RESET.
func (r raw) reset(t *testing.T) {
	t.Helper()
	h := wire.Header{Kind: wire.Reset, Limit: link.StartWindow, Aux: wire.ResetClosed}
	h.Put(r.mr.Bytes())
	_, err := r.qp.PostSend([]ibv.SendWR{{ID: resetID, Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{r.mr.SGE(0, wire.HeaderLen)}}})
	ok(t, err)
}

// sent waits until the RESET was sent, and reports whether the peer has acknowledged it.
func (r raw) sent(t *testing.T) bool {
	t.Helper()
	for {
		var wcs [1]ibv.WC
		_, err := r.cq.Wait(timeout(t), wcs[:])
		ok(t, err)
		if wcs[0].ID == resetID {
			return wcs[0].Err() == nil
		}
	}
}

// TestRXE_HandshakeReset has a RESET come at each step of a handshake at which a peer can send one: before or after it
// has confirmed a reply, or with its own reply.
func TestRXE_HandshakeReset(t *testing.T) {
	r := testutil.NeedLogic(t)
	needUnfinished(t)
	for _, kind := range []wire.ConnKind{wire.Messages, wire.Stream} {
		for _, confirms := range []string{"before it confirms", "as it confirms", "after it has confirmed", "never"} {
			t.Run(fmt.Sprintf("%v, the client, %s", kind, confirms), func(t *testing.T) {
				server, client := newEngines(t, nil)
				l, err := listen(timeout(t), r.IP[0]+":0", kind, &Options{Engine: server})
				ok(t, err)
				stop := serveAll(l, untilOver)
				s := newStrangers(t)
				for range 6 {
					id := s.resolved(l.addr())
					peer := newRaw(t, id)
					p := peer.param(kind)
					ok(t, id.Connect(p))
					s.wait(id, rdmacm.EventConnectResponse)
					ok(t, id.BringUp(peer.qp, p))
					switch confirms {
					case "before it confirms":
						peer.reset(t)
						time.Sleep(time.Millisecond) // now the server has it
						_ = id.Establish()
					case "as it confirms":
						go func() { _ = id.Establish() }()
						peer.reset(t)
					case "after it has confirmed":
						ok(t, id.Establish())
						peer.reset(t)
					case "never":
						peer.reset(t)
					}
				}
				untilNoConns(t, server)
				good, err := dial(timeout(t), l.addr().String(), kind, from(r, client), new(attempts.Finish))
				ok(t, err)
				good.Close()
				untilNoConns(t, client)
				stop()
				ok(t, l.close())
			})
		}
		t.Run(kind.String()+", the server, with its reply", func(t *testing.T) {
			_, client := newEngines(t, nil)
			ch, err := rdmacm.NewEventChannel()
			ok(t, err)
			s := &strangers{t: t, ch: ch}
			t.Cleanup(func() { ok(t, ch.Close()) })
			id, err := ch.CreateID(rdmacm.PortSpaceTCP)
			ok(t, err)
			t.Cleanup(func() { ok(t, id.Close()) })
			ok(t, id.Bind(netip.AddrPortFrom(netip.MustParseAddr(r.IP[0]), 0)))
			ok(t, id.Listen(8))
			for range 6 {
				done := make(chan error)
				go func() {
					c, err := dial(timeout(t), id.LocalAddr().String(), kind, from(r, client), new(attempts.Finish))
					if err == nil {
						untilOver(c)
					}
					done <- err
				}()
				ev := s.next()
				for ; ev.Type != rdmacm.EventConnectRequest; ev = s.next() { // of the one before
				}
				t.Cleanup(func() { ok(t, ev.ID.Close()) })
				peer := newRaw(t, ev.ID)
				p := peer.param(kind)
				ok(t, ev.ID.SetAckTimeout(10)) // 4 ms: the client takes no frame before it has the reply
				ok(t, ev.ID.BringUp(peer.qp, p))
				ok(t, ev.ID.Accept(p))
				peer.reset(t)
				if !peer.sent(t) { // the client has taken too long, and hears nothing
					for s.next().ID != ev.ID {
					}
					_ = ev.ID.Disconnect()
				}
				if err := <-done; errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}
			untilNoConns(t, client)
		})
	}
}

// TestRXE_HandshakeBeats has the first stream of an engine open its shard of large blocks while the time passes. Later
// it would pass so fast that the CQ seems to have stopped.
func TestRXE_HandshakeBeats(t *testing.T) {
	testutil.NeedLogic(t)
	for range 5 {
		server, client := newEngines(t, nil)
		needSRQ(t, server)
		var beating sync.WaitGroup
		done := make(chan struct{})
		for _, e := range []*Engine{server, client} {
			beating.Go(func() {
				large := e.e.Shards[len(e.e.Shards)-1]
				for !deadline.IsClosed(done) && !large.Opened.Load() {
					e.e.Each((*link.Shard).Beat)
					time.Sleep(50 * time.Microsecond)
				}
			})
		}
		a, b := streams(t, server, client)
		ok(t, a.Close())
		ok(t, b.Close())
		close(done)
		beating.Wait()
	}
}

// stopAt is the child of TestRXE_HandshakeKilled: it takes part in a handshake up to a step, prints that, and waits to
// be killed. arg is "END STEP ADDR".
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
	ctx := context.Background()
	var err error
	switch end {
	case "dials":
		a := &attempt{kind: wire.Messages, opt: &Options{}}
		o := a.options()
		use, prepare := o.Use, o.Prepare
		o.Use = func(dev *ibv.Device, o *rdmacm.Options) error { at("Use"); return use(dev, o) }
		o.Prepare = func(c *rdmacm.Conn) error { err := prepare(c); at("Prepare"); return err }
		if step == "request" {
			go func() { // the peer's Authorize waits
				time.Sleep(100 * time.Millisecond)
				at("request")
			}()
		}
		if _, err = rdmacm.Dial(ctx, addr, o); err == nil {
			at("connection")
		}
	case "accepts":
		var l *Listener
		l, err = Listen(ctx, addr, &Options{Authorize: func(context.Context, ConnRequest) error {
			at("request")
			return nil
		}})
		if err == nil {
			fmt.Println(l.Addr())
			if step == "handshake" {
				select {} // it is not taken from Accept
			}
			_, err = l.Accept(ctx)
			at("connection")
		}
	}
	fmt.Println(err)
	return 1
}

// TestRXE_HandshakeKilled kills a process at each step of a handshake, at either end. The other end is served, or
// serves, as before.
func TestRXE_HandshakeKilled(t *testing.T) {
	needLogic(t) // rdmacm has it in the VM
	r := testutil.NeedRXE(t)
	start := func(arg string) (cmd *exec.Cmd, line func() string) {
		cmd = exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"=handshake "+arg)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		ok(t, err)
		ok(t, cmd.Start())
		lines := bufio.NewReader(out)
		return cmd, func() string {
			s, err := lines.ReadString('\n')
			if err != nil {
				t.Errorf("the child has ended: %v", err)
			}
			return strings.TrimSpace(s)
		}
	}
	kill := func(t *testing.T, cmd *exec.Cmd, line string) {
		if line != "stops" {
			t.Errorf("the child says %s", line)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for _, step := range []string{"Use", "Prepare", "request", "connection"} {
		t.Run("dials, "+step, func(t *testing.T) {
			server, client := newEngines(t, nil)
			gone := make(chan struct{})
			l, err := Listen(timeout(t), r.IP[0]+":0", &Options{Engine: server,
				Authorize: func(ctx context.Context, _ ConnRequest) error {
					if step == "request" {
						<-gone
					}
					return nil
				}})
			ok(t, err)
			stop := serveAll(l.l, untilOver)
			cmd, line := start("dials " + step + " " + l.Addr().String())
			kill(t, cmd, line())
			close(gone)
			good, err := Dial(timeout(t), l.Addr().String(), from(r, client))
			ok(t, err)
			ok(t, good.Close())
			untilNoConns(t, client)
			stop()
			ok(t, l.Close())
			untilNoConns(t, server)
		})
	}
	for _, step := range []string{"request", "handshake", "connection"} {
		t.Run("accepts, "+step, func(t *testing.T) {
			_, client := newEngines(t, nil)
			cmd, line := start("accepts " + step + " " + r.IP[0] + ":0")
			addr := line()
			dialed, done := make(chan struct{}), make(chan error)
			go func() {
				c, err := Dial(timeout(t), addr, from(r, client))
				close(dialed)
				if err == nil {
					_, err = c.Recv(timeout(t))
					_ = c.CloseNow()
				}
				done <- err
			}()
			if step == "handshake" {
				<-dialed
				kill(t, cmd, "stops")
			} else {
				kill(t, cmd, line())
			}
			if err := <-done; err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the peer of a process that was killed: %v", err)
			}
			untilNoConns(t, client)
		})
	}
}
