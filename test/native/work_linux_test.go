//go:build linux && amd64 && !race

package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

const device = "mlx5_0"

// work is one run of the program.
type work struct {
	step func(name string) // is called before each call, if not nil
	wait time.Duration     // for what need not come if something has failed
	well func() bool       // reports whether nothing has failed yet; nil: something has
	errs []error
	seen []ibv.WC
	left []left
	dev  *ibv.Device
	pd   *ibv.PD
	cq   *ibv.CQ
	mr   *ibv.MR
	gid  int
}

// left is what is to be closed.
type left struct {
	name  string
	close func() error
}

// try makes one call and reports whether it succeeded.
func (w *work) try(name string, call func() error) bool {
	if w.step != nil {
		w.step(name)
	}
	err := call()
	if err != nil {
		w.errs = append(w.errs, fmt.Errorf("%s: %w", name, err))
	}
	return err == nil
}

// get makes a call whose result is not used.
func get[T any](w *work, name string, call func() (T, error)) (v T, ok bool) {
	ok = w.try(name, func() (err error) { v, err = call(); return err })
	return v, ok
}

// create makes an object, which end closes.
func create[T io.Closer](w *work, name string, call func() (T, error)) (v T, ok bool) {
	if v, ok = get(w, name, call); ok {
		w.left = append(w.left, left{name, v.Close})
	}
	return v, ok
}

// end closes everything, last first. What cannot be closed is tried again after the rest.
func (w *work) end() {
	for round := 0; round < 2 && len(w.left) > 0; round++ {
		var open []left
		for _, l := range slices.Backward(w.left) {
			if !w.try("close "+l.name, l.close) {
				open = append(open, l)
			}
		}
		slices.Reverse(open)
		w.left = open
	}
}

// all runs the program.
func (w *work) all() {
	if w.open() {
		w.memory()
		w.queues()
		w.pairs()
		w.datagrams()
		w.shared()
		w.frames()
		w.imported()
		w.own()
	}
	w.connections()
	w.end()
}

func (w *work) open() (ok bool) {
	w.gid = ibv.BestGID
	if w.dev, ok = create(w, "open", func() (*ibv.Device, error) { return ibv.Open(device) }); !ok {
		return false
	}
	d := w.dev
	get(w, "query device", d.QueryDevice)
	get(w, "query port", func() (*ibv.PortAttr, error) { return d.QueryPort(1) })
	get(w, "query gid", func() (ibv.GID, error) { return d.QueryGID(1, 0) })
	get(w, "query gid entry", func() (ibv.GIDEntry, error) { return d.QueryGIDEntry(1, 0) })
	get(w, "gid table", d.GIDTable)
	get(w, "query pkey", func() (uint16, error) { return d.QueryPKey(1, 0) })
	get(w, "rt values", d.QueryRTValues)
	if w.pd, ok = create(w, "pd", d.AllocPD); !ok {
		return false
	}
	if w.cq, ok = create(w, "cq", func() (*ibv.CQ, error) {
		return d.CreateCQ(64, &ibv.CQOptions{NoEvents: true})
	}); !ok {
		return false
	}
	w.mr, ok = create(w, "mr", func() (*ibv.MR, error) {
		return w.pd.AllocMR(1<<16, everything, nil)
	})
	return ok
}

const everything = ibv.LocalWrite | ibv.RemoteWrite | ibv.RemoteRead | ibv.RemoteAtomic | ibv.MWBind

func (w *work) memory() {
	access := everything
	w.try("rereg", func() error { return w.mr.Rereg(&ibv.ReregOptions{Access: &access}) })
	access = ibv.LocalWrite
	create(w, "null mr", w.pd.AllocNullMR)
	create(w, "implicit mr", func() (*ibv.MR, error) { return w.pd.RegImplicit(access) })
	if odp, ok := create(w, "odp mr", func() (*ibv.MR, error) {
		return w.pd.AllocMR(4096, access|ibv.OnDemand, nil)
	}); ok {
		w.try("advise", func() error { return w.pd.Advise(ibv.AdvicePrefetch, true, odp.SGE(0, 4096)) })
	}
	if td, ok := create(w, "thread domain", w.dev.AllocThreadDomain); ok {
		create(w, "parent domain", func() (*ibv.PD, error) { return w.dev.AllocParentDomain(w.pd, td) })
	}
	create(w, "mw", func() (*ibv.MW, error) { return w.pd.AllocMW(ibv.MWType2) })
	if dm, ok := create(w, "dm", func() (*ibv.DM, error) { return w.dev.AllocDM(64, nil) }); ok {
		create(w, "dm mr", func() (*ibv.MR, error) { return w.pd.RegDM(dm, 0, 64, access|ibv.ZeroBased) })
		w.try("write dm", func() error { _, err := dm.WriteAt([]byte("dm bytes"), 0); return err })
		got := make([]byte, 8)
		w.try("read dm", func() error {
			if _, err := dm.ReadAt(got, 0); err != nil {
				return err
			}
			return same(got, "dm bytes")
		})
	}
	if f, ok := get(w, "memfd", func() (*os.File, error) { return memfd(4096) }); ok {
		create(w, "dmabuf mr", func() (*ibv.MR, error) { return w.pd.RegDmabuf(int(f.Fd()), 0, 4096, 0, access) })
		_ = f.Close()
	}
}

// errWrong is a result that the device cannot have given.
var errWrong = errors.New("wrong result")

func same(got []byte, want string) error {
	if !bytes.Equal(got, []byte(want)) {
		return fmt.Errorf("%w: %q, want %q", errWrong, got, want)
	}
	return nil
}

func (w *work) queues() {
	ch, ok := create(w, "channel", w.dev.CreateCompChannel)
	if ok {
		create(w, "cq with events", func() (*ibv.CQ, error) {
			return w.dev.CreateCQ(16, &ibv.CQOptions{Channel: ch})
		})
	}
	if cq, ok := create(w, "another cq", func() (*ibv.CQ, error) {
		return w.dev.CreateCQ(16, &ibv.CQOptions{NoEvents: true})
	}); ok {
		w.try("resize", func() error { return cq.Resize(100) })
		w.try("moderate", func() error { return cq.Moderate(4, 10*time.Microsecond) })
	}
	if srq, ok := create(w, "srq", func() (*ibv.SRQ, error) { return w.pd.CreateSRQ(&ibv.SRQOptions{MaxWR: 16}) }); ok {
		w.try("srq limit", func() error { return srq.SetLimit(1) })
		get(w, "query srq", srq.Query)
	}
}

// qp makes a queue pair.
func (w *work) qp(name string, opt ibv.QPOptions) (*ibv.QP, bool) {
	return create(w, name, func() (*ibv.QP, error) { return w.pd.CreateQP(w.cq, w.cq, &opt) })
}

// connect connects two queue pairs with each other.
func (w *work) connect(a, b *ibv.QP) bool {
	to, ok1 := get(w, "endpoint", func() (ibv.Endpoint, error) { return b.Endpoint(1, w.gid) })
	from, ok2 := get(w, "endpoint", func() (ibv.Endpoint, error) { return a.Endpoint(1, w.gid) })
	opt := &ibv.ConnectOptions{AckTimeout: ibv.TimeCode(8).Duration(), RetryCount: 1, RNRRetry: 1}
	return ok1 && ok2 && w.try("connect", func() error { return a.Connect(to, opt) }) &&
		w.try("connect", func() error { return b.Connect(from, opt) })
}

// completions waits for n completions without an error.
func (w *work) completions(cq *ibv.CQ, n int) error {
	var failed error
	return errors.Join(w.await(func(ctx context.Context) error {
		for n > 0 {
			var wcs [4]ibv.WC
			k, err := cq.Wait(ctx, wcs[:n])
			w.seen = append(w.seen, wcs[:k]...)
			for _, wc := range wcs[:k] {
				failed = errors.Join(failed, wc.Err())
			}
			if n -= k; err != nil {
				return err
			}
		}
		return nil
	}), failed)
}

// await calls take, which waits, until it has what must come or need not come any more.
func (w *work) await(take func(context.Context) error) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), w.wait)
		err := take(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || w.well == nil || !w.well() {
			return err
		}
	}
}

// one posts a work request and waits for n completions.
func (w *work) one(name string, qp *ibv.QP, wr ibv.SendWR, n int) bool {
	return w.try(name, func() error {
		wr.Flags |= ibv.Signaled
		if _, err := qp.PostSend([]ibv.SendWR{wr}); err != nil {
			return err
		}
		return w.completions(w.cq, n)
	})
}

// clear takes what a failed call has left.
func (w *work) clear(qps ...*ibv.QP) {
	for _, qp := range qps {
		_ = qp.Modify(&ibv.QPAttr{State: ibv.StateReset}, ibv.MaskState)
	}
}

func (w *work) pairs() {
	a, ok1 := w.qp("rc", ibv.QPOptions{MaxSendWR: 8, MaxRecvWR: 8, MaxInline: 32})
	b, ok2 := w.qp("rc", ibv.QPOptions{MaxSendWR: 8, MaxRecvWR: 8})
	if !ok1 || !ok2 || !w.connect(a, b) {
		return
	}
	defer w.clear(a, b)
	get(w, "query qp", func() (*ibv.QPAttr, error) { return a.Query(ibv.MaskState | ibv.MaskAV) })
	mem := w.mr.Bytes()
	copy(mem, "over the pair")
	if !w.try("receive", func() error {
		_, err := b.PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{w.mr.SGE(1024, 64)}}})
		return err
	}) || !w.one("send", a, ibv.SendWR{Opcode: ibv.OpSend, SGEs: []ibv.SGE{w.mr.SGE(0, 13)}}, 2) {
		return
	}
	w.try("received", func() error { return same(mem[1024:][:13], "over the pair") })
	if w.one("write", a, ibv.SendWR{Opcode: ibv.OpWrite, Inline: []byte("inline"), Remote: w.mr.Remote().At(2048)}, 1) {
		w.try("written", func() error { return same(mem[2048:][:6], "inline") })
	}
	if w.one("read", a, ibv.SendWR{Opcode: ibv.OpRead, SGEs: []ibv.SGE{w.mr.SGE(3072, 6)},
		Remote: w.mr.Remote().At(2048)}, 1) {
		w.try("was read", func() error { return same(mem[3072:][:6], "inline") })
	}
	w.one("atomic", a, ibv.SendWR{Opcode: ibv.OpFetchAdd, SGEs: []ibv.SGE{w.mr.SGE(4096, 8)}, CompareAdd: 1,
		Remote: w.mr.Remote().At(4104)}, 1)
	if mw, ok := create(w, "mw of a pair", func() (*ibv.MW, error) { return w.pd.AllocMW(ibv.MWType2) }); ok {
		bind := &ibv.BindMW{MW: mw, RKey: ibv.NextRKey(mw.RKey()), MR: w.mr, Addr: w.mr.Addr(), Length: 64,
			Access: ibv.RemoteRead}
		w.one("bind", a, ibv.SendWR{Opcode: ibv.OpBindMW, Bind: bind}, 1)
	}
	w.try("rate limit", func() error {
		if err := a.ModifyRateLimit(ibv.RateLimit{Rate: 1000}); !errors.Is(err, ibv.ErrNotSupported) {
			return err
		}
		return nil
	})
	get(w, "query ece", a.QueryECE)
	w.try("to ERR", func() error { return a.Modify(&ibv.QPAttr{State: ibv.StateErr}, ibv.MaskState) })
}

func (w *work) datagrams() {
	qp, ok := w.qp("ud", ibv.QPOptions{Type: ibv.UD, MaxSendWR: 8, MaxRecvWR: 8})
	if !ok {
		return
	}
	defer w.clear(qp)
	at, ok := get(w, "endpoint", func() (ibv.Endpoint, error) { return qp.Endpoint(1, w.gid) })
	if !ok || !w.try("connect", func() error { return qp.Connect(at, nil) }) {
		return
	}
	attr, ok := get(w, "address", func() (*ibv.AHAttr, error) { return qp.Address(at, nil) })
	if !ok {
		return
	}
	ah, ok := create(w, "ah", func() (*ibv.AH, error) { return w.pd.CreateAH(attr) })
	if !ok {
		return
	}
	copy(w.mr.Bytes(), "a datagram")
	if w.try("receive", func() error {
		_, err := qp.PostRecv([]ibv.RecvWR{{ID: 1, SGEs: []ibv.SGE{w.mr.SGE(1024, 256)}}})
		return err
	}) && w.one("send", qp, ibv.SendWR{Opcode: ibv.OpSend, SGEs: []ibv.SGE{w.mr.SGE(0, 10)}, AH: ah,
		RemoteQPN: qp.Num(), RemoteQKey: ibv.DefaultQKey}, 2) {
		w.try("received", func() error { return same(w.mr.Bytes()[1024+40:][:10], "a datagram") })
	}
	group := ibv.GID{0: 0xff, 1: 0x0e, 10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}
	if w.try("attach", func() error { return qp.AttachMcast(group, 0) }) {
		w.try("detach", func() error { return qp.DetachMcast(group, 0) })
	}
}

func (w *work) shared() {
	x, ok := create(w, "xrcd", func() (*ibv.XRCD, error) { return w.dev.OpenXRCD(nil, 0) })
	if !ok {
		return
	}
	if srq, ok := create(w, "xrc srq", func() (*ibv.SRQ, error) {
		return w.pd.CreateSRQ(&ibv.SRQOptions{Type: ibv.SRQXRC, MaxWR: 16, XRCD: x, CQ: w.cq})
	}); ok {
		get(w, "srq number", srq.Num)
	}
	recv, ok := create(w, "xrc receiver", x.CreateQP)
	if ok {
		create(w, "open qp", func() (*ibv.QP, error) { return x.OpenQP(recv.Num()) })
	}
	create(w, "xrc sender", func() (*ibv.QP, error) {
		return w.pd.CreateQP(w.cq, nil, &ibv.QPOptions{Type: ibv.XRCSend, MaxSendWR: 8})
	})
}

// root reports whether this process may send frames.
func root() bool { return os.Geteuid() == 0 }

func (w *work) frames() {
	own := func() (*ibv.CQ, error) { return w.dev.CreateCQ(64, &ibv.CQOptions{NoEvents: true}) }
	var wqs []*ibv.WQ
	for range 2 {
		cq, ok := create(w, "cq of a wq", own)
		if !ok {
			return
		}
		wq, ok := create(w, "wq", func() (*ibv.WQ, error) { return w.pd.CreateWQ(cq, &ibv.WQOptions{MaxWR: 8}) })
		if !ok || !w.try("modify wq", func() error {
			return wq.Modify(&ibv.WQAttr{State: ibv.WQReady}, ibv.MaskWQState)
		}) {
			return
		}
		wqs = append(wqs, wq)
	}
	table, ok := create(w, "table", func() (*ibv.RWQIndTable, error) { return w.dev.CreateRWQIndTable(wqs) })
	if !ok || !root() {
		return
	}
	create(w, "rss", func() (*ibv.QP, error) {
		return w.pd.CreateQP(nil, nil, &ibv.QPOptions{Type: ibv.RawPacket, RSS: &ibv.RSSOptions{Table: table,
			Fields: ibv.HashSrcIPv4}})
	})
	cq, ok := create(w, "cq of frames", own)
	if !ok {
		return
	}
	raw, ok := create(w, "raw", func() (*ibv.QP, error) {
		return w.pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.RawPacket, MaxSendWR: 4, MaxRecvWR: 4})
	})
	if ok && w.try("raw to INIT", func() error {
		return raw.Modify(&ibv.QPAttr{State: ibv.StateInit, Port: 1}, ibv.MaskState|ibv.MaskPort)
	}) {
		create(w, "flow", func() (*ibv.Flow, error) {
			return raw.CreateFlow(&ibv.FlowAttr{Port: 1, Specs: []ibv.FlowSpec{ibv.FlowTag(7)}})
		})
		w.counted(raw)
	}
}

// counted counts what a rule matches.
func (w *work) counted(raw *ibv.QP) {
	c, ok := create(w, "counters", w.dev.CreateCounters)
	if !ok || !w.try("attach", func() error { return c.AttachFlow(ibv.CountPackets, 0, nil) }) {
		return
	}
	create(w, "counted", func() (*ibv.Flow, error) {
		return raw.CreateFlow(&ibv.FlowAttr{Port: 1, Priority: 1, Specs: []ibv.FlowSpec{&ibv.FlowCount{Counters: c}}})
	})
	w.try("read counters", func() error { return c.Read(make([]uint64, 1), false) })
}

// imported uses the objects as another process does that got the file.
func (w *work) imported() {
	f, ok := get(w, "command file", w.dev.CommandFile)
	if !ok {
		return
	}
	d, ok := create(w, "import", func() (*ibv.Device, error) { return ibv.ImportDevice(f) })
	_ = f.Close()
	if !ok {
		return
	}
	if pd, ok := create(w, "import pd", func() (*ibv.PD, error) { return d.ImportPD(w.pd.Handle()) }); ok {
		create(w, "import mr", func() (*ibv.MR, error) { return pd.ImportMR(w.mr.Handle(), w.mr.Addr()) })
	}
	if dm, ok := create(w, "dm of another", func() (*ibv.DM, error) { return w.dev.AllocDM(64, nil) }); ok {
		if h, ok := get(w, "dm handle", dm.Handle); ok {
			create(w, "import dm", func() (*ibv.DM, error) { return d.ImportDM(h, 64) })
		}
	}
}
