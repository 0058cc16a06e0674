package rdma

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_LeaseFaults injects faults at either end while memory of the peer is written and read. Either all of it is
// right, or both ends end with an error, and so do the lease and the operations.
func TestRXE_LeaseFaults(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("injects faults: runs on the emulated device only (make test-emu)")
	}
	for i, f := range []struct {
		spec string
		want outcome
		long bool
	}{
		{"remote-access:count=1", breaks, false}, {"flush:count=1", breaks, false}, {"qp-fatal:count=1", breaks, false},
		{"retry-exceeded:count=1", breaks, true}, {"cqe-delayed:us=2000,count=5", survives, false},
		{"rnr:count=3", survives, true}, {"wrong-owner:count=1", breaks, true}, {"cq-error:count=1", breaks, true},
		{"doorbell-lost:count=1", survives, true},
	} {
		for end := range 2 {
			if f.long && !testutil.Full() {
				continue
			}
			t.Run(fmt.Sprintf("%s at %s", f.spec, r.Dev[end]), func(t *testing.T) {
				keys := KeysMR + LeaseKeys(end^i&1)
				server, client := keyEngines(t, EngineOptions{Memory: 8 << 20}, keys, keys)
				a, b := leaseConnsAlive(t, server, client, &LeaseOptions{}, &LeaseOptions{}, time.Second)
				defer a.Close()
				defer b.Close()
				ctx := timeout(t)
				mem, local := buffer(t, client, 64<<10), buffer(t, server, 64<<10)
				s, region := lend(t, a, b, mem, everything(client), 0)
				r.Fault(t, fmt.Sprintf("%s,device=%s", f.spec, r.Dev[end]))
				var err error
				for n := 0; n < 300 && err == nil; n++ {
					want := scramble(local, uint64(n))
					if err = region.Write(ctx, local, 0); err != nil {
						break
					}
					if !bytes.Equal(mem.Bytes(), want) {
						t.Fatalf("write %d has not arrived", n)
					}
					clear(local.Bytes())
					if err = region.Read(ctx, local, 0); err == nil && !bytes.Equal(local.Bytes(), want) {
						t.Fatalf("read %d is not what was written", n)
					}
					if err == nil {
						err = a.Send(ctx, nil) // both devices work
					}
					if err == nil {
						var m *Message
						if m, err = b.Recv(ctx); err == nil {
							m.Release()
						}
					}
				}
				if f.want == survives && err != nil || f.want == breaks && err == nil {
					t.Errorf("the end: %v", err)
				}
				if err == nil {
					ok(t, region.Return(ctx))
				} else {
					<-a.Done()
					<-b.Done()
				}
				got, err2 := s.Wait(ctx)
				if got != mem || (err2 == nil) != (err == nil) {
					t.Errorf("Wait: %v", err2)
				}
			})
		}
	}
}

// TestRXE_LeaseKilled kills the process of a peer that writes to this side's memory.
func TestRXE_LeaseKilled(t *testing.T) {
	testutil.NeedLogic(t)
	eachKeys(t, leaseKilled)
}

func leaseKilled(t *testing.T, keys LeaseKeys) {
	r := testutil.NeedRXE(t)
	server, _ := keyEngines(t, EngineOptions{}, keys, keys)
	l, err := Listen(timeout(t), r.IP[0]+":0", &Options{Engine: server, Leases: &LeaseOptions{}})
	ok(t, err)
	defer l.Close()
	rounds := 1
	if testutil.Full() {
		rounds = 50
	}
	mem := buffer(t, server, 1<<20)
	for range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"=borrow "+l.Addr().String())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		ok(t, err)
		ok(t, cmd.Start())
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		c, err := l.Accept(timeout(t))
		ok(t, err)
		defer c.Close()
		clear(mem.Bytes())
		s, err := c.Lend(timeout(t), mem, MayWrite, 0)
		ok(t, err)
		line, err := bufio.NewReader(out).ReadString('\n')
		ok(t, err)
		if strings.TrimSpace(line) != "writing" {
			t.Fatalf("the writer says %q", line)
		}
		ok(t, cmd.Process.Kill())
		if got, err := s.Wait(timeout(t)); got != mem || !errors.Is(err, ErrPeerGone) {
			t.Errorf("Wait: %v", err)
		}
		was := bytes.Clone(mem.Bytes())
		_ = cmd.Wait()
		if !bytes.Equal(was, mem.Bytes()) {
			t.Error("the memory has changed")
		}
	}
}

// borrower is the process of TestRXE_LeaseKilled: it writes to what it borrows until it is killed.
func borrower(addr string) int {
	fail := func(err error) int {
		fmt.Println(err)
		return 1
	}
	ctx := context.Background()
	c, err := Dial(ctx, addr, &Options{Leases: &LeaseOptions{}})
	if err != nil {
		return fail(err)
	}
	r, err := c.Borrow(ctx)
	if err != nil {
		return fail(err)
	}
	b, err := c.Engine().Pool().Get(int(r.Len()))
	if err != nil {
		return fail(err)
	}
	for n := 0; ; n++ {
		b.Bytes()[n%c.l.Shard.Options.Block]++
		if err := r.Write(ctx, b, 0); err != nil {
			return fail(err)
		}
		if n == 3 {
			fmt.Println("writing")
		}
	}
}

// TestRXE_LeaseStuck has a device that does not take the memory of a lease back: the connection ends, and Revoke
// returns when nothing can arrive through it any more.
func TestRXE_LeaseStuck(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("injects faults: runs on the emulated device only (make test-emu)")
	}
	for _, c := range []struct {
		keys   LeaseKeys
		faults []string
	}{
		{KeysMR, []string{"eio:cmd=dereg_mr,count=1"}},
		{KeysWindow, []string{"mw-bind:count=1,opcode=UMR"}},
		{KeysWindow, []string{"mw-bind:count=1,opcode=UMR", "eio:cmd=dealloc_mw,count=1"}},
	} {
		if c.keys == KeysWindow && !hasWindows(t) {
			continue
		}
		t.Run(fmt.Sprint(c.keys, c.faults), func(t *testing.T) {
			server, client := keyEngines(t, EngineOptions{Memory: 8 << 20}, c.keys, c.keys)
			a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
			defer a.Close()
			defer b.Close()
			ctx := timeout(t)
			mem, local := buffer(t, client, 64<<10), buffer(t, server, 64<<10)
			s, region := lend(t, a, b, mem, MayWrite, 0)
			ok(t, region.Write(ctx, local, 0))
			for _, f := range c.faults {
				r.Fault(t, f+",device="+r.Dev[1])
			}
			ok(t, s.Revoke(ctx))
			<-a.Done()
			if _, err := s.Wait(ctx); !errors.Is(err, ErrRevoked) {
				t.Errorf("Wait: %v", err)
			}
			var wc *ibv.WCError
			err := a.Err()
			if is := errors.Is(err, errHangs) || errors.As(err, &wc) && c.keys == KeysWindow; !is ||
				!errors.Is(err, ErrPeerGone) {
				t.Errorf("the connection's end: %v", err)
			}
		})
	}
}
