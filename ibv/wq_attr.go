package ibv

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// WQAttr are the attributes of a WQ.
//
// C: struct ibv_wq_attr.
type WQAttr struct {
	State     WQState // with MaskWQState
	CurState  WQState // with MaskWQCurState: the state that the WQ is in. WQError after EventWQFatal
	Flags     WQFlags // with MaskWQFlags: the values of those in FlagsMask
	FlagsMask WQFlags
}

// Modify changes the attributes that mask names, most often the state: from WQReset to WQReady, from
// WQReady to WQError, and from any to WQReset, which empties the WQ. Receives that were posted
// before a reset give no completion, and those that have completed give none after the next step to
// WQReady. mlx5 changes no flag but WQStripVLAN.
//
// The driver learns of no failure. To reset a WQ after EventWQFatal, give CurState WQError with
// State WQReset.
//
// C: ibv_modify_wq(3).
func (w *WQ) Modify(attr *WQAttr, mask WQAttrMask) error {
	const op = "modify wq"
	if attr == nil {
		return opError(op, w.name, &ArgError{Arg: "attr", Got: "nil", Want: "attributes"})
	}
	return w.do(op, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := attr.check(mask, w.state); err != nil {
			return err
		}
		return w.modify(attr, mask)
	})
}

func (a *WQAttr) check(mask WQAttrMask, state WQState) error {
	bad := func(arg, got, want string) error { return &ArgError{Arg: arg, Got: got, Want: want} }
	odd := (a.Flags | a.FlagsMask) &^ knownWQFlags
	switch {
	case mask == 0, mask&^(MaskWQState|MaskWQCurState|MaskWQFlags) != 0:
		return bad("mask", mask.String(), "of State, CurState and Flags")
	case mask&MaskWQState != 0 && a.State > WQError:
		return bad("State", a.State.String(), "WQReset, WQReady or WQError")
	case mask&MaskWQCurState != 0 && a.CurState != state && (a.CurState != WQError || state != WQReady):
		want := "the state of the WQ, " + state.String()
		if state == WQReady {
			want += ", or Error if the WQ has failed"
		}
		return bad("CurState", a.CurState.String(), want)
	case mask&MaskWQFlags != 0 && odd != 0:
		return bad("Flags", odd.String(), "those of "+WQFlags(knownWQFlags).String())
	case mask&MaskWQFlags != 0 && a.Flags&^a.FlagsMask != 0:
		return bad("Flags", a.Flags.String(), "flags that FlagsMask names: "+a.FlagsMask.String())
	}
	return nil
}

// modify calls C, and follows the state.
// Preconditions: w.mu is held, the WQ is open.
func (w *WQ) modify(attr *WQAttr, mask WQAttrMask) error {
	d := w.pd.dev
	c := &abi.WQAttr{AttrMask: uint32(mask), WQState: uint32(attr.State), CurrWQState: uint32(attr.CurState),
		Flags: uint32(attr.Flags), FlagsMask: uint32(attr.FlagsMask)}
	if err := d.v.ModifyWQ(d.handle, w.handle, c); err != nil {
		return w.explainModify(err, attr, mask)
	}
	if mask&MaskWQCurState != 0 {
		w.state = attr.CurState
	}
	if mask&MaskWQState == 0 {
		return nil
	}
	if w.state = attr.State; w.state == WQReset && w.direct != nil {
		w.cq.mu.Lock()
		w.cq.direct.ring.ResetWQ()
		w.cq.mu.Unlock()
	}
	return nil
}

func (w *WQ) explainModify(err error, attr *WQAttr, mask WQAttrMask) error {
	switch {
	case unsupported(err) && mask&MaskWQFlags != 0:
		return &UnsupportedError{Feature: "changing " + attr.FlagsMask.String() + " of a WQ",
			Need: "a new WQ: mlx5 changes only StripVLAN", Have: w.pd.dev.Name()}
	case !errors.Is(err, errInvalid) || mask&MaskWQState == 0:
	case mask&MaskWQCurState != 0 && attr.CurState != w.state:
		return errors.Join(&ArgError{Arg: "CurState", Got: attr.CurState.String(),
			Want: w.state.String() + ", unless the WQ has failed"}, err)
	case mask&MaskWQCurState == 0 && w.state == WQReady && attr.State != WQReady:
		return errors.Join(&ArgError{Arg: "CurState", Got: "not given",
			Want: "Error if the WQ has failed, as EventWQFatal tells"}, err)
	case attr.State != WQReset && attr.State != w.state:
		return errors.Join(&ArgError{Arg: "State", Got: fmt.Sprintf("%v in state %v", attr.State, w.state),
			Want: "Ready after Reset, Error after Ready, or Reset"}, err)
	}
	return err
}
