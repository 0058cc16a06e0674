package ibv

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/mlx5"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// CQ is a completion queue.
//
// It belongs to its Device. Methods are safe for concurrent use, unless the option
// SingleThreaded forgoes that; Poll takes one uncontended lock. Completions are copied into the caller's slice. Close
// fails while QPs or SRQs use the CQ, and makes calls that wait return ErrClosed.
//
// C: struct ibv_cq.
type CQ struct {
	object
	cookie  uintptr
	channel *CompChannel // nil with NoEvents
	path    DataPath
	entries entries
	pathWhy string
	spin    time.Duration
	errPoll error
	errGone error
	done    chan struct{} // closed by Close

	mu     lock
	ops    cqOps
	direct cqDirect
	held   *held // completions taken out early; nil for none
	queues cqQueues
	cqe    int
	fields WCFields // of CQOptions

	sleepers  sleepers
	events    atomic.Uint32
	solicited bool // CQOptions.Solicited
	acks      cqAcks
}

// cqOps polls by functions of C. Of the first three one is set, unless the CQ is closed or of another data path. The
// CQ's lock guards it.
type cqOps struct {
	poller   *ops.Poller
	extended *ops.ExPoller        // with fields
	other    control.Poller       // where completions are not those of classic verbs
	clock    *ops.Clock           // with FieldWallClock, unless the provider reads it
	rooms    map[uint32]*ops.Room // of send queues, by QPN; nil while no QP on the CQ has one
	tagged   *tagTable            // nil while no SRQ on the CQ matches tags
}

// cqDirect polls the ring of the direct data path. The CQ's lock guards all but ring.
type cqDirect struct {
	ring  *mlx5.CQ // nil on other data paths; never changes
	live  *mlx5.CQ // ring until the CQ is closed
	fast  *mlx5.CQ // live while nothing is held
	tags  bool     // the ring is polled by PollTags
	moved *dma.Mem // the ring since Resize
}

// cqQueues are those on a CQ of the direct data path that not every CQ takes. The CQ's lock guards it.
type cqQueues struct {
	dcts   int  // DCTs whose receives complete here
	xrc    *SRQ // XRC SRQ; nil without
	wq     *WQ  // then the only queue; nil without
	frames *QP  // raw packet QP whose receives complete here; nil without
}

// cqAcks are the events that were read without C. The channel's lock guards it.
type cqAcks struct {
	owed int
	each bool // the CQ is being closed
}

// CQOptions are the choices at the creation of a CQ. The zero value is the
// default.
type CQOptions struct {
	Channel    *CompChannel  // nil: one that all such CQs of the Device share
	CompVector int           // interrupt vector, below Device.NumCompVectors
	DataPath   DataPath      // engine of this CQ and of all QPs and SRQs on it
	Spin       time.Duration // how long Wait polls before it sleeps; 0 means 20 µs, None not at all
	NoEvents   bool          // no channel: Wait polls all the time

	// Solicited lets Wait sleep until a completion is solicited, by the peer's flag of that name, or has
	// failed. It then returns all that are there. Others do not wake it, sends among them.
	Solicited bool

	// Fields are the values that completions carry in addition to ID, Status, Opcode, VendorErr, QPN and Flags; fields
	// that are not asked for may be 0. Without Fields they have FieldsStandard, by the shortest way. A CQ with Fields
	// is made by ibv_create_cq_ex(3), and polled by ibv_start_poll(3) on DataPathOps: a call of C for each field.
	// PollEx returns those that WC has no place for. MLNX_OFED 4 has times by ibv_exp_create_cq, then without FieldSLID
	// and FieldSL, and no VLAN, flow tag or tag matching.
	Fields WCFields

	// SingleThreaded takes no lock: one goroutine at a time uses the CQ, and
	// closes it and the QPs on it. The provider is also informed, if it has a way for that.
	SingleThreaded bool
}

const defaultSpin = 20 * time.Microsecond

// DataPath is the engine of the CQ, and why it is that one.
func (cq *CQ) DataPath() (DataPath, string) { return cq.path, cq.pathWhy }

// Device is the device that the CQ belongs to.
func (cq *CQ) Device() *Device { return cq.dev }

// CQCap is the size of a CQ.
type CQCap struct {
	CQE int // completions that it holds
}

// Cap returns the size of the CQ, at least what was asked for.
func (cq *CQ) Cap() CQCap {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return CQCap{cq.cqe}
}

// Poll takes completions that are there, up to len(wcs), and never waits. Each
// is reported once. It does not allocate.
//
// C: ibv_poll_cq(3).
func (cq *CQ) Poll(wcs []WC) (int, error) {
	if r := cq.direct.ring; r != nil && r.Idle() && r.Empty() {
		return 0, nil
	}
	wcs = wcs[:len(wcs):len(wcs)] // a capacity would be one more word to keep on the stack
	cq.mu.Lock()
	if d := cq.direct.fast; d != nil {
		n, err := d.PollInto(firstWC(wcs), len(wcs))
		cq.mu.Unlock()
		if err != nil {
			return cq.pollFailed(wcs, err)
		}
		return n, nil
	}
	if p := cq.ops.poller; p != nil && cq.held == nil && cq.ops.rooms == nil && len(wcs) > 0 {
		n := p.Poll(len(wcs))
		if uint(n) >= ops.PollBatch {
			n, err := cq.pollRest(wcs, n)
			cq.mu.Unlock()
			return n, err
		}
		fromC(&wcs[0], cq.ops.poller.First(), n, cq.entries.sl)
		cq.mu.Unlock()
		return n, nil
	}
	n, err := cq.pollLocked(wcs)
	cq.mu.Unlock()
	if err != nil {
		return cq.pollFailed(wcs, err)
	}
	return n, nil
}

// pollFailed handles an error of Poll.
func (cq *CQ) pollFailed(wcs []WC, err error) (n int, _ error) {
	for cq.pollAgain(err) {
		cq.mu.Lock()
		n, err = cq.pollLocked(wcs)
		cq.mu.Unlock()
	}
	return n, cq.pollError(err)
}

// pollAgain reports whether err is that of a suspended QP, when the suspension is over.
func (cq *CQ) pollAgain(err error) bool {
	if err != mlx5.ErrSuspended {
		return false
	}
	cq.dev.direct.settled()
	return true
}

// pollError returns the error of Poll for an error of the rings.
func (cq *CQ) pollError(err error) error {
	if _, corrupt := err.(*mlx5.CQEError); corrupt {
		return &OpError{Op: "poll cq", Object: cq.name, Err: &CompletionError{Err: err}}
	}
	return err
}

// pollLocked is Poll in any case. Errors of the rings are as they are.
// Preconditions: cq.mu is held.
func (cq *CQ) pollLocked(wcs []WC) (int, error) {
	if cq.held != nil {
		if got, done, err := cq.takeHeld(len(wcs)); done {
			for i := range got {
				wcs[i] = got[i].WC
			}
			return len(got), err
		}
	}
	if cq.direct.live != nil {
		if cq.usual() == nil {
			return cq.direct.live.PollTags(mlx5WCs(wcs), cq.direct.tags)
		}
		return cq.direct.live.PollInto(firstWC(wcs), len(wcs))
	}
	if cq.ops.poller == nil {
		switch {
		case cq.ops.extended != nil:
			return cq.pollExtended(wcs, nil)
		case cq.ops.other != nil:
			return cq.pollOther(wcs, nil)
		}
		return 0, cq.errGone
	}
	return cq.pollOps(wcs)
}

// held has the completions that were taken out of a CQ before Poll asked for them.
type held struct {
	wcs []WCEx
	err error // comes after them; nil for none
}

// takeHeld takes up to most of what is held. Unless it returns true, the queue itself is to be polled.
// Preconditions: cq.mu is held, something is held.
func (cq *CQ) takeHeld(most int) (got []WCEx, done bool, err error) {
	h := cq.held
	n := min(most, len(h.wcs))
	got, h.wcs = h.wcs[:n], h.wcs[n:]
	if len(h.wcs) == 0 && (n == 0 || h.err == nil) {
		cq.heldNothing()
	}
	if n > 0 || cq.held != nil {
		return got, true, nil
	}
	return nil, h.err != nil, h.err
}

// hold takes out what the CQ has, for Poll to return later: from then on no completion
// that is there makes the library copy a payload. A CQ without a lock is left alone.
// Preconditions: no QP is suspended.
func (cq *CQ) hold() {
	if cq.mu.Off {
		return
	}
	cq.mu.Lock()
	defer cq.mu.Unlock()
	cq.holdLocked()
}

// Preconditions: cq.mu is held, no QP is suspended.
func (cq *CQ) holdLocked() {
	if cq.direct.live == nil && cq.ops.poller == nil && cq.ops.extended == nil && cq.ops.other == nil {
		return
	}
	before := cq.held
	if before != nil && before.err != nil {
		return
	}
	if cq.direct.ring != nil {
		cq.direct.ring.Hide() // first: a goroutine that finds the ring empty must learn what was in it
	}
	cq.held = nil
	var wcs [64]WCEx
	n, err := cq.pollExLocked(wcs[:])
	h := held{}
	if before != nil {
		h.wcs = before.wcs
	}
	for ; n > 0; n, err = cq.pollExLocked(wcs[:]) {
		h.wcs = append(h.wcs, wcs[:n]...)
	}
	if h.err = err; len(h.wcs) > 0 || err != nil {
		cq.held, cq.direct.fast = &h, nil
		cq.announce() // there may be no event for what is taken
		return
	}
	cq.heldNothing()
}

// heldNothing ends the time of held completions: Poll reads only the ring again.

// Preconditions: cq.mu is held.
func (cq *CQ) heldNothing() {
	cq.held, cq.direct.fast = nil, cq.usual()
	if cq.direct.live != nil {
		cq.direct.live.Show()
	}
}

// usual is the ring that Poll polls at once, nil if there is more to do.
func (cq *CQ) usual() *mlx5.CQ {
	if d := cq.direct.live; d != nil && !cq.direct.tags && cq.queues.frames == nil && !d.VLANs() {
		return d
	}
	return nil
}

// dropHeld forgets the held completions of a QP.
// Preconditions: cq.mu is held.
func (cq *CQ) dropHeld(qpn uint32) {
	if cq.held != nil {
		cq.held.wcs = slices.DeleteFunc(cq.held.wcs, func(wc WCEx) bool { return wc.QPN == qpn })
	}
}

// Arm asks for one event when the next completion arrives, or with
// solicitedOnly the next one that is solicited or failed. Wait does this automatically. Poll after arming: a completion
// may have come before.
//
// C: ibv_req_notify_cq(3).
func (cq *CQ) Arm(solicitedOnly bool) error {
	cq.mu.Lock()
	if cq.direct.live != nil {
		cq.direct.live.Arm(solicitedOnly)
		cq.mu.Unlock()
		return nil
	}
	var e int
	switch {
	case cq.ops.poller != nil:
		e = cq.ops.poller.Arm(solicitedOnly)
	case cq.ops.extended != nil:
		e = cq.ops.extended.Arm(solicitedOnly)
	case cq.ops.other != nil:
		e = cq.ops.other.Arm(solicitedOnly)
	default:
		cq.mu.Unlock()
		return cq.errGone
	}
	cq.mu.Unlock()
	if e != 0 {
		return &OpError{Op: "arm cq", Object: cq.name, Err: cq.dev.explain(errnoError(e))}
	}
	return nil
}

// event takes note of an event from the channel.
func (cq *CQ) event() {
	if cq.direct.ring != nil {
		cq.direct.ring.Event() // without the lock: Close holds it until all events are acknowledged
	}
	cq.events.Add(1) // behind it: a waiter that arms after having seen this count arms with the new one
	cq.sleepers.wake()
}

// fail ends the waits for the CQ, which has failed. Completions that came before stay there.
func (cq *CQ) fail(err error) {
	cq.sleepers.failed.note(err)
	cq.announce()
}

// announce has all that wait for the CQ poll it, although there is no event: among them the one in
// [CompChannel.ReadEvents].
func (cq *CQ) announce() {
	cq.events.Add(1)
	cq.sleepers.wake()
	if cq.channel != nil {
		cq.channel.Interrupt()
	}
}
