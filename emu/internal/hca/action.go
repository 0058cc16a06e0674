//go:build linux

package hca

import "golang.org/x/sys/unix"

// FrameAction changes the frames of a rule: their headers, or the tunnel that they are in.
type FrameAction struct {
	Held
	Table    Table
	Header   []HeaderChange // nil: it is a Reformat
	Reformat Reformat
	Data     []byte
}

// HeaderChange is one change of a field.
type HeaderChange struct {
	Kind        HeaderChangeKind
	Field, From uint16
	// Bits of each field, and how many.
	Offset, FromOffset, Length uint8
	Value                      uint32
}

// HeaderChangeKind is what a change does, with the device's numbers.
type HeaderChangeKind uint8

// The kinds.
const (
	HeaderSet  HeaderChangeKind = 1
	HeaderAdd  HeaderChangeKind = 2
	HeaderCopy HeaderChangeKind = 3
)

// Reformat is a way into or out of a tunnel, with the kernel's numbers.
type Reformat uint64

// The ways.
const (
	L2FromTunnel Reformat = iota
	L2ToTunnel
	L3FromTunnel
	L3ToTunnel
)

const maxHeaderChanges = 32

// CreateHeaderAction makes an action that changes headers. known tells the fields that the device can change.
func CreateHeaderAction(c *Context, t Table, list []HeaderChange, known func(uint16) (width int)) (*FrameAction,
	unix.Errno) {
	switch {
	case t > lastTable:
		return nil, unix.EINVAL
	case t > TableTx, len(list) > maxHeaderChanges:
		return nil, unix.EOPNOTSUPP
	case len(list) == 0:
		return nil, unix.EINVAL
	}
	for _, h := range list {
		w := known(h.Field)
		bad := w == 0 || int(h.Offset)+int(h.Length) > w
		switch h.Kind {
		case HeaderSet, HeaderAdd:
		case HeaderCopy:
			bad = bad || int(h.FromOffset)+int(h.Length) > known(h.From)
		default:
			bad = true
		}
		if bad {
			return nil, unix.EINVAL
		}
	}
	return added(c, &FrameAction{Held: c.held(rankOfRule, "flow action"), Table: t, Header: list})
}

// CreateReformatAction makes an action about tunnels.
func CreateReformatAction(c *Context, t Table, way Reformat, data []byte) (*FrameAction, unix.Errno) {
	switch {
	case t > lastTable, way > L3ToTunnel:
		return nil, unix.EINVAL
	case way == L2FromTunnel || way == L3FromTunnel:
		if t != TableRx {
			return nil, unix.EOPNOTSUPP
		}
	case t != TableTx:
		return nil, unix.EOPNOTSUPP
	}
	switch n := len(data); {
	case way == L2FromTunnel: // the kernel does not look
	case way == L3FromTunnel && n != 14 && n != 18, n < 14, n > 128:
		return nil, unix.EINVAL
	}
	return added(c, &FrameAction{Held: c.held(rankOfRule, "flow action"), Table: t, Reformat: way, Data: data})
}
