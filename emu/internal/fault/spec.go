//go:build linux

package fault

import (
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// Op is an operation that a fault may befall. A selector never matches what is not given: QP and CQ 0, PID 0, "".
type Op struct {
	Device string
	PID    int
	QP, CQ uint32
	Opcode int // of the work request; -1 = not known
	Cmd    string
}

// Spec is one fault.
type Spec struct {
	ID   int
	Text string // as it was given
	Kind Kind
	At   Point

	// What is specific to a kind.
	Errno unix.Errno
	Delay time.Duration
	Port  int
	Index int
	GID   config.Addr // zero: the entry is emptied

	// Selectors; a zero one selects all.
	Device string
	PID    int
	QP, CQ uint32
	Opcode int // -1 = all
	Cmd    string

	// When.
	After, Every, Count uint64 // Count 0 = no bound
	Prob                float64
	Seed                uint64

	Seen, Fired uint64 // operations that the selectors matched, and faults among them

	rng *rand.Rand
}

func (s *Spec) selects(op *Op) bool {
	return (s.QP == 0 || s.QP == op.QP) && (s.CQ == 0 || s.CQ == op.CQ) && (s.Opcode < 0 || s.Opcode == op.Opcode) &&
		(s.PID == 0 || s.PID == op.PID) && (s.Device == "" || s.Device == op.Device) && (s.Cmd == "" || s.Cmd == op.Cmd)
}

// due counts an operation and reports whether the fault befalls it.
func (s *Spec) due(op *Op) bool {
	if !s.selects(op) {
		return false
	}
	s.Seen++
	switch n := s.Seen - s.After; {
	case s.Seen <= s.After, s.Count > 0 && s.Fired >= s.Count, s.Every > 1 && (n-1)%s.Every != s.Every-1:
		return false
	case s.rng != nil && s.rng.Float64() >= s.Prob:
		return false
	}
	s.Fired++
	return true
}
