package ibv

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/level"
)

// elsewhere has the keys of a Device whose memory the CPU may not access by the address in an SGE: device memory, a
// dma-buf, memory of another process, memory with an IOVA of its own, Mkeys. mlx5 may put a short message into its
// completion, and the poller copies it to that address, wherever the memory is. Hence QPs that are created while the
// Device has such a key get no payloads in completions, and those that were created before do not take the key.
//
// Memory that is paged in on demand and null MRs have keys here as well, which QPs take. Only SRQs of the ops data path
// take no null MR: libmlx5 copies to it there (mlx5_copy_to_recv_srq, rdma-core v64.0, providers/mlx5/srq.c:57).
type elsewhere struct {
	mu    sync.Mutex
	kinds map[uint32]string // of the keys that QPs with payloads in completions do not take, by the key without its tag

	any     atomic.Bool // there was a key
	null    atomic.Bool // there was one of a null MR
	keepOut atomic.Bool // there was one of memory, so that new QPs get no payloads in completions
}

// keyTag is the number of bits of an mlx5 key that tell its versions apart.
const keyTag = 8

// noteKey records a key of memory that is not where an SGE says. A kind of "" is one that all QPs take.
func (d *Device) noteKey(key uint32, kind string, keepOut bool) {
	if _, ok := d.mlx5(); !ok {
		return
	}
	e := &d.elsewhere
	e.mu.Lock()
	defer e.mu.Unlock()
	if kind != "" {
		if e.kinds == nil {
			e.kinds = make(map[uint32]string)
		}
		e.kinds[key>>keyTag] = kind
	}
	if kind == ofNull {
		e.null.Store(true)
	}
	if keepOut {
		e.keepOut.Store(true)
	}
	e.any.Store(true)
	d.direct.qps.Watch()
}

// forgetKey forgets a key that is not valid any more. All null MRs of a device have the same, which stays valid.
func (d *Device) forgetKey(key uint32) {
	e := &d.elsewhere
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kinds[key>>keyTag] != ofNull {
		delete(e.kinds, key>>keyTag)
	}
}

// takeKeys takes the MR's keys from its C object, in place of those that it had.
func (mr *MR) takeKeys() {
	if mr.lkey != 0 {
		mr.pd.dev.forgetKey(mr.lkey)
	}
	is := mr.pd.dev.v.MR(mr.handle)
	mr.lkey, mr.rkey = is.LKey, is.RKey
	mr.noteKey()
}

// deregister ends the MR's C object and its keys.
func (mr *MR) deregister() error {
	release := mr.release
	if release == nil {
		release = mr.pd.dev.v.DeregMR
	}
	err := release(mr.handle)
	if err == nil {
		mr.pd.dev.forgetKey(mr.lkey)
	}
	return err
}

// noteKey records the key of an MR whose memory is not at the addresses by which SGEs name it, or not for long.
func (mr *MR) noteKey() {
	d := mr.pd.dev
	switch {
	case mr.fixed == ofNull:
		d.direct.qps.Null(mr.lkey)
		d.noteKey(mr.lkey, ofNull, false)
	case mr.fixed == ofAll: // paged in on demand; it begins at address 0
		d.noteKey(mr.lkey, "", true)
	case mr.addr == 0 || uint64(mr.addr) != mr.iova:
		kind := strings.TrimPrefix(mr.fixed, "of ")
		if kind == "" {
			kind = "memory with an IOVA that is not its address"
		} else if mr.access == unknownAccess {
			kind = "memory " + kind + " from another process or library"
		}
		d.noteKey(mr.lkey, kind, true)
	case mr.access&OnDemand != 0 && mr.access != unknownAccess:
		d.noteKey(mr.lkey, "", true)
	}
}

// mostCarried is the maximum of bytes in a completion: half of an entry.
const mostCarried = 64

// check returns the kind of memory of the first SGE that the CPU may not copy to, and the index of the SGE, or "". Only
// the first mostCarried bytes of the list count. null means that a null MR is such memory.
func (e *elsewhere) check(sges []SGE, null bool) (kind string, i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, n := 0, uint64(0); i < len(sges) && n < mostCarried; i++ {
		s := &sges[i]
		if kind := e.kinds[s.LKey>>keyTag]; kind != "" && (null || kind != ofNull) && s.Length > 0 {
			return kind, i
		}
		n += uint64(s.Length)
	}
	return "", 0
}

// checkTarget returns the error of the first SGE that the CPU may not copy a short payload to.
func (d *Device) checkTarget(sges []SGE, null bool) error {
	kind, i := d.elsewhere.check(sges, null)
	if kind == "" {
		return nil
	}
	return &ArgError{Arg: "SGEs", Got: fmt.Sprintf("%s in SGE %d", kind, i),
		Want: "a QP that is created after that memory is registered, or with mlx5dv.DisableScatterToCQE, or with " +
			"MLX5_SCATTER_TO_CQE=0 in the environment: this one may get short payloads in completions, which the " +
			"CPU cannot copy there"}
}

// checksTargets reports whether the memory of reads and atomics is to be checked.
func (c *inCQE) checksTargets(d *Device) bool { return c.results && d.elsewhere.any.Load() }

// takable returns how many of wrs a queue takes whose completions may carry payloads, and the error of the next one.
func (d *Device) takable(wrs []RecvWR, null bool) (int, error) {
	for i := range wrs {
		if err := d.checkTarget(wrs[i].SGEs, null); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

// mlx5 returns libmlx5 if the device is one of it. Posting also asks, so only the first call looks for the library.
func (d *Device) mlx5() (control.Rings, bool) {
	m := &d.direct.provider
	m.once.Do(func() {
		var err error
		if m.lib, err = d.v.mlx5(); err == nil {
			m.is, err = m.lib.IsSupported(d.handle)
		}
		m.is = m.is && err == nil
	})
	return m.lib, m.is
}

// keptOut reports whether libmlx5 was told to keep all payloads out of completions. It reads the environment with which
// the process began.
var keptOut = os.Getenv("MLX5_SCATTER_TO_CQE") == "0"

// inline reports whether completions of QPs of this type carry payloads unless they are created without.
func (t QPType) inline() bool { return t == RC || t == UC }

// keepsOut reports whether a new QP must get no payloads in completions.
func (d *Device) keepsOut(o *QPOptions, send, recv *CQ) bool {
	e := &d.elsewhere
	return e.keepOut.Load() || e.null.Load() && o.SRQ != nil && send.byOps() || o.SignalAll && send.misplaces() ||
		recv.mixesVLAN()
}

// byOps reports whether libmlx5 polls the CQ.
func (cq *CQ) byOps() bool { return cq == nil || cq.path == DataPathOps }

// misplaces reports whether libmlx5 takes the results of reads and atomics from the wrong bytes of the CQ's
// completions.
func (cq *CQ) misplaces() bool {
	return cq != nil && cq.entries.wide && cq.path == DataPathOps && cq.dev.hasFault(level.WideResult)
}

// mixesVLAN reports whether libmlx5 takes the VLAN of a completion with a payload from the payload.
func (cq *CQ) mixesVLAN() bool {
	return cq != nil && cq.fields&FieldCVLAN != 0 && cq.path == DataPathOps && cq.dev.mayBeMLX5()
}

// checkResults returns an error if the QP's completions may carry results that libmlx5 would misplace.
func (c *inCQE) checkResults(send *CQ) error {
	if !c.results || !send.misplaces() {
		return nil
	}
	return &UnsupportedError{Feature: "results of reads and atomics in completions of 128 bytes",
		Need: "rdma-core v64 or a late release of a series before, a CQ made with DataPathDirect, completions of 64 " +
			"bytes, or a QP without mlx5dv.AllowScatterToCQE and SignalAll",
		Have: "an older libmlx5, which copies them from the wrong bytes of the completion"}
}

// entries has what is known of a CQ's entries.
type entries struct {
	sl   uint8 // mask of the service levels of completions
	wide bool  // libmlx5 was told to make entries of 128 bytes
	try  bool  // may be compressed for the receives of an SRQ
}

// entries returns what a new CQ has by default.
func (d *Device) entries() entries { return entries{sl: d.sl(), wide: wideEntries} }

// wideEntries is whether libmlx5 was told to make CQs with entries of 128 bytes. It reads the environment with which
// the process began.
var wideEntries = os.Getenv("MLX5_CQE_SIZE") == "128"

// carries returns what the completions of a new QP may carry. out means that it was created so that they carry nothing.
func carries(t QPType, signalAll, asked, out bool) inCQE {
	c := inCQE{asked: asked}
	if out || keptOut {
		return c
	}
	switch t {
	case RC, UC, DCT:
		c.receives = true
	}
	switch t {
	case RC, DCI:
		c.results = signalAll || asked
	}
	return c
}

// inCQE has the payloads that completions of a QP may carry.
type inCQE struct {
	receives bool
	results  bool // of reads and atomics
	asked    bool // results even if SignalAll is not set
}

// carry adds n to the QPs whose completions may carry payloads of the SRQ's receives, if this is one.
func (c *inCQE) carry(srq *SRQ, n int32) {
	if srq != nil && c.receives {
		srq.carriers.Add(n)
	}
}

// createOut is Device.createQP for a QP whose completions carry no payloads. It returns 0 if libmlx5 cannot create it.
func (d *Device) createOut(pd uintptr, init *abi.QPInitAttrEx) uintptr {
	lib, ok := d.mlx5()
	if !ok {
		return 0
	}
	dv := &abi.MLX5DVQPInitAttr{CompMask: abi.MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		CreateFlags: abi.MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE}
	attr := *init
	attr.CompMask |= abi.IBV_QP_INIT_ATTR_PD
	attr.PD = pd
	qp, err := lib.CreateQP(d.handle, &attr, dv)
	if err != nil {
		return 0
	}
	init.Cap = attr.Cap
	return qp
}
