//go:build linux

package engine

import (
	"fmt"
	"hash/maphash"

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

func (s *checks) violate(pid int, rule, format string, args ...any) {
	if s.on() {
		s.f.Watch.Violation(pid, rule, fmt.Sprintf(format, args...))
	}
}

// violateQP reports a violation by the program of a QP.
func (s *checks) violateQP(qp *hca.QP, rule, format string, args ...any) {
	s.violate(qp.Mem.PID, rule, "QP 0x%x"+format, append([]any{qp.Num}, args...)...)
}

func (s *checks) violateCQ(cq *hca.CQ, rule, format string, args ...any) {
	s.violate(cq.Mem.PID, rule, "CQ 0x%x: "+format, append([]any{cq.Num}, args...)...)
}

var seed = maphash.MakeSeed()

func hash(b []byte) uint64 { return maphash.Bytes(seed, b) | 1 }
