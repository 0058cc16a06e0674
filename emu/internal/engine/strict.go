//go:build linux

package engine

import (
	"hash/maphash"
	"strconv"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// checks is strict mode: what the engine calls at the moments that a rule is about. Its methods do nothing without
// strict mode; with it they compare and report, and never decide what the engine does next.
type checks struct {
	f     *hca.Fabric
	c     *Config
	io    *scratch
	win   *window
	turns *turns
	next  int64 // audit
}

func (s *checks) on() bool { return s.c.Strict && s.f.Watch != nil }

func (s *checks) violate(pid int, rule, detail string) {
	if s.on() {
		s.f.Watch.Violation(pid, rule, detail)
	}
}

// violateQP reports a violation by the program of a QP.
func (s *checks) violateQP(qp *hca.QP, rule, detail string) {
	s.violate(qp.Mem.PID, rule, "QP 0x"+hex(qp.Num)+detail)
}

func (s *checks) violateCQ(cq *hca.CQ, rule, detail string) {
	s.violate(cq.Mem.PID, rule, "CQ 0x"+hex(cq.Num)+": "+detail)
}

var seed = maphash.MakeSeed()

func hash(b []byte) uint64 { return maphash.Bytes(seed, b) | 1 }

func u(v uint32) string   { return strconv.FormatUint(uint64(v), 10) }
func hex(v uint32) string { return strconv.FormatUint(uint64(v), 16) }

func hex64(v uint64) string { return strconv.FormatUint(v, 16) }
