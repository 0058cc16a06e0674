//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// srqReceive follows the list of an SRQ.
func (rv *receives) srqReceive(s *hca.SRQ) (recvEntry, bool) {
	r := &s.Run
	if r.Posted == r.Used || !r.Has(r.Next) {
		if !rv.srqFetch(s) || r.Posted == r.Used {
			return recvEntry{}, false
		}
	}
	b := r.Entry(r.Next, s.Ring.Shift)[16:]
	return recvEntry{b, uint16(r.Next)}, true
}

// srqFetch reads the doorbell record and the entries from the head on, which mostly follow each other.
func (rv *receives) srqFetch(s *hca.SRQ) bool {
	r, q := &s.Run, &s.Ring
	if q.Count == 0 || q.Shift < 5 {
		return false
	}
	n := ahead(q)
	if r.Ring == nil {
		r.Ring = make([]byte, 4+n<<q.Shift)
	}
	i := r.Next & (q.Count - 1)
	n = min(n, q.Count-i)
	v := append(rv.io.win[:0],
		guest.IOV{Base: s.DB, Len: 4}, guest.IOV{Base: q.Base + uint64(i)<<q.Shift, Len: uint64(n) << q.Shift})
	r.Valid = 0
	if err := s.Mem.ReadV(r.Ring[:4+n<<q.Shift], v); err != nil {
		if err == guest.ErrFault {
			rv.strict.violate(s.Mem.PID, RuleRingUnmapped, "SRQ 0x%x: its ring or doorbell record cannot be read",
				s.Num)
		}
		return false
	}
	r.Posted += uint32(binary.BigEndian.Uint16(r.Ring[2:]) - uint16(r.Posted))
	copy(r.Ring, r.Ring[4:])
	r.Next, r.From = i, i
	// Entries past what is posted may change yet.
	r.Valid = min(n, r.Posted-r.Used)
	r.Left = r.Valid
	return true
}

// srqConsume uses up the entry at the head of the list.
func (rv *receives) srqConsume(s *hca.SRQ) {
	r := &s.Run
	rv.strict.emptySegment(s, r.Entry(r.Next, s.Ring.Shift)[16:])
	r.Next = uint32(binary.BigEndian.Uint16(r.Entry(r.Next, s.Ring.Shift)[2:])) & (s.Ring.Count - 1)
	r.Used++
	if r.Left--; r.Left == 0 {
		r.Valid = 0 // they will be posted again
	}
	if r.Armed {
		rv.limits = append(rv.limits, s)
	}
}

// raiseLimits raises the limit events that consumed receives may have caused.
func (rv *receives) raiseLimits() {
	for _, s := range rv.limits {
		rv.srqLimit(s)
	}
	rv.limits = rv.limits[:0]
}

// srqLimit raises the limit event when the SRQ is below its limit.
func (rv *receives) srqLimit(s *hca.SRQ) {
	r := &s.Run
	if !r.Armed || r.Posted-r.Used >= s.Limit {
		return
	}
	// The program may have posted since.
	var rec [4]byte
	if s.Mem.Read(s.DB, rec[:]) == nil {
		if n := binary.BigEndian.Uint16(rec[2:]) - uint16(r.Used); uint32(n) >= s.Limit {
			return
		}
	}
	r.Armed = false
	s.Limit = 0
	s.Event(hca.EventSRQLimitReached)
}
