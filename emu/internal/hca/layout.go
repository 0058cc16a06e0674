//go:build linux

package hca

// Entry is a piece of memory of an indirect key, which has a key of its own: Len bytes, or as many again and again,
// Stride bytes apart.
type Entry struct {
	Key    uint32
	Addr   uint64
	Len    uint64
	Stride uint64
}

// Layout is what an indirect key stands for: the entries one behind the other, Repeat times.
type Layout struct {
	Entries []Entry
	Repeat  uint64
}

// Len returns the length of one repetition.
func (l *Layout) Len() (n uint64) {
	for i := range l.Entries {
		n += l.Entries[i].Len
	}
	return n
}

// Signature is what an indirect key does to blocks of data between memory and wire. A domain of no Block is without.
type Signature struct {
	Memory, Wire SigDomain
	Check        byte // bytes of a signature that are compared
	Copy         byte // and that are copied from one domain to the other
}

// SigDomain is the signature behind each block of a domain.
type SigDomain struct {
	Block  int  // bytes
	CRC    byte // 0: T10-DIF; else the selector of the CRC
	Ones   bool // the guard or CRC begins with all bits
	Sum    bool // the guard is an IP checksum
	App    uint16
	Ref    uint32
	Grows  bool // the reference tag
	Escape byte // 1: application tag; 2: and reference tag
}

// IndirectKey says what CreateIndirect makes.
type IndirectKey struct {
	Octowords    uint32 // of a layout
	Variant      uint8  // low byte of the number
	PeerMayFree  bool   // by a send with invalidate
	BSFOctowords uint32 // of a signature
}
