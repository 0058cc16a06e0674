//go:build linux && amd64 && !race

package emu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma"
)

// emuLimits returns the names of the emulator's limits, which it lists itself.
func emuLimits(t *testing.T) []string {
	t.Helper()
	out, _ := exec.Command(emulator(), "--limit", "none=1", "--", "true").CombinedOutput()
	_, list, _ := strings.Cut(strings.TrimSpace(string(out)), " is none of ")
	limits := strings.Split(list, ", ")
	if len(limits) < 20 {
		t.Fatalf("the emulator's limits: %q", out)
	}
	return limits
}

// smallValues are those of limits that have others than most. Depths of rings are those that libmlx5 can make.
var smallValues = map[string][]int{"max_srq": {0, 1, 2}, "max_srq_wr": {0, 1, 63, 127}, "max_inline": {0, 1, 43, 44},
	"max_mw": {0, 1, 2}, "max_atomic": {0, 8}, "max_sge": {1, 2, 3, 30}, "max_qp_wr": {1, 16, 32, 128},
	"max_cqe": {1, 63, 127, 1023}, "max_msg_size": {1, 1100, 2048, 4096}, "max_srq_sge": {1, 2, 3},
	"max_pd": {2, 3}} // librdmacm has one

// TestEmuLeast uses package rdma between a device with a small value of one limit, and another device. For each limit
// and several values, what is called works, or fails with an error that names what the device lacks.
func TestEmuLeast(t *testing.T) {
	testutil.NeedEmu(t)
	limits := emuLimits(t)
	for k, usual := range []int{1, 2, 16, 64} {
		if k > 1 && !testutil.Full() {
			break
		}
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			var rows []users
			flags := []string{"--strict", "--device", "mlx5_0"}
			for _, name := range limits {
				value := usual
				if v, ok := smallValues[name]; ok && k < len(v) {
					value = v[k]
				} else if ok {
					continue
				}
				rows = append(rows, users{limit: name, value: value})
				flags = append(flags, "--device", fmt.Sprintf("mlx5_%d,%s=%d", len(rows), name, value))
			}
			if !inside(t, flags...) {
				return
			}
			for i, u := range rows {
				for end, numbers := range [][2]int{{i + 1, 0}, {0, i + 1}} {
					t.Run(fmt.Sprintf("%s=%d at end %d", u.limit, u.value, end), func(t *testing.T) {
						u.t, u.end = t, end
						for k, n := range numbers {
							u.addr[k] = fmt.Sprintf("10.88.%d.1:0", n)
							var err error
							u.engines[k], err = rdma.NewEngine(fmt.Sprintf("mlx5_%d", n), nil)
							if !u.ok("NewEngine", err) {
								return
							}
							defer func() {
								if err := u.engines[k].Close(); err != nil {
									t.Errorf("Engine.Close: %v", err)
								}
							}()
						}
						u.messages()
						u.stream()
						u.leases()
						u.packets()
					})
				}
			}
		})
	}
}

// users use two engines in every way.
type users struct {
	t       *testing.T
	limit   string
	end     int // that has it: 0 dials
	value   int
	engines [2]*rdma.Engine
	addr    [2]string
}

// ok reports whether a call has worked, and checks the error of one that has not.
func (u *users) ok(what string, err error) bool {
	u.t.Helper()
	var l *ibv.LimitError
	var un *ibv.UnsupportedError
	var r *rdma.RejectError
	var p *rdma.PeerError
	switch {
	case err == nil:
		return true
	case errors.As(err, &l), errors.As(err, &un):
		u.t.Logf("%s: %v", what, err)
	case u.end == 1 && errors.As(err, &p): // a listener that learns it after its reply logs it, and ends the connection
		u.t.Logf("%s: %v", what, err)
	case errors.As(err, &r) && r.Reason == rdma.RejectedQueuePairs,
		errors.Is(err, syscall.ENOMEM) && strings.Contains(err.Error(), fmt.Sprintf("use the %d ", u.value)),
		errors.Is(err, syscall.ENOSPC) && u.limit == "max_uar":
		u.t.Logf("%s: %v", what, err)
	default:
		u.t.Errorf("%s: %v (%T), want an error that names the limit", what, err, err)
	}
	return false
}

func (u *users) context() context.Context {
	ctx, cancel := context.WithTimeout(u.t.Context(), testutil.Patience)
	u.t.Cleanup(cancel)
	return ctx
}

// options are those of one end.
func (u *users) options(end int) *rdma.Options {
	o := &rdma.Options{Engine: u.engines[end], Leases: &rdma.LeaseOptions{}}
	if end == 1 {
		return o
	}
	o.LocalAddr = netip.MustParseAddrPort(u.addr[0])
	return o
}

// conns connects the engines, unless the device lacks what that needs.
func (u *users) conns() (a, b *rdma.Conn) {
	l, err := rdma.Listen(u.context(), u.addr[1], u.options(1))
	if !u.ok("Listen", err) {
		return nil, nil
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(u.context())
	defer cancel()
	accepted := make(chan *rdma.Conn, 1)
	go func() {
		c, _ := l.Accept(ctx)
		accepted <- c
	}()
	if a, err = rdma.Dial(u.context(), l.Addr().String(), u.options(0)); !u.ok("Dial", err) {
		cancel()
		if b := <-accepted; b != nil { // the dialer has learned it after the reply
			_ = b.CloseNow()
		}
		return nil, nil
	}
	select {
	case b = <-accepted:
		return a, b
	case <-a.Done(): // the other side lacks it, and has learned that after its reply
		u.ok("Dial", a.Err())
		_ = a.CloseNow()
		return nil, nil
	}
}

// messages sends from copies and from buffers.
func (u *users) messages() {
	a, b := u.conns()
	if a == nil {
		return
	}
	defer u.close(a, b)
	for _, n := range []int{0, 1, 100, 5000, 100_000} {
		p := bytes.Repeat([]byte{byte(n)}, n)
		send := map[string]func() error{
			"Send":    func() error { return a.Send(u.context(), p) },
			"SendImm": func() error { return a.SendImm(u.context(), 7, p) },
			"SendBuffer": func() error {
				h, err := a.Engine().Pool().Get(max(n, 1))
				if err != nil {
					return err
				}
				h.Truncate(copy(h.Bytes(), p))
				return a.SendBuffer(u.context(), h)
			},
			"SendBuffer of registered memory": func() error {
				h, err := a.Engine().Pool().Register(append(p, 0)[:max(n, 1)])
				if err != nil {
					return err
				}
				h.Truncate(n)
				return a.SendBuffer(u.context(), h)
			},
		}
		for name, f := range send {
			ctx, cancel := context.WithCancel(u.context())
			sent := make(chan error, 1)
			go func() {
				err := f()
				if err != nil {
					cancel()
				}
				sent <- err
			}()
			m, err := b.Recv(ctx)
			if !u.ok(name, <-sent) {
				continue
			}
			cancel()
			if err != nil || !bytes.Equal(m.Bytes(), p) {
				u.t.Fatalf("%s of %d bytes: %v", name, n, err)
			}
			m.Release()
			if err := a.Flush(u.context()); err != nil {
				u.t.Errorf("%s of %d bytes: Flush: %v", name, n, err)
			}
		}
	}
}

func (u *users) close(list ...*rdma.Conn) {
	for _, c := range list {
		if err := c.Close(); err != nil {
			u.t.Errorf("Close: %v", err)
		}
	}
}

// stream copies 1 MiB.
func (u *users) stream() {
	l, err := rdma.ListenStream(u.context(), u.addr[1], &rdma.Options{Engine: u.engines[1]})
	if !u.ok("ListenStream", err) {
		return
	}
	defer l.Close()
	const n = 1 << 20
	got := make(chan int64, 1)
	go func() {
		var sum int64
		if s, err := l.Accept(); err == nil {
			sum, _ = io.Copy(io.Discard, s)
			_ = s.Close()
		}
		got <- sum
	}()
	s, err := rdma.DialStream(u.context(), l.Addr().String(),
		&rdma.Options{Engine: u.engines[0], LocalAddr: netip.MustParseAddrPort(u.addr[0])})
	if !u.ok("DialStream", err) {
		_ = l.Close()
		<-got
		return
	}
	_, err = s.Write(make([]byte, n))
	if !u.ok("a stream", errors.Join(err, s.Close())) {
		_ = l.Close()
		<-got
		return
	}
	if sum := <-got; sum != n {
		u.t.Errorf("%d bytes of a stream of %d", sum, n)
	}
}

// leases reads, writes and adds.
func (u *users) leases() {
	a, b := u.conns()
	if a == nil {
		return
	}
	defer u.close(a, b)
	mem, err := a.Engine().Pool().Get(8192)
	if !u.ok("Get", err) {
		return
	}
	defer mem.Release()
	local, err := b.Engine().Pool().Get(8192)
	if !u.ok("Get", err) {
		return
	}
	defer local.Release()
	for _, access := range []rdma.Access{rdma.MayRead | rdma.MayWrite, rdma.MayAtomic} {
		s, err := a.Lend(u.context(), mem, access, time.Minute)
		if !u.ok("Lend "+access.String(), err) {
			continue
		}
		r, err := b.Borrow(u.context())
		if err != nil {
			u.t.Fatalf("Borrow: %v", err)
		}
		if access == rdma.MayAtomic {
			_, err = r.FetchAdd(u.context(), 8, 1)
			u.ok("FetchAdd", err)
		} else {
			u.ok("Read", r.Read(u.context(), local, 0))
			u.ok("Write", r.Write(u.context(), local, 0))
		}
		if err := r.Return(u.context()); err != nil {
			u.t.Errorf("Return: %v", err)
		}
		if _, err := s.Wait(u.context()); err != nil {
			u.t.Errorf("the end of a lease: %v", err)
		}
	}
}

// packets sends a datagram.
func (u *users) packets() {
	var c [2]*rdma.PacketConn
	for i := range c {
		var err error
		c[i], err = rdma.ListenPacket(u.context(), u.addr[i], &rdma.Options{Engine: u.engines[i]})
		if !u.ok("ListenPacket", err) {
			return
		}
		defer c[i].Close()
	}
	if _, err := c[0].WriteTo([]byte("hello"), c[1].LocalAddr()); !u.ok("WriteTo", err) {
		return
	}
	p := make([]byte, 8)
	_ = c[1].SetReadDeadline(time.Now().Add(testutil.Patience))
	if n, from, err := c[1].ReadFrom(p); err != nil || string(p[:n]) != "hello" ||
		from.String() != c[0].LocalAddr().String() {
		u.t.Errorf("a datagram: %q from %v, %v", p[:n], from, err)
	}
}
