package ibv

import (
	"fmt"
	"strings"
)

// bindFixed holds, by series of rdma-core, the first release whose libmlx5 takes the end of the
// send queue into account when it binds a window. Before, it wrote what did not fit behind the
// queue. All of v41 and later do. C: set_bind_wr, "if (unlikely((seg == qend)))" (rdma-core v40.0,
// providers/mlx5/qp.c).
var bindFixed = map[int]int{20: 12, 21: 11, 22: 12, 23: 10, 24: 10, 25: 11, 26: 9, 27: 8, 28: 8, 29: 7, 30: 7, 31: 8,
	32: 7, 33: 7, 34: 6, 35: 5, 36: 5, 37: 4, 38: 3, 39: 2, 40: 1}

// bindsBeyond reports whether the libmlx5 of a release may write behind the send queue. Of a
// release that is not known it is assumed not to.
func bindsBeyond(version string) bool {
	var series, release int
	if _, err := fmt.Sscanf(strings.ReplaceAll(version, ".", " "), "%d %d", &series, &release); err != nil {
		return false
	}
	fixed, known := bindFixed[series]
	return series < 20 || known && release < fixed
}

// bindError returns why the ops engine cannot bind windows, nil if it can.
func (d *Device) bindError() error {
	version := d.v.Version()
	if !d.mayBeMLX5() || !bindsBeyond(version) {
		return nil
	}
	have := "version " + version
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
	case d.legacy:
		return errLegacyMW()
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
