//go:build linux

package verbs

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/engine"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Attributes of the driver's methods for steering. C: mlx5_user_ioctl_cmds.h.
const (
	attrMatchMask     = uapi.DriverNS + 1
	attrMatchPriority = uapi.DriverNS + 2 // of the only type of matchers, normal
	attrMatchCriteria = uapi.DriverNS + 3
	attrMatchFlags    = uapi.DriverNS + 4
	attrMatchTable    = uapi.DriverNS + 5

	attrFlowValue   = uapi.DriverNS + 1
	attrFlowQP      = uapi.DriverNS + 2
	attrFlowDevX    = uapi.DriverNS + 3
	attrFlowMatcher = uapi.DriverNS + 4
	attrFlowActions = uapi.DriverNS + 5
	attrFlowTag     = uapi.DriverNS + 6
	attrFlowCounter = uapi.DriverNS + 7
	attrFlowOffset  = uapi.DriverNS + 8
	attrFlowFlags   = uapi.DriverNS + 9

	flowMiss = 1 << 0
	flowDrop = 1 << 1
)

func createMatcher(c *call) unix.Errno {
	i := hca.MatcherInit{Mask: slices.Clone(c.b.Bytes(attrMatchMask)), Priority: uint16(c.b.Uint(attrMatchPriority)),
		Criteria: uint8(c.b.Uint(attrMatchCriteria)), Table: hca.Table(c.b.Uint(attrMatchTable))}
	if flags := c.b.Uint(attrMatchFlags); c.b.Has(attrMatchFlags) {
		if c.b.Has(attrMatchTable) || flags&^flowEgress != 0 {
			return unix.EINVAL
		}
		if flags != 0 {
			i.Table = hca.TableTx
		}
	}
	return named(c, func() (*hca.Matcher, unix.Errno) { return hca.CreateMatcher(c.ctx, &i) })
}

func createMatcherFlow(c *call) unix.Errno {
	if !c.who.capable(unix.CAP_NET_RAW) {
		return unix.EPERM
	}
	flags := c.b.Uint(attrFlowFlags)
	if flags&^(flowMiss|flowDrop) != 0 {
		return unix.EINVAL
	}
	offset := c.b.Bytes(attrFlowOffset)
	if len(offset) > 4 {
		return unix.EINVAL
	}
	i := hca.MatcherFlowInit{Matcher: uint32(c.b.Uint(attrFlowMatcher)), Value: c.b.Bytes(attrFlowValue),
		QP: uint32(c.b.Uint(attrFlowQP)), HasQP: c.b.Has(attrFlowQP), Drop: flags&flowDrop != 0,
		TIR: uint32(c.b.Uint(attrFlowDevX)), Miss: flags&flowMiss != 0,
		Tag: uint32(c.b.Uint(attrFlowTag)), Tagged: c.b.Has(attrFlowTag)}
	if i.Count = uint32(c.b.Uint(attrFlowCounter)); len(offset) == 4 {
		i.Offset = binary.NativeEndian.Uint32(offset)
	}
	for b := c.b.Bytes(attrFlowActions); len(b) >= 4; b = b[4:] {
		i.Changes = append(i.Changes, binary.NativeEndian.Uint32(b))
	}
	return named(c, func() (*hca.Flow, unix.Errno) { return hca.CreateMatcherFlow(c.ctx, &i, engine.Comparable) })
}

func createHeaderAction(c *call) unix.Errno {
	b := c.b.Bytes(uapi.DriverNS + 1)
	if len(b)%8 != 0 {
		return unix.EINVAL
	}
	var list []hca.HeaderChange
	for ; len(b) > 0; b = b[8:] {
		list = append(list, headerChange(binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])))
	}
	return named(c, func() (*hca.FrameAction, unix.Errno) {
		return hca.CreateHeaderAction(c.ctx, hca.Table(c.b.Uint(uapi.DriverNS+2)), list, engine.FieldWidth)
	})
}

// headerChange reads an action of the device's format. C: union set_add_copy_action_in_auto.
func headerChange(head, data uint32) hca.HeaderChange {
	h := hca.HeaderChange{Kind: hca.HeaderChangeKind(head >> 28), Field: uint16(head >> 16 & 0xfff), Value: data}
	width := uint8(engine.FieldWidth(h.Field))
	length := uint8(head & 31)
	if length == 0 {
		length = 32
	}
	switch h.Kind {
	case hca.HeaderSet:
		h.Offset, h.Length = uint8(head>>8&31), length
	case hca.HeaderAdd:
		h.Length = width
	case hca.HeaderCopy:
		h.From, h.FromOffset, h.Length = h.Field, uint8(head>>8&31), length
		h.Field, h.Offset = uint16(data>>16&0xfff), uint8(data>>8&31)
	}
	return h
}

func createReformatAction(c *call) unix.Errno {
	data := slices.Clone(c.b.Bytes(uapi.DriverNS + 3))
	return named(c, func() (*hca.FrameAction, unix.Errno) {
		return hca.CreateReformatAction(c.ctx, hca.Table(c.b.Uint(uapi.DriverNS+2)),
			hca.Reformat(c.b.Uint(uapi.DriverNS+1)), data)
	})
}

func createAnchor(c *call) unix.Errno {
	if !c.who.capable(unix.CAP_NET_RAW) {
		return unix.EPERM
	}
	a, e := made(c, func() (*hca.Anchor, unix.Errno) {
		return hca.CreateAnchor(c.ctx, hca.Table(c.b.Uint(uapi.DriverNS+1)), uint16(c.b.Uint(uapi.DriverNS+2)))
	})
	if e != 0 {
		return e
	}
	return first(out(c, uapi.DriverNS+3, a.ID), c.b.SetID(uapi.DriverNS, uint64(a.Handle)))
}
