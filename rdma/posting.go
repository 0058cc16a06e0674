package rdma

import (
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
)

// signalBuffer is the size of a buffer whose last frame is signaled: the pool has it back soon.
const signalBuffer = 64 << 10

// inBlock is a frame whose payload of n bytes is in a block.
func inBlock(b *block, n int) sendq.Frame[held] {
	return sendq.Frame[held]{Held: held{b: b}, Mem: b.Mem, Addr: b.Addr, LKey: b.LKey, N: int32(n)}
}

// inBuffer is a frame whose payload is n bytes of a buffer from off on. Its header is in a block, or without one in
// front of the payload, which is then the buffer's beginning.
func inBuffer(buf *pool.Buf, b *block, off, n int) sendq.Frame[held] {
	f := sendq.Frame[held]{Held: held{b: b, buf: buf}, N: int32(n), Lent: true, Last: off+n == buf.Len()}
	f.Soon = f.Last && buf.Len() >= signalBuffer
	if b != nil {
		f.Mem, f.Addr, f.LKey, f.Tail = b.Mem, b.Addr, b.LKey, buf.SGE(off, n)
	} else {
		f.Mem, f.Addr, f.LKey = buf.Mem(), buf.Addr()-headroom, buf.LKey()
	}
	return f
}

// hurry asks for the completions of all sends from buffers.
func (e *Engine) hurry() {
	for _, l := range e.all() {
		l.mu.Lock()
		l.ask(sendq.Buffers)
		l.mu.Unlock()
	}
}

// ask asks for the completion of what is under way, if nothing else does.
// Preconditions: l.mu is held.
func (l *link) ask(n sendq.Need) {
	if !l.end.Ending() && l.q.Ask(n) {
		l.pump()
	}
}
