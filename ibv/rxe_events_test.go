package ibv

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/emu/emutest"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_WaitSleeps waits on the channel, without spinning, for completions
// that come later, with several CQs on one channel.
func TestRXE_WaitSleeps(t *testing.T) {
	a, b := newPair(t, nil, nil)
	ch := closing(t, must(b.dev.CreateCompChannel())(t))
	rxe := testutil.NeedRXE(t)
	var cqs [3]*CQ
	var qps [3]*QP
	for i := range cqs {
		cqs[i] = closing(t, must(b.dev.CreateCQ(64, &CQOptions{Channel: ch, Spin: None}))(t))
		qps[i] = closing(t, must(b.pd.CreateQP(cqs[i], cqs[i], nil))(t))
	}
	if err := ch.Close(); err == nil {
		t.Error("a channel in use was closed")
	}
	var senders [3]*QP
	for i := range qps {
		senders[i] = closing(t, must(a.pd.CreateQP(a.cq, a.cq, nil))(t))
		ea := must(senders[i].Endpoint(rxe.Port, rxe.GID))(t)
		eb := must(qps[i].Endpoint(rxe.Port, rxe.GID))(t)
		ok(t, senders[i].Connect(eb, nil))
		ok(t, qps[i].Connect(ea, nil))
	}
	const rounds = 20
	var wg sync.WaitGroup
	for i := range qps {
		for r := range rounds {
			recv(t, qps[i], RecvWR{ID: uint64(r), SGEs: []SGE{b.mr.SGE(i*100, 100)}})
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			var wcs [4]WC
			for got := 0; got < rounds; {
				n, err := cqs[i].Wait(timeout(t), wcs[:])
				if err != nil {
					t.Errorf("cq %d after %d: %v", i, got, err)
					return
				}
				for _, wc := range wcs[:n] {
					if wc.Err() != nil || wc.ID != uint64(got) {
						t.Errorf("cq %d: %+v, want %d", i, wc, got)
					}
					got++
				}
			}
		}()
	}
	for r := range rounds {
		for i := range senders {
			post(t, senders[i], SendWR{ID: uint64(r), Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}})
			a.good(t, uint64(r))
		}
		time.Sleep(time.Millisecond) // let the receivers fall asleep
	}
	wg.Wait()
}

// TestRXE_ManyWaiters has more goroutines wait for one CQ than an event wakes.
func TestRXE_ManyWaiters(t *testing.T) {
	a, b := newPair(t, &QPOptions{MaxRecvWR: 128, MaxSendWR: 128}, nil)
	cq := b.cq
	const waiters, each = 8, 10
	for i := range waiters * each {
		recv(t, b.qp, RecvWR{ID: uint64(i), SGEs: []SGE{b.mr.SGE(0, 8)}})
	}
	seen := make(chan uint64, waiters*each)
	var wg sync.WaitGroup
	ctx := timeout(t)
	for range waiters {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var wc [1]WC
			for range each {
				if _, err := cq.Wait(ctx, wc[:]); err != nil {
					t.Error(err)
					return
				}
				seen <- wc[0].ID
			}
		}()
	}
	for i := range waiters * each {
		post(t, a.qp, SendWR{ID: uint64(i), Opcode: OpSend, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}})
		a.good(t, uint64(i))
	}
	wg.Wait()
	close(seen)
	got := make(map[uint64]bool)
	for id := range seen {
		if got[id] {
			t.Errorf("completion %d came twice", id)
		}
		got[id] = true
	}
	if len(got) != waiters*each {
		t.Errorf("%d completions, want %d", len(got), waiters*each)
	}
}

func TestRXE_WaitEnds(t *testing.T) {
	s := newSide(t, 0, nil)
	var wc [1]WC
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.cq.Wait(ctx, wc[:]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait with a deadline: %v", err)
	}
	for _, opt := range []*CQOptions{nil, {Spin: None}, {NoEvents: true}} {
		cq := must(s.dev.CreateCQ(16, opt))(t)
		errs := make(chan error)
		for range 4 {
			go func() {
				_, err := cq.Wait(context.Background(), make([]WC, 1))
				errs <- err
			}()
			go func() {
				for {
					if _, err := cq.Poll(make([]WC, 1)); err != nil {
						errs <- err
						return
					}
				}
			}()
		}
		time.Sleep(20 * time.Millisecond)
		ok(t, cq.Close())
		for range 8 {
			select {
			case err := <-errs:
				if !errors.Is(err, ErrClosed) {
					t.Errorf("close under wait and poll: %v", err)
				}
			case <-time.After(testutil.Patience):
				t.Fatal("a call did not notice that the CQ was closed")
			}
		}
	}
}

func TestRXE_Completions(t *testing.T) {
	a, b := newPair(t, nil, nil)
	for i := range 10 {
		recv(t, b.qp, RecvWR{ID: uint64(i), SGEs: []SGE{b.mr.SGE(0, 8)}})
		post(t, a.qp, SendWR{ID: uint64(i), Opcode: OpSend, SGEs: []SGE{a.mr.SGE(0, 8)}})
	}
	want := uint64(0)
	for range 2 { // leaving the loop loses nothing
		for wc, err := range b.cq.Completions(timeout(t)) {
			ok(t, err)
			if wc.ID != want {
				t.Fatalf("completion of %d, want %d", wc.ID, want)
			}
			if want++; want == 5 || want == 10 {
				break
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range b.cq.Completions(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after cancel: %v", err)
		}
	}
}

// command runs a real program; busybox applets would shadow ip.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

// waitEvent waits until an event of one of the types comes.
func waitEvent(t *testing.T, d *Device, types ...AsyncEventType) AsyncEvent {
	t.Helper()
	ctx := timeout(t)
	for {
		ev, err := d.AsyncEvent(ctx)
		if err != nil {
			t.Fatalf("waiting for %v: %v", types, err)
		}
		t.Log(ev)
		if ev.Type.Explain() == "" {
			t.Errorf("%v has no explanation", ev.Type)
		}
		for _, want := range types {
			if ev.Type == want {
				return ev
			}
		}
	}
}

func TestRXE_AsyncEvents(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	d := closing(t, must(Open(rxe.Dev[1]))(t))

	rxe.SetLink(t, 1, false)
	down := waitEvent(t, d, EventPortErr)
	if down.Port != rxe.Port {
		t.Errorf("port %d went down, want %d", down.Port, rxe.Port)
	}
	rxe.SetLink(t, 1, true)
	waitEvent(t, d, EventPortActive)

	rxe.ChangeGIDs(t, 1, true)
	waitEvent(t, d, EventGIDChange)
	rxe.ChangeGIDs(t, 1, false)
	waitEvent(t, d, EventGIDChange)
	restoreNet(t, rxe)

	// A reader without an event ends with its context, and with Close.
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for {
		_, err := d.AsyncEvent(ctx)
		if err == nil {
			continue // a late event of the changes above
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("async event with a deadline: %v", err)
		}
		break
	}
	other := must(Open(rxe.Dev[0]))(t)
	errs := make(chan error)
	for range 3 {
		go func() { _, err := other.AsyncEvent(context.Background()); errs <- err }()
	}
	time.Sleep(20 * time.Millisecond)
	ok(t, other.Close())
	for range 3 {
		select {
		case err := <-errs:
			if !errors.Is(err, ErrClosed) {
				t.Errorf("async event across Close: %v", err)
			}
		case <-time.After(testutil.Patience):
			t.Fatal("AsyncEvent did not notice Close")
		}
	}
}

// restoreNet waits until link down and up left the routes, the GID and the port
// as they were: taking a link down loses its routes.
func restoreNet(t *testing.T, rxe testutil.RXE) {
	t.Helper()
	if path, err := exec.LookPath("vm-routes"); err == nil {
		command(t, path)
	}
	want := GIDFromIP(t, rxe.IP[1])
	for deadline := time.Now().Add(testutil.Patience); ; time.Sleep(50 * time.Millisecond) {
		d := must(Open(rxe.Dev[1]))(t)
		g, gerr := d.QueryGID(rxe.Port, rxe.GIDs[1])
		p, perr := d.QueryPort(rxe.Port)
		ok(t, d.Close())
		if gerr == nil && perr == nil && g == want && p.State == PortActive {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come back: GID %v (%v), port %+v (%v)", rxe.Dev[1], g, gerr, p, perr)
		}
	}
}

// GIDFromIP is the GID of an IPv4 address.
func GIDFromIP(t *testing.T, ip string) GID {
	t.Helper()
	return GID(net.ParseIP(ip).To16())
}

// TestRXE_QPEvents sees an event that is about a QP: the peer accesses memory
// that it may not.
func TestRXE_QPEvents(t *testing.T) {
	a, b := newPair(t, nil, nil)
	bad := b.mr.Remote().At(0)
	bad.RKey ^= 0xff
	post(t, a.qp, SendWR{ID: 1, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}, Remote: bad})
	wc := a.next(t)
	if wc.Status != WCRemAccessErr {
		t.Errorf("status %v, want %v", wc.Status, WCRemAccessErr)
	}
	err := wc.Err()
	var werr *WCError
	if !errors.As(err, &werr) || !errors.Is(err, WCRemAccessErr.Err()) {
		t.Errorf("error %#v does not say %v", err, WCRemAccessErr)
	}
	t.Log(err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if ev, err := b.dev.AsyncEvent(ctx); err == nil {
		if ev.QP != b.qp {
			t.Errorf("%v is not about the QP", ev)
		}
		t.Log(ev)
	} else {
		t.Logf("rxe raises no event for it: %v", err)
	}
	// The failed QP flushes what is posted to it.
	if _, err := a.qp.PostSend([]SendWR{{ID: 2, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)},
		Remote: b.mr.Remote().At(0)}}); err != nil {
		t.Logf("post to a failed QP: %v", err)
		return
	}
	if wc := a.next(t); wc.ID != 2 || wc.Status != WCWRFlushErr {
		t.Errorf("%+v, want a flush of 2", wc)
	}
}

func tcTool(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"/bin/tc", "/sbin/tc", "/usr/sbin/tc", "/usr/bin/tc"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	t.Fatal("no tc tool")
	return ""
}

// netemDrops reads how many packets the queueing discipline of dev dropped.
func netemDrops(t *testing.T, tc, dev string) int {
	t.Helper()
	out, err := exec.Command(tc, "-s", "qdisc", "show", "dev", dev).CombinedOutput()
	ok(t, err)
	_, rest, found := strings.Cut(string(out), "(dropped ")
	if !found || !strings.Contains(string(out), "netem") {
		t.Fatalf("no netem on %s: %s", dev, out)
	}
	n := 0
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// TestRXE_Overrun gives a goroutine that waits all that an overrun CQ has, and then the error of CQ_ERR, which
// ibv_get_async_event(3) has. In the emulated device, which takes an overrun for a mistake, the CQ breaks by injection.
func TestRXE_Overrun(t *testing.T) {
	a, b := newPair(t, &QPOptions{MaxSendWR: 200}, nil)
	rxe := testutil.NeedRXE(t)
	cq := closing(t, must(a.dev.CreateCQ(16, nil))(t))
	qp := closing(t, must(a.pd.CreateQP(cq, a.cq, &QPOptions{MaxSendWR: 200}))(t))
	ok(t, b.qp.Modify(&QPAttr{}, MaskState))
	eb, ea := must(b.qp.Endpoint(rxe.Port, rxe.GID))(t), must(qp.Endpoint(rxe.Port, rxe.GID))(t)
	ok(t, qp.Connect(eb, nil))
	ok(t, b.qp.Connect(ea, nil))
	least, most := uint64(cq.Cap().CQE), uint64(99) // SoftRoCE goes on when there is room again
	if rxe.Emulated {
		e := emutest.Need(t)
		id := must(e.Inject("cq-error:after=10,count=1,device=" + rxe.Dev[0]))(t)
		defer func() { ok(t, e.ClearFault(id)) }()
		least, most = 10, 10
	}
	batch := qp.Batch()
	for i := range uint64(100) {
		batch.Write(i, Signaled, a.mr.SGE(0, 8), b.mr.Remote().At(0))
	}
	ok(t, batch.Post())
	ev := must(a.dev.AsyncEvent(timeout(t)))(t)
	if ev.Type != EventCQErr || ev.CQ != cq {
		t.Fatalf("event %v", ev)
	}
	n, next := uint64(0), uint64(0)
	for wc, err := range cq.Completions(timeout(t)) {
		if err != nil {
			var ee *EventError
			if !errors.As(err, &ee) || ee.Event != EventCQErr || ee.Object != cq.String() {
				t.Errorf("after %d completions: %v", n, err)
			}
			break
		}
		if wc.ID != next && (rxe.Emulated || wc.ID < next) {
			t.Errorf("completion of %d, want %d", wc.ID, next)
		}
		n, next = n+1, wc.ID+1
	}
	if n < least || n > most {
		t.Errorf("%d completions, want %d to %d", n, least, most)
	}
	if k, err := cq.Poll(make([]WC, 1)); rxe.Emulated && k != 0 || err != nil {
		t.Errorf("a completion was left behind: %d, %v", k, err)
	}
}
