package work

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
