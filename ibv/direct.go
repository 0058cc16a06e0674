package ibv

import (
	"fmt"
	"os"
	"sync"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/mmio"
)

// direct is the state of a Device for the direct data path.
type direct struct {
	once sync.Once
	err  error // why the Device has no direct data path; nil if it has
	dv   control.Rings
	qps  mlx5.Table

	provider struct {
		once sync.Once
		lib  control.Rings
		is   bool // the device is one of libmlx5
	}

	masked struct {
		once  sync.Once
		sizes maskedSizes
		err   error // why the device does not report them
	}

	// mu keeps a QP number from being reused between the destruction of a QP and the removal of
	// its completions. A poller that meets a completion of a suspended QP waits for mu.
	mu sync.Mutex

	registers registers
}

// settled waits until no QP is suspended.
func (d *direct) settled() {
	d.mu.Lock()
	defer d.mu.Unlock()
}

// directError returns why the Device cannot have the direct data path, nil if it can.
func (d *Device) directError() error {
	d.direct.once.Do(func() { d.direct.err = d.initDirect() })
	return d.direct.err
}

// signatureEnv are the environment variables that change the format of WQEs without mlx5dv
// reporting it (rdma-core v44.0, providers/mlx5/verbs.c:902, 913, 4080).
var signatureEnv = []string{"MLX5_QP_SIGNATURE", "MLX5_SRQ_SIGNATURE", "MLX5_RWQ_SIGNATURE"}

func (d *Device) initDirect() error {
	no := func(need, have string) error {
		return &UnsupportedError{Feature: "the direct data path", Need: need, Have: have}
	}
	if !mmio.Supported {
		return no("amd64 or arm64", "another architecture")
	}
	for _, name := range signatureEnv {
		if _, set := os.LookupEnv(name); set {
			return no("WQEs without signatures", "the environment variable "+name)
		}
	}
	lib, err := d.v.mlx5()
	if err != nil {
		return no("libmlx5", err.Error())
	}
	d.direct.dv = lib
	ok, err := lib.IsSupported(d.handle)
	switch {
	case err != nil:
		return no("libmlx5 of rdma-core v22 or later", err.Error())
	case !ok:
		return no("a device of libmlx5", d.Name()+", which is another provider's")
	}
	return nil
}

// takeCQ takes over the rings of a new CQ. They cannot be handed back to libmlx5.
func (d *Device) takeCQ(handle uintptr) (*mlx5.CQ, error) {
	v, err := d.direct.dv.InitCQ(handle)
	if err != nil {
		return nil, fmt.Errorf("mlx5dv_init_obj: %w", err)
	}
	if v.CQECnt == 0 || v.CQECnt&(v.CQECnt-1) != 0 || v.CQESize != 64 && v.CQESize != 128 {
		return nil, &UnsupportedError{Feature: "the direct data path",
			Need: "a CQ of 64- or 128-byte entries, a power of two of them",
			Have: fmt.Sprintf("%d entries of %d bytes", v.CQECnt, v.CQESize)}
	}
	c := cqConfig(v, &d.direct.qps)
	c.Ethernet = d.sl() == 0
	return mlx5.NewCQ(c), nil
}

// directType refuses QP types that the direct data path does not drive.
func directType(t QPType) error {
	switch t {
	case RC, UC, UD, XRCSend, DCI, DCT, RawPacket:
		return nil
	}
	return &UnsupportedError{Feature: "a " + t.String() + " QP on the direct data path",
		Need: "CQs made with DataPathOps",
		Have: "a CQ of the direct data path"}
}

// takeQP takes over the rings of a new QP.
func (qp *QP) takeQP(signalAll bool) error {
	if qp.typ == DCT {
		return qp.takeDCT()
	}
	d := qp.dev
	v, err := d.direct.dv.InitQP(qp.handle, 0)
	if err != nil {
		return fmt.Errorf("mlx5dv_init_obj: %w", err)
	}
	if v.SQ.Stride != 64 && v.SQ.WQECnt != 0 {
		return &UnsupportedError{Feature: "the direct data path", Need: "send WQEs of 64-byte blocks",
			Have: fmt.Sprint(v.SQ.Stride)}
	}
	var srq *mlx5.SRQ
	if qp.srq != nil {
		srq = qp.srq.direct
	}
	sq, rq := qpConfig(v, qp, signalAll)
	qp.pathWhy += "; " + qp.doorbells(v.BF.Size, sq)
	if qp.typ == RawPacket {
		return qp.takeRaw(sq, rq)
	}
	qp.sq.direct = mlx5.NewQP(qp.Num(), qp.typ == RC, sq, rq, srq)
	qp.sq.direct.Carry(qp.inCQE.receives, qp.inCQE.results)
	if cq := qp.recv; qp.typ == UD {
		cq.mu.Lock()
		cq.direct.live.AddDatagrams()
		if cq.held == nil {
			cq.direct.fast = cq.usual()
		}
		cq.mu.Unlock()
	}
	return nil
}

// doorbells describes how the send queue rings the device.
func (qp *QP) doorbells(size uint32, sq *mlx5.SQConfig) string {
	td := qp.pd.td
	switch {
	case sq == nil:
		return "no send queue"
	case sq.BlueFlame != 0:
		return fmt.Sprintf("BlueFlame: a work request of up to %d bytes that is posted alone goes to the thread "+
			"domain's register", size)
	case size == 0:
		return "doorbells of 8 bytes: the register takes no more"
	case td == nil:
		return "doorbells of 8 bytes, since other QPs may share the register: QPs on a parent domain with a " +
			"ThreadDomain use BlueFlame"
	}
	return "doorbells of 8 bytes: the environment variable MLX5_SHUT_UP_BF"
}

// cqs calls f with each of the QP's CQs while it holds that CQ's lock.
func (qp *QP) cqs(f func(cq *CQ)) {
	for _, cq := range []*CQ{qp.send, qp.recv} {
		if cq != nil {
			cq.mu.Lock()
			f(cq)
			cq.mu.Unlock()
		}
		if qp.send == qp.recv {
			break
		}
	}
}

// suspended runs f, which takes the rings away from the pollers: libmlx5 frees them when a QP
// is destroyed, while a poller reads WQEs to copy the payload of completions. A poller that
// meets a completion of the QP waits until f has returned. Afterwards, unless f failed, no
// completion of the QP is left in either engine.
// Preconditions: qp.sq.mu and qp.rq.mu are held.
func (qp *QP) suspended(f func() error) error {
	d := &qp.dev.direct
	if qp.sq.direct != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.qps.Suspend(qp.sq.direct)
		qp.cqs(func(cq *CQ) { cq.direct.live.Leave(qp.sq.direct) })
	}
	if err := qp.rq.withoutPollers(f); err != nil {
		switch {
		case qp.sq.direct == nil:
		case qp.Num() == 0: // a DCT that is not there yet
			d.qps.Forget(qp.sq.direct)
		default:
			d.qps.Resume(qp.sq.direct)
		}
		return err
	}
	qp.cqs(func(cq *CQ) {
		if cq.queues.frames == qp {
			cq.emptyFrames()
		}
		if qp.sq.direct != nil {
			cq.direct.live.Purge(qp.sq.direct)
		} else {
			cq.holdLocked() // not every provider removes the completions of the QP, as libmlx5 does
		}
		cq.dropHeld(qp.Num())
	})
	return nil
}

// reset runs modify, which moves the QP to RESET. The queues are empty before anybody can post
// or poll again.
func (qp *QP) reset(modify func() error) error {
	qp.sq.mu.Lock()
	defer qp.sq.mu.Unlock()
	qp.rq.mu.Lock()
	defer qp.rq.mu.Unlock()
	qp.sq.sending, qp.rq.receiving = false, false
	if err := qp.suspended(modify); err != nil {
		return err
	}
	if qp.sq.chain != nil {
		qp.sq.chain.Reset()
	}
	if qp.sq.room != nil {
		qp.sq.room.Reset()
	}
	qp.conn.psn.Store(0) // the next connection gets a new PSN
	if qp.sq.direct != nil {
		qp.sq.direct.Reset()
		qp.dev.direct.qps.Resume(qp.sq.direct)
	}
	return nil
}

// CompletionError reports a completion queue entry that cannot be decoded: its memory was
// overwritten, or the device uses a format that this release does not know. The QP that it
// names is unusable (ErrBroken); other QPs are not affected.
type CompletionError struct{ Err error }

func (e *CompletionError) Error() string { return "corrupt completion: " + e.Err.Error() }

// Unwrap returns the description of the entry.
func (e *CompletionError) Unwrap() error { return e.Err }

// takeSRQ takes over the ring of an SRQ, before anything is posted.
func (s *SRQ) takeSRQ() error {
	v, err := s.pd.dev.direct.dv.InitSRQ(s.handle, 0)
	if err != nil {
		return fmt.Errorf("mlx5dv_init_obj: %w", err)
	}
	c := srqConfig(v, s.maxSGE)
	a := new(abi.SRQAttr)
	if s.pd.dev.v.QuerySRQ(s.handle, a) == nil {
		c.AddSpare(a.MaxWR + 1) // the driver has room for one more receive than it says
	}
	s.direct = mlx5.NewSRQ(c, &s.mu)
	return nil
}
