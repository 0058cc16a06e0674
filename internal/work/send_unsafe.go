package work

import "unsafe"

// SGE is a piece of registered memory.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// RemoteAddr is an address in the peer's memory.
type RemoteAddr struct {
	Addr    uint64
	RKey    uint32
	Outside uint32 // not 0: the address is known to be invalid, and the caller refuses it
}

// SendWR is a work request for a send queue. The type that users fill has this layout.
type SendWR struct {
	ID             uint64
	Opcode         uint32
	Flags          uint32
	SGEs           []SGE
	Inline         []byte
	Remote         RemoteAddr
	Imm            uint32
	InvalidateRKey uint32
	CompareAdd     uint64
	Swap           uint64
	AH             unsafe.Pointer // the user's AH; engines get its C object or its address vector instead
	RemoteQPN      uint32
	RemoteQKey     uint32
	RemoteSRQN     uint32 // XRC_SEND
	DCStream       uint16
	DCKey          uint64
	Bind           unsafe.Pointer // the user's; engines get a Bind instead
	Flush          *FlushRange
	TSO            *TSOHeader
	Masked         *MaskedAtomic
	Mkey           unsafe.Pointer // the user's; engines get a MkeyChange instead
}

// FlushRange has the parameters of the opcode Flush in addition to an address and a key of the peer.
type FlushRange struct {
	Type   uint32
	Level  uint32
	Length uint64
}

// TSOHeader is the header of frames that the device cuts data into, and how much of it each gets.
type TSOHeader struct {
	Header []byte
	MSS    uint16
}

// ImmOrKey returns the 32 bits that travel with a message: the immediate data, or the key to invalidate.
func (w *SendWR) ImmOrKey(f Fields) uint32 {
	switch {
	case f&Imm != 0:
		return w.Imm
	case f&InvalidateRKey != 0:
		return w.InvalidateRKey
	}
	return 0
}
