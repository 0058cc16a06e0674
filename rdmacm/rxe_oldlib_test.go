package rdmacm

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/fakeverbs"
	"github.com/pureverbs/pureverbs/loader"
)

// before23 takes away what librdmacm had not before v23, until the end of the test.
func before23(t *testing.T) {
	t.Helper()
	t.Cleanup(bind.Hide("v23", "rdma_init_qp_attr", "rdma_establish"))
}

// TestRXE_CM_Before23 connects where librdmacm lacks what QPs of package ibv need.
func TestRXE_CM_Before23(t *testing.T) {
	const env = "PUREVERBS_TEST_OLDEVENTS"
	before23(t)
	if os.Getenv(env) == "" {
		// The releases before v23 also make other events of the reply to a request to connect: two kinds.
		for release, before := range map[string]string{"v20": "21", "v22": "23"} {
			t.Run("events of "+release, func(t *testing.T) {
				lib := oldEvents(t, before)
				c := exec.Command(must(os.Executable())(t), "-test.run=^TestRXE_CM_Before23$", "-test.v",
					"-test.count=1")
				c.Env = append(os.Environ(), env+"=1", loader.PathEnv+"="+lib)
				if out, err := c.CombinedOutput(); err != nil ||
					!strings.Contains(string(out), "--- PASS: TestRXE_CM_Before23 ") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	} else if file := rdmacmFile(); file != os.Getenv(loader.PathEnv) {
		t.Fatalf("loaded %s", file)
	}
	t.Run("streams", func(t *testing.T) {
		var mr *ibv.MR
		posted := &Options{PrivateData: []byte("from the server"), Prepare: func(c *Conn) (err error) {
			if mr, err = c.PD().AllocMR(64, ibv.LocalWrite, nil); err != nil {
				return err
			}
			c.OnClose(mr.Close)
			_, err = c.QP().PostRecv([]ibv.RecvWR{{ID: 5, SGEs: []ibv.SGE{mr.SGE(0, 64)}}})
			return err
		}}
		l := server(t, posted)
		a, b := pair(t, l, &Options{PrivateData: []byte("from the client")})
		if got := string(a.PrivateData()[:15]); got != "from the server" {
			t.Errorf("the client has private data %q", got)
		}
		if got := string(b.PrivateData()[:15]); got != "from the client" {
			t.Errorf("the server has private data %q", got)
		}
		if a.Param().QPN != b.QP().Num() || b.Param().QPN != a.QP().Num() {
			t.Errorf("the peers' QPs are %#x and %#x", a.Param().QPN, b.Param().QPN)
		}
		ra, rb := rigOf(t, a), rigOf(t, b)
		must(ra.qp.PostSend([]ibv.SendWR{{ID: 2, Opcode: ibv.OpSend, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{ra.mr.SGE(0, 19)}}}))(t)
		ra.one(t)
		if wc := rb.one(t); wc.ID != 5 {
			t.Errorf("completion %d, want that of Prepare", wc.ID)
		}
		pingpong(t, ra, rb)
		for _, c := range []*Conn{a, b} {
			attr, err := c.QP().Query(ibv.MaskMinRNRTimer)
			ok(t, err)
			if attr.MinRNRTimer != minRNRTimer {
				t.Errorf("the RNR timer is %d", attr.MinRNRTimer)
			}
		}
		ok(t, b.Shutdown(timeout(t)))
		select {
		case <-a.Done():
		case <-timeout(t).Done():
			t.Fatal("the dialer has no events after its reply")
		}
		for _, c := range []*Conn{a, b} {
			if !errors.Is(c.Err(), ErrDisconnected) {
				t.Errorf("it ended with %v", c.Err())
			}
		}
	})
	t.Run("datagrams", func(t *testing.T) {
		l := server(t, &Options{PortSpace: PortSpaceUDP})
		a, b := pair(t, l, &Options{PortSpace: PortSpaceUDP})
		_, qpn, qkey := a.Peer()
		if qpn != b.QP().Num() || qkey != UDPQKey || a.QP().State() != ibv.StateRTS || b.QP().State() != ibv.StateRTS {
			t.Errorf("the peer is %#x with %#x, the QPs are %v and %v", qpn, qkey, a.QP().State(), b.QP().State())
		}
	})
	t.Run("withdrawn", func(t *testing.T) {
		// Requests that were given up are passed over.
		l := server(t, nil)
		ctx, cancel := context.WithCancel(timeout(t))
		_, err := Dial(ctx, l.Addr().String(),
			&Options{Prepare: func(*Conn) error { time.AfterFunc(50*time.Millisecond, cancel); return nil }})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("dial: %v", err)
		}
		a, b := pair(t, l, nil)
		pingpong(t, rigOf(t, a), rigOf(t, b))
	})
	t.Run("PD of librdmacm's", func(t *testing.T) {
		id := newIDOn(t, newChannel(t), PortSpaceTCP)
		ok(t, id.Bind(local(t)))
		opt := &Options{PD: closing(t, must(must(id.Verbs())(t).AllocPD())(t))}
		a, b := pair(t, server(t, opt), opt)
		pingpong(t, rigOf(t, a), rigOf(t, b))
	})
	t.Run("PD of ibv.Open, access", func(t *testing.T) {
		pd := func(i int) *ibv.PD {
			dev := closing(t, must(ibv.Open(testutil.NeedRXE(t).Dev[i]))(t))
			return closing(t, must(dev.AllocPD())(t))
		}
		opt := &Options{PD: pd(0), Access: ibv.AccessNone, OwnRNRRetryCount: 5}
		a, b := pair(t, server(t, opt), opt)
		pingpong(t, rigOf(t, a), rigOf(t, b))
		for _, c := range []*Conn{a, b} {
			attr, err := c.QP().Query(ibv.MaskAccessFlags | ibv.MaskRNRRetry)
			ok(t, err)
			if attr.Access&(ibv.RemoteWrite|ibv.RemoteRead) != 0 || attr.RNRRetry != 5 {
				t.Errorf("access %v, %d RNR retries", attr.Access, attr.RNRRetry)
			}
		}
	})
}

// oldEvents makes a librdmacm with the events of releases before the one given, of the file that this process loaded.
func oldEvents(t *testing.T, before string) (lib string) {
	if !testutil.NeedRXE(t).Emulated {
		t.Skip("runs on the emulated device only")
	}
	if r := testutil.Libraries(); r != "" {
		t.Skip("skipped: the root of", r, "has no C compiler")
	}
	real := must(filepath.Abs(rdmacmFile()))(t)
	lib = filepath.Join(t.TempDir(), string(loader.RDMACM))
	if err := fakeverbs.BuildOver(lib, "testdata/oldevents/oldevents.c", real, "BEFORE="+before); errors.Is(err,
		fakeverbs.ErrNoCompiler) {
		t.Skip("SKIPPED, ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return lib
}

// rdmacmFile returns the librdmacm that this process loaded.
func rdmacmFile() string {
	for _, l := range loader.Report().Libraries {
		if l.Name == loader.RDMACM {
			return l.Path
		}
	}
	return ""
}

// TestRXE_CM_Access lets the peer of a connection do what Options.Access says.
func TestRXE_CM_Access(t *testing.T) {
	const remote = ibv.RemoteWrite | ibv.RemoteRead | ibv.RemoteAtomic
	for _, c := range []struct {
		name        string
		opt         Options
		want, never ibv.AccessFlags
	}{
		{"default", Options{}, remote, 0},
		{"none", Options{Access: ibv.AccessNone}, 0, remote},
		{"writes", Options{Access: ibv.LocalWrite | ibv.RemoteWrite}, ibv.RemoteWrite,
			ibv.RemoteRead | ibv.RemoteAtomic},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := server(t, &c.opt)
			a, b := pair(t, l, &c.opt)
			for _, x := range []*Conn{a, b} {
				attr, err := x.QP().Query(ibv.MaskAccessFlags)
				ok(t, err)
				if attr.Access&remote != c.want || attr.Access&c.never != 0 {
					t.Errorf("the QP lets the peer %v, want %v", attr.Access, c.want)
				}
			}
			pingpong(t, rigOf(t, a), rigOf(t, b))
			if c.want == 0 {
				ra, rb := rigOf(t, a), rigOf(t, b)
				must(ra.qp.PostSend([]ibv.SendWR{{ID: 3, Opcode: ibv.OpWrite, Flags: ibv.Signaled,
					SGEs: []ibv.SGE{ra.mr.SGE(0, 8)}, Remote: rb.mr.Remote().At(0)}}))(t)
				var wc [1]ibv.WC
				must(ra.cq.Wait(timeout(t), wc[:]))(t)
				if wc[0].Status == ibv.WCSuccess {
					t.Error("the peer wrote what it may not")
				}
			}
		})
	}
}

// TestRXE_CM_None asks for none of what has other defaults, and for more than there is.
func TestRXE_CM_None(t *testing.T) {
	l := server(t, nil)
	none := &Options{ResponderResources: ibv.None, InitiatorDepth: ibv.None, RetryCount: ibv.None,
		RNRRetryCount: ibv.None, AckTimeout: ibv.None}
	a, b := pair(t, l, none)
	if p := b.Param(); p.ResponderResources != 0 || p.InitiatorDepth != 0 || p.RetryCount != 0 || p.RNRRetryCount != 0 {
		t.Errorf("the peer asked for %+v", p)
	}
	attr, err := a.QP().Query(ibv.MaskMaxQPRdAtomic | ibv.MaskMaxDestRdAtomic | ibv.MaskTimeout)
	ok(t, err)
	if attr.MaxRdAtomic > 1 || attr.MaxDestRdAtomic > 1 || attr.Timeout != 0 { // rxe makes 1 of 0
		t.Errorf("the QP has %d and %d reads, ack timeout %d", attr.MaxRdAtomic, attr.MaxDestRdAtomic, attr.Timeout)
	}
	for what, o := range map[string]*Options{"ResponderResources": {ResponderResources: 254},
		"InitiatorDepth": {InitiatorDepth: 254}} {
		_, err := Dial(timeout(t), l.Addr().String(), o)
		var limit *ibv.LimitError
		if !errors.As(err, &limit) || limit.What != what || limit.Asked != 254 {
			t.Errorf("dial with 254 %s: %v", what, err)
		}
	}
}

// TestRXE_CM_LongTimeouts dials with the longest time that there is.
func TestRXE_CM_LongTimeouts(t *testing.T) {
	l := server(t, &Options{Timeout: math.MaxInt64})
	pair(t, l, &Options{Timeout: math.MaxInt64})
	ch := newChannel(t)
	id := newIDOn(t, ch, PortSpaceTCP)
	ok(t, id.ResolveAddr(netip.AddrPort{}, l.Addr(), math.MaxInt64))
	event(t, ch, EventAddrResolved)
	var arg *ibv.ArgError
	if err := id.ResolveRoute(0); !errors.As(err, &arg) {
		t.Errorf("no time for a route: %v", err)
	}
	ok(t, id.ResolveRoute(math.MaxInt64))
	event(t, ch, EventRouteResolved)
	raw := make([]byte, 200)
	raw[0] = 2
	if _, err := CreateEP(timeout(t), &AddrInfo{PortSpace: PortSpaceTCP, RawDst: raw}); !errors.As(err, &arg) {
		t.Errorf("an address of 200 bytes: %v", err)
	}
}
