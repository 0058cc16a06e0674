package ibv

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/ops"
)

// WCEx is a completion with the fields that few programs ask for. PollEx and WaitEx return it.
type WCEx struct {
	WC
	WallClock uint64 // nanoseconds since 1970, with FieldWallClock
	TM        TMInfo // with FieldTMInfo

	// Of receives on CQs of efadv.CreateCQ. Unsolicited is a write with immediate that consumed no
	// receive: its ID means nothing.
	SrcGID      GID
	HasSrcGID   bool
	Unsolicited bool
}

// TMInfo is the tag matching header of a message.
//
// C: struct ibv_wc_tm_info.
type TMInfo struct {
	Tag  uint64
	Priv uint32
}

// knownFields are the bits of WCFields that this release knows.
const knownFields = FieldsStandard | FieldTimestamp | FieldCVLAN | FieldFlowTag | FieldTMInfo | FieldWallClock

// checkWCFields refuses fields that no CQ can have.
func checkWCFields(f WCFields) error {
	if f&^knownFields != 0 {
		return &ArgError{Arg: "Fields", Got: f.String(), Want: "bits of " + knownFields.String()}
	}
	return nil
}

// fieldsDirect returns why the direct data path cannot read these fields, nil if it can.
func fieldsDirect(f WCFields) error {
	if f&FieldTMInfo == 0 {
		return nil
	}
	return &UnsupportedError{Feature: "TMInfo on the direct data path", Need: "DataPathOps",
		Have: "a ring on which no SRQ matches tags"}
}

// directFor returns why a CQ with these options cannot be direct, nil if it can.
func (d *Device) directFor(opt *CQOptions) func() error {
	return func() error {
		if err := fieldsDirect(opt.Fields); err != nil {
			return err
		}
		return d.directError()
	}
}

// wcFlags returns what create_cq_ex is asked for, 0 if the CQ asks for no fields. The QPN is always there, because
// completions of a closed QP are found by it.
func (cq *CQ) wcFlags() uint64 {
	f := cq.fields
	if f == 0 {
		return 0
	}
	if cq.convertsTicks() {
		f = f&^FieldWallClock | FieldTimestamp
	}
	return uint64(f | FieldQPN)
}

// convertsTicks reports whether Go makes the wall clock of ticks. On mlx5 it does: the start_poll of a CQ with a wall
// clock fails while the kernel is updating how ticks relate to time, and then has lost the completion. Also, libmlx5
// may have the device write times instead of ticks if it is asked for nothing else (rdma-core v44.0,
// providers/mlx5/verbs.c:1104).
func (cq *CQ) convertsTicks() bool {
	return cq.fields&FieldWallClock != 0 &&
		(cq.path == DataPathDirect || cq.path == DataPathOps && cq.dev.mayBeMLX5())
}

// explainFields returns an error with the fields that a provider refused.
func (cq *CQ) explainFields(err error) error {
	var lack *control.Lack
	if err == nil || !unsupported(err) || errors.As(err, &lack) {
		return cq.dev.lacking(err)
	}
	if e := cq.dev.v.needLibrary("completions with " + cq.fields.String()); e != nil {
		return e
	}
	have := cq.dev.Name() + " without it or some of them"
	if errors.Is(err, control.ErrNoOp) {
		have = fmt.Sprintf("libibverbs version %q", cq.dev.v.Version())
	}
	return &UnsupportedError{Feature: "completions with " + cq.fields.String(),
		Need: "a library and a provider with create_cq_ex and these fields; ask for fewer CQOptions.Fields, or for " +
			"none", Have: have}
}

// initFields prepares polling of a CQ with Fields.
func (cq *CQ) initFields() (err error) {
	d := cq.dev
	switch cq.path {
	case DataPathOps:
		if cq.ops.other, err = d.v.ExpPoller(d.handle, cq.handle, uint64(cq.fields)); !errors.Is(err, control.ErrNoOp) {
			return d.lacking(err)
		}
		var missing string
		cq.ops.extended, missing, err = ops.NewExPoller(d.table, d.handle, cq.handle, cq.wcFlags())
		if missing != "" {
			return &UnsupportedError{Feature: "completions with " + cq.fields.String(),
				Need: "a provider with " + missing, Have: d.Name()}
		}
	case DataPathDirect:
		cq.direct.tags = cq.fields&(FieldCVLAN|FieldFlowTag) != 0
		cq.direct.fast = cq.usual()
	}
	if err != nil || !cq.convertsTicks() {
		return err
	}
	if cq.ops.clock, err = d.newClock(); err != nil && cq.ops.extended != nil {
		err = errors.Join(err, cq.ops.extended.Free())
	}
	return err
}

// newClock returns how ticks of the mlx5 device relate to time.
func (d *Device) newClock() (*ops.Clock, error) {
	lib, err := d.v.mlx5()
	if err != nil {
		return nil, err
	}
	info, err := lib.ClockInfo(d.handle)
	var c *ops.Clock
	switch {
	case info.Page != nil:
		c, err = ops.NewPageClock(info.Page)
	case info.Func != 0:
		c, err = ops.NewClock(info.Func, d.handle)
	case !d.v.native:
		return nil, noClock(fmt.Sprintf("libibverbs version %q", d.v.Version()))
	}
	if unsupported(err) || err == errInvalid { // the kernel shares no such page
		err = noClock(d.Name())
	}
	return c, err
}

func noClock(have string) error {
	return &UnsupportedError{Feature: "completions with WallClock",
		Need: "a library and a driver that report how ticks relate to time, or FieldTimestamp instead of " +
			"FieldWallClock", Have: have}
}

// PollEx is Poll with all fields that CQOptions.Fields asks for.
//
// C: ibv_start_poll(3), ibv_next_poll(3), ibv_end_poll(3).
func (cq *CQ) PollEx(wcs []WCEx) (int, error) {
	if r := cq.direct.ring; r != nil && r.Idle() && r.Empty() {
		return 0, nil
	}
	cq.mu.Lock()
	n, err := cq.pollExLocked(wcs)
	cq.mu.Unlock()
	for cq.pollAgain(err) {
		cq.mu.Lock()
		n, err = cq.pollExLocked(wcs)
		cq.mu.Unlock()
	}
	return n, cq.pollError(err)
}

// pollExLocked is PollEx. Errors of the rings are as they are.
// Preconditions: cq.mu is held.
func (cq *CQ) pollExLocked(wcs []WCEx) (int, error) {
	if cq.held != nil {
		if got, done, err := cq.takeHeld(len(wcs)); done {
			return copy(wcs, got), err
		}
	}
	var n int
	var err error
	switch {
	case cq.ops.extended != nil:
		n, err = cq.pollExtended(nil, wcs)
	case cq.ops.other != nil:
		n, err = cq.pollOther(nil, wcs)
	default:
		n, err = cq.pollLocked(packed(wcs))
		unpack(wcs, n)
	}
	if cq.ops.clock != nil && n > 0 {
		cq.ops.clock.Update()
		for i := range wcs[:n] {
			if wc := &wcs[i]; wc.Status == WCSuccess {
				wc.WallClock = cq.ops.clock.Nanoseconds(wc.Timestamp)
			}
		}
	}
	return n, err
}

// pollExtended polls by the functions of struct ibv_cq_ex, into one of the slices; the other one is nil.
// Preconditions: cq.mu is held, nothing is held.
func (cq *CQ) pollExtended(wcs []WC, more []WCEx) (int, error) {
	p, n, most := cq.ops.extended, 0, len(wcs)+len(more)
	if most == 0 {
		return 0, nil
	}
	ret := p.Start()
	for ret == 0 {
		var wc []WC
		if more != nil {
			more[n].read(p)
			wc = packed(more[n : n+1])
		} else {
			wcs[n].read(p)
			wc = wcs[n : n+1]
		}
		if wc[0].SL &= cq.entries.sl; cq.entries.sl == 0 && cq.fields&FieldSL != 0 && wc[0].Flags&WCGRH != 0 {
			wc[0].SL = uint8(wc[0].CVLAN >> 13)
		}
		if cq.ops.rooms != nil {
			cq.freeRoom(wc)
		}
		if cq.ops.tagged != nil {
			cq.ops.tagged.translate(&wc[0])
		}
		if n++; n == most {
			p.End()
			break // a Next would take one more out
		}
		if cq.dev.softRoCE() {
			p.End()
			ret = p.Start()
		} else if ret = p.Next(); ret != 0 {
			p.End()
		}
	}
	switch {
	case ret == 0, ret == ops.Empty:
		return n, nil
	case n > 0:
		cq.held = &held{err: cq.errPoll} // the provider may not report it again
		return n, nil
	}
	return 0, cq.errPoll
}

// softRoCE reports whether the provider may be librxe, whose next_poll before v59 ends the batch if there is no other
// completion: the end_poll that C asks for then skips a completion, and unlocks again (rdma-core v44.0,
// providers/rxe/rxe.c:275, 284). There a batch has one completion. Software has no vendor's ID, or all ones.
func (d *Device) softRoCE() bool { return d.attr.VendorID == 0 || d.attr.VendorID == vendorSoftRoCE }

const vendorSoftRoCE = 0xffffff

// read reads the completion that p is at.
func (wc *WCEx) read(p *ops.ExPoller) {
	wc.WC.read(p)
	wc.WallClock, wc.TM, wc.SrcGID, wc.HasSrcGID, wc.Unsolicited = 0, TMInfo{}, GID{}, false, false
	if wc.Status != WCSuccess {
		return
	}
	wc.WallClock = p.Read(ops.ReadWallClock)
	if wc.Opcode.IsRecv() {
		wc.TM.Tag, wc.TM.Priv = p.TMInfo()
		if p.EFA.CQ != 0 {
			wc.readEFA(p)
		}
	}
}

// read reads the completion that p is at, with the fields and for the opcodes that fromC knows. One that failed has
// no others than those of WC.Err.
func (wc *WC) read(p *ops.ExPoller) {
	*wc = WC{ID: p.ID(), Status: WCStatus(p.Status()), QPN: uint32(p.Read(ops.ReadQPN))}
	if wc.Status != WCSuccess {
		wc.VendorErr = uint32(p.Read(ops.ReadVendorErr))
		return
	}
	wc.Opcode, wc.Flags = WCOpcode(p.Read(ops.ReadOpcode)), WCFlags(p.Read(ops.ReadFlags))
	wc.Timestamp = p.Read(ops.ReadTimestamp)
	if !wc.Opcode.IsRecv() {
		switch wc.Opcode {
		case WCRead, WCCompareSwap, WCFetchAdd:
			wc.ByteLen = uint32(p.Read(ops.ReadByteLen))
		}
		return
	}
	wc.ByteLen, wc.SrcQPN = uint32(p.Read(ops.ReadByteLen)), uint32(p.Read(ops.ReadSrcQPN))
	if wc.Flags&WCWithInv != 0 {
		wc.InvalidatedRKey = uint32(p.Read(ops.ReadImm)) // host order, in the same place
	} else if wc.Flags&WCWithImm != 0 {
		wc.Imm = bits.ReverseBytes32(uint32(p.Read(ops.ReadImm))) // big-endian
	}
	wc.SLID, wc.SL = uint16(p.Read(ops.ReadSLID)), uint8(p.Read(ops.ReadSL))
	wc.DLIDPathBits = uint8(p.Read(ops.ReadDLIDPathBits))
	wc.CVLAN, wc.FlowTag = uint16(p.Read(ops.ReadCVLAN)), uint32(p.Read(ops.ReadFlowTag))&max24 // libmlx5 before v21
}
