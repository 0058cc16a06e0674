package work

// Brief is a work request with one SGE, and without what few work requests have. It has the size of a cache line.
type Brief struct {
	ID     uint64
	Opcode uint32
	Flags  uint32
	SGE    [1]SGE
	Remote RemoteAddr
	Imm    uint32 // or the key to invalidate
	Full   uint32 // not 0: this is only the place of a SendWR, and the SGE is empty
	_      uint64
}
