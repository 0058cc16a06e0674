package mlx5dv

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/loader"
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func closing[T interface{ Close() error }](t testing.TB, v T) T {
	t.Helper()
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return v
}

// open opens device i. On SoftRoCE, where nothing of this package works, it looks at
// the refusals and returns nil.
func open(t testing.TB, i int) *ibv.Device {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	dev := closing(t, must(ibv.Open(rxe.Dev[i]))(t))
	if rxe.Emulated || rxe.Hardware {
		return dev
	}
	if yes, err := IsSupported(dev); yes || err != nil && !errors.Is(err, loader.ErrLibrary) {
		t.Errorf("IsSupported: %v, %v", yes, err)
	}
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(4, nil))(t))
	qp := closing(t, must(pd.CreateQP(cq, cq, nil))(t))
	for name, f := range map[string]func() error{
		"QueryDevice": func() error { _, err := QueryDevice(dev); return err },
		"ReadClock":   func() error { _, err := ReadClock(dev); return err },
		"CreateCQ":    func() error { _, err := CreateCQ(dev, 4, nil); return err },
		"CreateQP":    func() error { _, err := CreateQP(pd, cq, cq, nil); return err },
		"CreateWQ":    func() error { _, err := CreateWQ(pd, cq, nil); return err },
		"CreateQP of a DCI": func() error {
			_, err := CreateQP(pd, cq, nil, &QPOptions{QPOptions: ibv.QPOptions{Type: ibv.DCI}})
			return err
		},
		"DevXCommand": func() error { return DevXCommand(dev, make([]byte, 16), make([]byte, 16)) },
		"CreateDevXObject": func() error {
			_, err := CreateDevXObject(dev, make([]byte, 16), make([]byte, 16))
			return err
		},
		"CreateDevXQueries": func() error { _, err := CreateDevXQueries(dev); return err },
		"DevXQuery":         func() error { return DevXQuery(qp, make([]byte, 16), make([]byte, 16)) },
		"RegUmem":           func() error { _, err := RegUmem(dev, make([]byte, 16), nil); return err },
		"AllocUAR":          func() error { _, err := AllocUAR(dev, UARBlueFlame); return err },
		"ModifyUDPPort":     func() error { return ModifyUDPPort(qp, 0xd000) },
		"ReserveQPN":        func() error { _, err := ReserveQPN(dev); return err },
		"ViewCQ":            func() error { _, err := ViewCQ(cq); return err },
		"ViewQP":            func() error { _, err := ViewQP(qp); return err },
		"DataPathRaw": func() error {
			_, err := dev.CreateCQ(4, &ibv.CQOptions{DataPath: ibv.DataPathRaw})
			return err
		},
	} {
		if err := f(); !errors.Is(err, ibv.ErrNotSupported) && !errors.Is(err, ibv.ErrLibrary) {
			t.Errorf("%s on SoftRoCE: %v", name, err)
		}
	}
	return nil
}

func TestRXEQueryDevice(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	if yes, err := IsSupported(dev); !yes || err != nil {
		t.Errorf("IsSupported: %v, %v", yes, err)
	}
	a := must(QueryDevice(dev))(t)
	t.Logf("flags %v, has %v: %+v", a.Flags, a.Has, *a)
	if a.Version != 0 || a.Flags&CQEVersion1 == 0 || a.Has&HasCQECompression == 0 || a.Has&HasDynamicBFRegs == 0 {
		t.Errorf("version %d, flags %v, has %v", a.Version, a.Flags, a.Has)
	}
	if a.Has&^allFeatures != 0 {
		t.Errorf("more than was asked for: %v", a.Has)
	}
}

func TestRXEClock(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	before := time.Now()
	c := must(ReadClock(dev))(t)
	if c.Mult == 0 || c.Mask == 0 || c.Nanoseconds(c.LastCycles) < c.Nsec {
		t.Fatalf("%+v", c)
	}

	// A completion's timestamp lies between its posting and its polling.
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(16, nil))(t))
	mr := closing(t, must(pd.AllocMR(4096, ibv.LocalWrite|ibv.RemoteWrite, nil))(t))
	qp := closing(t, must(pd.CreateQP(cq, cq, nil))(t))
	loop(t, qp)
	posted := time.Now()
	wc := write(t, qp, cq, mr)
	polled := time.Now()
	if path, _ := cq.DataPath(); path == ibv.DataPathOps {
		if wc.Timestamp != 0 {
			t.Errorf("timestamp %d without having asked for one", wc.Timestamp)
		}
		return
	}
	c = must(ReadClock(dev))(t)
	const slack = 20 * time.Millisecond // the two clocks are compared now and then only
	if at := c.Time(wc.Timestamp); at.Before(posted.Add(-slack)) || at.After(polled.Add(slack)) {
		t.Errorf("completed at %v, posted at %v, polled at %v (clock %+v, opened at %v)", at, posted, polled, c, before)
	}
}

// loop connects a QP with itself.
func loop(t testing.TB, qp *ibv.QP) {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
}

// write writes 64 bytes to another place of mr.
func write(t testing.TB, qp *ibv.QP, cq *ibv.CQ, mr *ibv.MR) ibv.WC {
	t.Helper()
	for i := range 64 {
		mr.Bytes()[i] = byte(i)
	}
	if _, err := qp.PostSend([]ibv.SendWR{{ID: 7, Opcode: ibv.OpWrite, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{mr.SGE(0, 64)}, Remote: mr.Remote().At(2048)}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	var wc [1]ibv.WC
	if _, err := cq.Wait(ctx, wc[:]); err != nil {
		t.Fatal(err)
	}
	ok(t, wc[0].Err())
	if wc[0].ID != 7 || mr.Bytes()[2048+63] != 63 {
		t.Fatalf("%+v", wc[0])
	}
	return wc[0]
}

// padded stands for 128 bytes all of which are written.
const padded = 129

// TestRXECreateCQ makes CQs with entries of both sizes and uses them on the data path
// of the run.
func TestRXECreateCQ(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	pd := closing(t, must(dev.AllocPD())(t))
	mr := closing(t, must(pd.AllocMR(4096, ibv.LocalWrite|ibv.RemoteWrite, nil))(t))
	if a := must(QueryDevice(dev))(t); a.Flags&CQE128Padding == 0 {
		t.Error("no padding of completions to 128 bytes")
	}
	for _, size := range []int{0, 64, 128, padded} {
		for _, flags := range []QPCreateFlags{0, DisableScatterToCQE, AllowScatterToCQE} {
			cq := must(CreateCQ(dev, 16, &CQOptions{EntrySize: size &^ 1, Padding: size == padded}))(t)
			qp, err := CreateQP(pd, cq, cq, &QPOptions{Flags: flags})
			if flags == AllowScatterToCQE && size >= 128 && errors.Is(err, ibv.ErrNotSupported) {
				ok(t, cq.Close()) // see TestRXE_MisplacedResults
				continue
			}
			must(qp, err)(t)
			loop(t, qp)
			for range 40 { // twice around
				write(t, qp, cq, mr)
			}
			// Receives short enough to travel in the completion.
			for _, n := range []int{1, 32, 60} {
				if _, err := qp.PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{mr.SGE(1024, 64)}}}); err != nil {
					t.Fatal(err)
				}
				clear(mr.Bytes()[1024:][:64])
				if _, err := qp.PostSend([]ibv.SendWR{{ID: 2, Opcode: ibv.OpSend, SGEs: []ibv.SGE{mr.SGE(0, n)},
					Flags: ibv.Signaled}}); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					var wc [1]ibv.WC
					must(cq.Wait(t.Context(), wc[:]))(t)
					ok(t, wc[0].Err())
				}
				if got := mr.Bytes()[1024:][:n]; got[n-1] != byte(n-1) {
					t.Errorf("entries of %d, %v: %d bytes arrived as %x", size, flags, n, got)
				}
			}
			ok(t, qp.Close())
			ok(t, cq.Close())
		}
	}
	for name, c := range map[string]struct {
		o    CQOptions
		want error
		say  string
	}{
		"size":          {CQOptions{EntrySize: 96}, nil, "64 or 128"},
		"padding of 64": {CQOptions{EntrySize: 64, Padding: true}, nil, "EntrySize 128"},
		"compression with times": {CQOptions{Compression: CQEHash,
			CQOptions: ibv.CQOptions{Fields: ibv.FieldTimestamp}}, nil, "no times"},
		"compression by Ops": {CQOptions{Compression: CQEHash, CQOptions: ibv.CQOptions{DataPath: ibv.DataPathOps}},
			ibv.ErrNotSupported, "DataPathRaw"},
		"two formats": {CQOptions{Compression: CQEHash | CQEChecksum,
			CQOptions: ibv.CQOptions{DataPath: ibv.DataPathRaw}}, nil, "one format"},
	} {
		t.Run(name, func(t *testing.T) {
			testutil.NeedControl(t)
			_, err := CreateCQ(dev, 16, &c.o)
			if err == nil || !strings.Contains(err.Error(), c.say) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %q", err, c.say)
			}
		})
	}
}

func TestRXECreateQPErrors(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(16, &ibv.CQOptions{DataPath: ibv.DataPathDirect}))(t))
	flags := []QPCreateFlags{OutOfOrderData}
	if !native(dev) {
		flags = append(flags, SignaturePipelining)
	}
	for _, f := range flags {
		o := QPOptions{Flags: f}
		if _, err := CreateQP(pd, cq, cq, &o); !errors.Is(err, ibv.ErrNotSupported) {
			t.Errorf("%v on the direct data path: %v", o.Flags, err)
		}
	}
}

// TestRXEViewRefused asks for the rings of objects that have a writer.
func TestRXEViewRefused(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	pd := closing(t, must(dev.AllocPD())(t))
	for _, path := range []ibv.DataPath{ibv.DataPathOps, ibv.DataPathDirect} {
		t.Run(path.String(), func(t *testing.T) {
			testutil.NeedControl(t)
			cq := closing(t, must(dev.CreateCQ(16, &ibv.CQOptions{DataPath: path}))(t))
			srq := closing(t, must(pd.CreateSRQ(&ibv.SRQOptions{DataPath: path}))(t))
			qp := closing(t, must(pd.CreateQP(cq, cq, &ibv.QPOptions{SRQ: srq}))(t))
			_, e1 := ViewCQ(cq)
			_, e2 := ViewQP(qp)
			_, e3 := ViewSRQ(srq)
			for i, err := range []error{e1, e2, e3} {
				if !errors.Is(err, ibv.ErrNotSupported) || !strings.Contains(err.Error(), "DataPathRaw") {
					t.Errorf("view %d of an object with %v: %v", i, path, err)
				}
			}
		})
	}
}

// TestRXERaw sends by WQEs written here, receives into a ring and an SRQ written here,
// and reads the completions here, by polling and by events.
func TestRXERaw(t *testing.T) {
	for _, c := range []struct {
		name      string
		size      int
		srq       bool
		domain    bool
		solicited bool
	}{
		{name: "recv queue", size: 64},
		{name: "srq, 128-byte entries", size: 128, srq: true},
		{name: "BlueFlame", size: 64, domain: true},
		{name: "solicited", size: 64, solicited: true},
	} {
		t.Run(c.name, func(t *testing.T) { testRaw(t, c.size, c.srq, c.domain, c.solicited) })
	}
}

func testRaw(t *testing.T, size int, withSRQ, domain, solicited bool) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	base := closing(t, must(dev.AllocPD())(t))
	mr := closing(t, must(base.AllocMR(1<<16, ibv.LocalWrite|ibv.RemoteWrite, nil))(t))
	pd := base
	if domain {
		td := closing(t, must(dev.AllocThreadDomain())(t))
		pd = closing(t, must(dev.AllocParentDomain(base, td))(t))
	}
	raw := ibv.CQOptions{DataPath: ibv.DataPathRaw}
	scq := closing(t, must(CreateCQ(dev, 16, &CQOptions{CQOptions: raw, EntrySize: size}))(t))
	rcq := closing(t, must(CreateCQ(dev, 16, &CQOptions{CQOptions: raw, EntrySize: size}))(t))
	opt := &QPOptions{Flags: DisableScatterToCQE}
	opt.MaxSendWR, opt.MaxRecvWR = 16, 16
	var srq *ibv.SRQ
	if withSRQ {
		srq = closing(t, must(base.CreateSRQ(&ibv.SRQOptions{MaxWR: 16, DataPath: ibv.DataPathRaw}))(t))
		opt.SRQ = srq
	}
	qp := closing(t, must(CreateQP(pd, scq, rcq, opt))(t))
	loop(t, qp)

	// ibv leaves all of it alone.
	var wcs [1]ibv.WC
	_, e1 := qp.PostSend([]ibv.SendWR{{}})
	_, e2 := scq.Poll(wcs[:])
	e3 := scq.Arm(false)
	_, e4 := scq.Wait(t.Context(), wcs[:])
	e5 := qp.Batch().Post()
	for i, err := range []error{e1, e2, e3, e4, e5} {
		if !errors.Is(err, ibv.ErrRaw) {
			t.Errorf("use %d of a raw object: %v", i, err)
		}
	}
	if err := scq.Resize(64); !errors.Is(err, ibv.ErrNotSupported) {
		t.Errorf("resize: %v", err)
	}
	if path, _ := qp.DataPath(); path != ibv.DataPathRaw {
		t.Errorf("data path %v", path)
	}

	q, sc, rc := must(ViewQP(qp))(t), must(ViewCQ(scq))(t), must(ViewCQ(rcq))(t)
	if q.Num != qp.Num() || q.SQ.Count < 16 || q.SQ.Stride != 64 || q.DoorbellRecord == 0 || q.UAR == 0 ||
		sc.EntrySize != uint32(size) || sc.Entries != 32 && sc.Entries != 16 {
		t.Fatalf("%+v, %+v", q, sc)
	}
	if (q.BlueFlame != 0) != domain || (q.RQ.Count == 0) != withSRQ {
		t.Fatalf("BlueFlame %d, %d receives", q.BlueFlame, q.RQ.Count)
	}
	var s *SRQView
	if withSRQ {
		s = must(ViewSRQ(srq))(t)
		if _, err := srq.PostRecv([]ibv.RecvWR{{}}); !errors.Is(err, ibv.ErrRaw) {
			t.Errorf("post to a raw SRQ: %v", err)
		}
	} else if _, err := qp.PostRecv([]ibv.RecvWR{{}}); !errors.Is(err, ibv.ErrRaw) {
		t.Errorf("post recv to a raw QP: %v", err)
	}

	limit, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	data := func(b []byte, at int, n uint32) {
		sge := mr.SGE(at, 0)
		binary.BigEndian.PutUint32(b, n)
		binary.BigEndian.PutUint32(b[4:], sge.LKey)
		binary.BigEndian.PutUint64(b[8:], sge.Addr)
	}
	end := func(b []byte) { // of a short list
		if len(b) >= 16 {
			binary.BigEndian.PutUint64(b, 0x100)
			binary.BigEndian.PutUint64(b[8:], 0)
		}
	}
	wait := func(c *CQView, ci uint32) []byte {
		seen := c.Events()
		c.Arm(ci, false)
		for {
			if e := c.Entry(ci); e != nil {
				return e
			}
			ok(t, c.Wait(limit, seen))
			seen = c.Events()
			c.Arm(ci, false)
		}
	}
	head := uint32(0)
	if s != nil {
		head = s.Head
	}

	for i := range uint32(100) {
		n := 1 + i*31%500
		for k := range n {
			mr.Bytes()[k] = byte(k + i)
		}
		clear(mr.Bytes()[8192:][:512])
		if s != nil {
			e := s.Entry(head)
			data(e[16:], 8192, 512)
			end(e[32:])
			head = uint32(binary.BigEndian.Uint16(e[2:]))
			s.Ring(uint16(i + 1))
		} else {
			e := q.RQ.Entry(i)
			data(e, 8192, 512)
			end(e[16:])
			q.RingRecv(i + 1)
		}
		seen := rc.Events()
		if solicited {
			rc.Arm(i, true)
		}
		flags := WQESignaled
		if solicited {
			flags |= WQESolicited
		}
		q.Control(i, OpSend, flags, 2, 0)
		data(q.SQ.Entry(i)[16:], 0, n)
		q.RingSendBlueFlame(i+1, i)
		if solicited {
			ok(t, rc.Wait(limit, seen))
			if rc.Events() == seen {
				t.Fatal("no event")
			}
		}
		e := wait(sc, i)
		if op := e[63] >> 4; op != 0 {
			t.Fatalf("send %d: completion %x", i, e)
		}
		sc.Consumed(i + 1)
		e = wait(rc, i)
		if op, got := e[63]>>4, binary.BigEndian.Uint32(e[44:]); op != 2 || got != n {
			t.Fatalf("recv %d: opcode %d, %d bytes of %d", i, op, got, n)
		}
		if s != nil { // the entry goes to the end of the list
			w := uint32(binary.BigEndian.Uint16(e[60:]))
			binary.BigEndian.PutUint16(s.Entry(s.Tail)[2:], uint16(w))
			s.Tail = w
		}
		rc.Consumed(i + 1)
		for k := range n {
			if mr.Bytes()[8192+k] != byte(k+i) {
				t.Fatalf("message %d, byte %d is %#x", i, k, mr.Bytes()[8192+k])
			}
		}
	}
}

// TestRXERawAllocs holds the primitives to the rule of hot paths.
func TestRXERawAllocs(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(64, &ibv.CQOptions{DataPath: ibv.DataPathRaw, NoEvents: true}))(t))
	qp := closing(t, must(pd.CreateQP(cq, cq, nil))(t))
	loop(t, qp)
	q, c := must(ViewQP(qp))(t), must(ViewCQ(cq))(t)
	i := uint32(0)
	if n := testing.AllocsPerRun(50, func() {
		q.Control(i, OpNop, WQESignaled, 1, 0)
		q.RingSend(i+1, i)
		for c.Entry(i) == nil {
		}
		i++
		c.Consumed(i)
	}); n != 0 {
		t.Errorf("%v allocations for a work request and its completion", n)
	}
	if err := c.Wait(t.Context(), 0); err == nil {
		t.Error("waited for a CQ without events")
	}
}
