package rdma

import (
	"encoding/binary"
	"fmt"
)

// Messages that cannot leave at once share a frame: a message is appended to the last frame that is staged, if it fits
// in there. Such a frame consists of records, one for each message. No frame waits to be filled.

const (
	recordLen = 8       // length with a flag, and immediate
	recordImm = 1 << 31 // flag: the message has an immediate
)

// recordSize is how much of a frame a message of n bytes takes.
func recordSize(n int) int { return recordLen + (n+7)&^7 }

// putRecord writes all of a record but the message, which has n bytes.
func putRecord(p []byte, n int, flags uint8, imm uint32) {
	word := uint32(n)
	if flags&flagImm != 0 {
		word |= recordImm
	} else {
		imm = 0
	}
	binary.LittleEndian.PutUint32(p, word)
	binary.LittleEndian.PutUint32(p[4:], imm)
	clear(p[recordLen+n : recordSize(n)]) // the block has had others' data
}

// parseRecord reads what putRecord has written.
func parseRecord(p []byte) (n, imm uint32, hasImm bool) {
	word := binary.LittleEndian.Uint32(p)
	return word &^ recordImm, binary.LittleEndian.Uint32(p[4:]), word&recordImm != 0
}

// pack appends a message to the last staged frame, and reports whether it could. The first record begins in the
// headroom, so that its message stays where it is.
// Preconditions: the caller has writeTurn.
func (l *link) pack(m *outgoing) bool {
	if m.buf != nil || l.peer.flags&helloPacks == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out.len() == 0 || l.writeError() != nil {
		return false
	}
	f := l.out.last()
	used := int(f.n)
	if f.flags&flagPacked == 0 {
		used = recordSize(used)
	}
	if !f.alone || used+recordSize(m.n) > l.frameMost() {
		return false
	}
	p := f.b.mem[headroom-recordLen:]
	if f.flags&flagPacked == 0 {
		putRecord(p, int(f.n), f.flags, f.aux)
		f.flags, f.aux, f.off = flagPacked, 0, -recordLen
	}
	putRecord(p[used:], m.n, m.flags, m.imm)
	copy(p[used+recordLen:], m.p)
	f.n = int32(used + recordSize(m.n))
	return true
}

// split makes a frame of several messages l.current, and returns the first of them. It takes the frame over.
// Preconditions: the caller has readTurn.
func (l *link) split(f frame) (*Message, error) {
	f.b.holders.Store(1)
	err := checkRecords(f.bytes(), min(l.e.opt.Block, l.maxMessage))
	if l.partial != nil {
		err = &ProtocolError{"DATA", "several messages within a message", "the rest of it"}
	}
	if err != nil {
		l.giveBack(f)
		return nil, err
	}
	l.current = f
	return l.unpack(), nil
}

// checkRecords reports what is wrong with the payload of a frame of messages of at most most bytes.
func checkRecords(p []byte, most int) error {
	for first := true; first || len(p) > 0; first = false {
		if len(p) < recordLen {
			return &ProtocolError{"DATA", fmt.Sprintf("%d bytes of a record", len(p)), "8 or more"}
		}
		n, _, _ := parseRecord(p)
		if n > uint32(most) {
			return &ProtocolError{"DATA", fmt.Sprintf("a message of %d bytes", n), fmt.Sprintf("at most %d", most)}
		}
		size := recordSize(int(n))
		if size > len(p) {
			return &ProtocolError{"DATA", fmt.Sprintf("a record of %d bytes", size),
				fmt.Sprintf("at most %d, the rest of the frame", len(p))}
		}
		p = p[size:]
	}
	return nil
}

// unpack returns the next message of l.current.
// Preconditions: the caller has readTurn, and the records were checked.
func (l *link) unpack() *Message {
	f := &l.current
	n, imm, hasImm := parseRecord(f.bytes())
	m := messages.Get().(*Message)
	m.l, m.n, m.imm, m.hasImm = l, int(n), imm, hasImm
	m.frames = append(m.frames, frame{b: f.b, off: f.off + recordLen, n: int32(n), flags: flagPacked})
	size := int32(recordSize(int(n)))
	if f.off, f.n = f.off+size, f.n-size; f.n > 0 {
		f.b.holders.Add(1)
	} else {
		l.current = frame{} // the message is the last holder
	}
	return m
}
