package link

import (
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
)

// signalBuffer is the size of a buffer whose last frame is signaled: the pool has it back soon.
const signalBuffer = 64 << 10

// inBlock is a frame whose payload of n bytes is in a block.
func inBlock(b *Block, n int) sendq.Frame[Held] {
	return sendq.Frame[Held]{Held: Held{b: b}, Mem: b.Mem, Addr: b.Addr, LKey: b.LKey, N: int32(n)}
}

// inBuffer is a frame whose payload is n bytes of a buffer from off on. Its header is in a block, or without one in
// front of the payload, which is then the buffer's beginning.
func inBuffer(buf *pool.Buf, b *Block, off, n int) sendq.Frame[Held] {
	f := sendq.Frame[Held]{Held: Held{b: b, buf: buf}, N: int32(n), Lent: true, Last: off+n == buf.Len()}
	f.Soon = f.Last && buf.Len() >= signalBuffer
	if b != nil {
		f.Mem, f.Addr, f.LKey, f.Tail = b.Mem, b.Addr, b.LKey, buf.SGE(off, n)
	} else {
		f.Mem, f.Addr, f.LKey = buf.Mem, buf.Addr-Headroom, buf.LKey
	}
	return f
}

// ask asks for the completion of what is under way, if nothing else does.
// Preconditions: l.Mu is held.
func (l *Link) ask(n sendq.Need) {
	if !l.End.Ending && l.Queue.Ask(n) {
		l.Pump()
	}
}
