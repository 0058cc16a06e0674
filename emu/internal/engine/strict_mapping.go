//go:build linux

package engine

import (
	"encoding/binary"
	"time"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

const compareEvery = int64(100 * time.Millisecond) // a mapping that is used all the time

// Values of a key's Print that are no fingerprint.
const (
	printNone     = 0 // not looked at
	printUnmapped = 1 // reported
)

// used compares the mapping under a key with the one at the first look, now and then.
func (s *checks) used(k *hca.MKey) {
	if !s.on() {
		return
	}
	if r := &k.Run; r.Print == printNone || nanos()-r.At >= compareEvery {
		s.compareMapping(k)
	}
}

// revoked compares the mapping under a key for the last time.
func (s *checks) revoked(k *hca.MKey) {
	if s.on() && k.Run.Print != printNone && !k.PD.Context.Device.Gone { // a device that was removed uses no memory
		s.compareMapping(k)
	}
}

func (s *checks) compareMapping(k *hca.MKey) {
	if k.Kind != hca.KeyMR || k.Len == 0 || !k.Pins() {
		return
	}
	r := &k.Run
	r.At = nanos()
	maps, err := k.Mem.Maps(k.Addr, k.Len)
	if err != nil {
		return
	}
	var b []byte // device, inode and offset of each
	at := k.Addr
	for _, m := range maps {
		if m.Start > at {
			break
		}
		at = m.End
		b = binary.LittleEndian.AppendUint64(append(b, m.Dev...), m.Inode)
		if m.Inode != 0 {
			b = binary.LittleEndian.AppendUint64(b, m.Offset-m.Start)
		}
	}
	if at-k.Addr < k.Len {
		if k.Mem.Read(at, s.io.tmp[:1]) != guest.ErrFault {
			return // the program has ended
		}
		if r.Print != printUnmapped {
			s.violate(k.Mem.PID, RuleMRUnmapped, "key 0x%x: address 0x%x of the region is not mapped", k.Key, at)
		}
		r.Print = printUnmapped
		return
	}
	now := hash(b) | 2
	if r.Print != printNone && r.Print != now {
		s.violate(k.Mem.PID, RuleMRRemapped, "key 0x%x: the mapping at 0x%x is another one than before", k.Key, k.Addr)
	}
	r.Print = now
}

// memoryGone is memory of a region that was not there when a WQE moved data: the program's own, or the responder's.
func (s *checks) memoryGone(qp *hca.QP, w *wqe, owner guest.Mem) {
	s.violate(owner.PID, RuleMRUnmapped, "QP 0x%x, WQE %d: memory of a registered region is gone", qp.Num, w.idx)
}
