package sendq

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/ibv"
)

// ScratchLen is how many bytes of memory a queue needs for atomics, and for frames that are not copied into their work
// requests and have no memory of their own.
const ScratchLen = Depth * scratchSlot

// A slot of the scratch memory belongs to the work requests of one number modulo Depth. It has room for a frame and, at
// its end, for what an atomic returns.
const (
	scratchSlot = 64
	resultLen   = 8
	resultAt    = scratchSlot - resultLen

	_ = uint(resultAt - MaxInline) // a frame fits
)

// scratch is memory that the device reads frames from, and writes what atomics return to.
type scratch struct {
	mem []byte
	at  ibv.SGE
}

// frame copies the frame of a work request, and returns where the device finds it.
func (s *scratch) frame(wr uint32, p []byte) ibv.SGE {
	slot := wr % Depth * scratchSlot
	return ibv.SGE{Addr: s.at.Addr + uint64(slot), Length: uint32(copy(s.mem[slot:], p)), LKey: s.at.LKey}
}

// result is where the device puts what the atomic of a work request returns.
func (s *scratch) result(wr uint32) ibv.SGE {
	return ibv.SGE{Addr: s.at.Addr + uint64(wr%Depth*scratchSlot+resultAt), Length: resultLen, LKey: s.at.LKey}
}

// returned reads the result of a work request's atomic.
func (s *scratch) returned(wr uint32) uint64 {
	return binary.NativeEndian.Uint64(s.mem[wr%Depth*scratchSlot+resultAt:])
}
