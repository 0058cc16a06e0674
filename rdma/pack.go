package rdma

import "github.com/pureverbs/pureverbs/rdma/internal/wire"

// Messages that cannot leave at once share a frame: a message is appended to the last frame that is staged, if it fits
// in there. Such a frame consists of records, one for each message. No frame waits to be filled.

// pack appends a message to the last staged frame, and reports whether it could.
// Preconditions: the caller has writeTurn.
func (l *link) pack(m *outgoing) bool {
	if m.buf != nil || l.peer.Flags&wire.HelloPacks == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writeError() == nil && l.q.Pack(m.p, m.flags, m.imm, l.frameMost())
}

// split makes a frame of several messages l.current, and returns the first of them. It takes the frame over.
// Preconditions: the caller has readTurn.
func (l *link) split(f frame) (*message, error) {
	f.b.Holders.Store(1)
	err := public(wire.CheckRecords(f.bytes(), min(l.e.frameMost(l.recvKind), l.maxMessage)))
	if l.partial.m != nil {
		err = &ProtocolError{"DATA", "several messages within a message", "the rest of it"}
	}
	if err != nil {
		l.giveBack(f)
		return nil, err
	}
	l.current = f
	return l.unpack(), nil
}

// unpack returns the next message of l.current.
// Preconditions: the caller has readTurn, and the records were checked.
func (l *link) unpack() *message {
	f := &l.current
	n, imm, hasImm := wire.ParseRecord(f.bytes())
	m := newMessage(l)
	m.n, m.imm, m.hasImm = int(n), imm, hasImm
	m.frames = append(m.frames, frame{b: f.b, off: f.off + wire.RecordLen, n: int32(n), flags: wire.FlagPacked})
	size := int32(wire.RecordSize(int(n)))
	if f.off, f.n = f.off+size, f.n-size; f.n > 0 {
		f.b.Holders.Add(1)
	} else {
		l.current = frame{} // the message is the last holder
	}
	return m
}
