package ibv

import "github.com/pureverbs/pureverbs/internal/level"

// bindError returns why the ops engine cannot bind windows, nil if it can.
func (d *Device) bindError() error {
	if !d.hasFault(level.BindMW) {
		return nil
	}
	have := "version " + d.v.Version()
	if d.directError() == nil {
		have += "; use DataPathDirect"
	}
	return &UnsupportedError{Feature: "binding a memory window with DataPathOps",
		Need: "a libmlx5 that does not write behind the send queue: rdma-core v41, or a late release of a series " +
			"before",
		Have: have}
}

// CanBindMW returns why windows of a type cannot be bound on the device's QPs with that data path, nil if they can.
func (d *Device) CanBindMW(t MWType, path DataPath) error {
	switch {
	case t != MWType1 && t != MWType2:
		return &ArgError{Arg: "type", Got: t.String(), Want: "MWType1 or MWType2"}
	case d.keys != nil:
		return d.needKeys(aWindow)
	case d.attr.CapFlags&t.caps() == 0:
		return errNeedsMW(d, t)
	case path == DataPathOps:
		return d.bindError()
	}
	return nil
}

// MWBounds reports whether the device refuses accesses by the key of a memory window that are outside of it. SoftRoCE
// refuses only those outside of its MR.
func (d *Device) MWBounds() bool { return !d.softRoCE() }
