package ibv

import (
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/internal/work"
)

// String returns a line for the QP, and one for each work request.
func (p *Posted) String() string {
	if p == nil {
		return "no record of work requests"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "qp %s (%v): %d sends and %d receives, the oldest first", p.QP, p.Type, len(p.Sends),
		len(p.Recvs))
	for i := range p.Sends {
		fmt.Fprintf(&b, "\nsend %v", p.Sends[i])
	}
	for i := range p.Recvs {
		fmt.Fprintf(&b, "\nrecv %v", p.Recvs[i])
	}
	return b.String()
}

// place describes which work request it is, and what became of it.
func (s PostedState) place(b *strings.Builder, index uint16, id uint64, status WCStatus, vendor uint32) {
	fmt.Fprintf(b, "%d", index)
	if s != PostedUnknown || id != 0 {
		fmt.Fprintf(b, " id %#x", id)
	}
	switch s {
	case PostedUnknown:
	case PostedFailed:
		fmt.Fprintf(b, " FAILED with %v", status)
		if vendor != 0 {
			fmt.Fprintf(b, " (vendor syndrome %#x)", vendor)
		}
	default:
		b.WriteString(" " + strings.ToLower(s.String()))
	}
	b.WriteString(": ")
}

// String returns one line, without any payload, as in
//
//	17 id 0x2a FAILED with RemAccessErr (vendor syndrome 0x88): Write Signaled, 64 bytes,
//	remote 0x7f3a44000000 rkey 0x1872, sge 0x7f3a45000000 64 bytes lkey 0x1871
//
// without the break.
func (s PostedSend) String() string {
	var b strings.Builder
	s.State.place(&b, s.Index, s.ID, s.Status, s.VendorErr)
	if s.Opcode == ^Opcode(0) {
		fmt.Fprintf(&b, "device opcode %#02x", s.DeviceOpcode)
	} else {
		b.WriteString(s.Opcode.String())
	}
	if s.Flags != 0 {
		fmt.Fprintf(&b, " %v", s.Flags)
	}
	say := func(format string, args ...any) { fmt.Fprintf(&b, ", "+format, args...) }
	if s.Damaged {
		say("DAMAGED: something overwrote it")
	}
	f := work.FieldsOf(uint32(s.Opcode))
	if n := s.Len(); n > 0 || f&work.Data != 0 {
		say("%d bytes", n)
	}
	if s.InlineLen > 0 || s.HeaderLen > 0 {
		b.WriteString(" (")
		if s.HeaderLen > 0 {
			fmt.Fprintf(&b, "header %d, ", s.HeaderLen)
		}
		fmt.Fprintf(&b, "inline %d)", s.InlineLen)
	}
	if s.TSO != nil {
		say("mss %d", s.TSO.MSS)
	}
	for _, f := range []struct {
		format string
		v      uint32
	}{{"to qp %#x", s.RemoteQPN}, {"qkey %#x", s.RemoteQKey}, {"to srq %#x", s.RemoteSRQN},
		{"stream %d", uint32(s.DCStream)}} {
		if f.v != 0 {
			say(f.format, f.v)
		}
	}
	if f&work.Remote != 0 {
		say("remote %#x rkey %#x", s.Remote.Addr, s.Remote.RKey)
	}
	switch {
	case f&work.Imm != 0:
		say("imm %#x", s.Imm)
	case f&work.InvalidateRKey != 0:
		say("invalidates rkey %#x", s.InvalidateRKey)
	case f&work.Swap != 0:
		say("compare %#x swap %#x", s.CompareAdd, s.Swap)
	case f&work.Atomic != 0:
		say("add %#x", s.CompareAdd)
	case f&work.Masked != 0:
		say("operands of %d bytes", s.Masked.Size)
	}
	if c := s.Change; c != nil {
		c.describe(say, f)
	}
	describeList(&b, s.SGEs)
	return b.String()
}

func (c *PostedChange) describe(say func(format string, args ...any), f work.Fields) {
	say("key %#x becomes %#x", c.Key, c.NewKey)
	if c.Length == 0 {
		return
	}
	say("%d bytes", c.Length)
	if f&work.Window != 0 {
		say("at %#x lkey %#x", c.Addr, c.LKey)
	}
	say("access %v", c.Access)
}

// Len returns how many bytes the work request moves, results of reads and atomics included.
func (s PostedSend) Len() uint64 {
	if work.FieldsOf(uint32(s.Opcode))&work.Copy != 0 && len(s.SGEs) > 1 {
		return uint64(s.SGEs[0].Length)
	}
	return uint64(s.InlineLen+s.HeaderLen) + lengthOf(s.SGEs)
}

// String returns one line, as in "3 id 0x7 outstanding: 4096 bytes, sge 0x7f3a45000000 4096 bytes lkey 0x1871".
func (r PostedRecv) String() string {
	var b strings.Builder
	r.State.place(&b, r.Index, r.ID, r.Status, r.VendorErr)
	fmt.Fprintf(&b, "%d bytes", lengthOf(r.SGEs))
	describeList(&b, r.SGEs)
	return b.String()
}

func describeList(b *strings.Builder, sges []SGE) {
	for i := range sges {
		s := &sges[i]
		fmt.Fprintf(b, ", sge %#x %d bytes lkey %#x", s.Addr, s.Length, s.LKey)
	}
}
