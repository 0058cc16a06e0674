//go:build linux

package verbs

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/emu/internal/engine"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Offsets of the clock's pages in a context's file: command << 8, in pages.
const (
	pageSize     = 4096
	coreClockOff = uapi.MmapCoreClock << 8 * pageSize
	clockInfoOff = uapi.MmapClockInfo << 8 * pageSize

	clockShift    = 21
	clockInterval = 20 * time.Millisecond
)

// clock is the two pages of a context from which a program reads the time.
type clock struct {
	core []byte          // the free-running counter, big-endian, high word repeated so that a reader notices a carry
	info *uapi.ClockInfo // how to turn it to time
}

// tick brings the pages up to date. A program sees the clock stand still between two ticks.
func (k *clock) tick(cycles, realtime uint64) {
	hi, lo := swap32(uint32(cycles>>32)), swap32(uint32(cycles))
	atomic.StoreUint32(k.word(2), hi)
	atomic.StoreUint32(k.word(1), lo)
	atomic.StoreUint32(k.word(0), hi)

	i := k.info
	sign := i.Sign &^ 1 // a program may have scribbled over it
	atomic.StoreUint32(&i.Sign, sign|1)
	atomic.StoreUint64(&i.Nsec, realtime)
	atomic.StoreUint64(&i.Cycles, cycles)
	i.Frac, i.Mult, i.Shift, i.Mask, i.OverflowPeriod = 0, 1<<clockShift, clockShift, clockMask, uint64(time.Second)
	atomic.StoreUint32(&i.Sign, sign+2)
}

func swap32(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}

// Tick refreshes the clock of every context; the engine's loop may call it as often as it likes.
func (s *Server) Tick() {
	cycles, real := engine.Clock(), uint64(time.Now().UnixNano())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.files {
		x.clock.tick(cycles, real)
	}
}

// run ticks while there is a context.
func (s *Server) run() {
	for range time.Tick(clockInterval) {
		s.mu.Lock()
		idle := len(s.files) == 0
		if idle {
			s.ticking = false
		}
		s.mu.Unlock()
		if idle {
			return
		}
		s.Tick()
	}
}
